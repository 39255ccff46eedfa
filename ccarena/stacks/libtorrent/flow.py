"""One flow over libtorrent's uTP: `flow.py receiver` downloads a torrent of zeros from `flow.py sender`."""

import hashlib
import os
import sys
import time

import libtorrent as lt

PIECE = 1 << 20
FILE = 128 << 20
"""Size of one file; programs may not write large ones."""
SIZE = int(os.environ.get("CCARENA_BYTES", 64 * FILE))
POLL_S = 0.02


def torrent() -> lt.torrent_info:
    """Returns the description of the torrent, which both ends know: all pieces are alike, and so are their hashes."""
    sizes = [min(FILE, SIZE - begin) for begin in range(0, SIZE, FILE)]
    pieces, rest = divmod(SIZE, PIECE)
    hashes = hashlib.sha1(bytes(PIECE)).digest() * pieces + (hashlib.sha1(bytes(rest)).digest() if rest else b"")
    files = [{b"length": size, b"path": [str(index).encode()]} for index, size in enumerate(sizes)]
    info = {b"name": b"zeros", b"piece length": PIECE, b"pieces": hashes, b"files": files}
    return lt.torrent_info(lt.bdecode(lt.bencode({b"info": info})))


def session(address: str, port: int) -> lt.session:
    """Returns a session that talks uTP alone, to peers that it is told, without limits of its own."""
    return lt.session(
        {
            "listen_interfaces": f"{address}:{port}",
            "enable_outgoing_tcp": False,
            "enable_incoming_tcp": False,
            "enable_outgoing_utp": True,
            "enable_incoming_utp": True,
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            "allow_multiple_connections_per_ip": True,
            "in_enc_policy": int(lt.enc_policy.disabled),
            "out_enc_policy": int(lt.enc_policy.disabled),
            # How much is asked for ahead: the flow-control window of this protocol.
            "max_out_request_queue": 4096,
            "max_allowed_in_request_queue": 8192,
            "request_queue_time": 60,
            "send_buffer_watermark": 16 << 20,
            "send_buffer_low_watermark": 4 << 20,
            "max_queued_disk_bytes": 64 << 20,
            "file_pool_size": 100,
            "alert_mask": 0,
        }
    )


def add(here: lt.session, seeds: bool) -> lt.torrent_handle:
    """Adds the torrent. A seed has holes in its files, which read as zeros."""
    folder = "seed" if seeds else "peer"
    params = lt.add_torrent_params()
    params.ti = torrent()
    params.save_path = folder
    params.flags = lt.torrent_flags.default_flags & ~(lt.torrent_flags.paused | lt.torrent_flags.auto_managed)
    if seeds:
        params.flags |= lt.torrent_flags.seed_mode
        os.makedirs(f"{folder}/zeros")
        for index, begin in enumerate(range(0, SIZE, FILE)):
            with open(f"{folder}/zeros/{index}", "wb") as file:
                file.truncate(min(FILE, SIZE - begin))
    return here.add_torrent(params)


def send(receiver: str, port: int) -> None:
    """Sends to the receiver until the end."""
    here = session(os.environ["CCARENA_SENDER"], port)
    handle = add(here, seeds=True)
    handle.connect_peer((receiver, port))
    while True:
        time.sleep(1)


def receive(receiver: str, port: int) -> None:
    """Receives until the end."""
    here = session(receiver, port)
    handle = add(here, seeds=False)
    path = os.environ.get("CCARENA_RECEIVED")
    while True:
        time.sleep(POLL_S)
        if path:
            with open(path, "ab") as file:
                file.truncate(handle.status().total_payload_download)


run = send if sys.argv[1:] == ["sender"] else receive
run(os.environ["CCARENA_RECEIVER"], int(os.environ["CCARENA_PORT"]))
