"""Fetching against a real HTTP server on this machine: resume, checksums, copies, faults."""

from __future__ import annotations

import errno
import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ccarena.errors import ConfigError, DownloadError
from ccarena.traces import fetch
from ccarena.traces.manifest import Entry, manifest, sets

DATA = "".join(f"{ms}\n" for ms in range(1, 60_000)).encode()


class Server(ThreadingHTTPServer):
    """Serves DATA as every path; `faults` are what befalls the next requests, `requests` what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[str] = []
        self.ranges = True
        self.requests: list[str | None] = []

    def entry(self, name: str = "a", **changes: object) -> Entry:
        fields: dict[str, object] = {
            "set": "s",
            "name": name,
            "url": f"http://127.0.0.1:{self.server_port}/{name}",
            "bytes": len(DATA),
            "sha256": hashlib.sha256(DATA).hexdigest(),
            "licence": "none",
            "opportunities": 59_999,
            "duration_ms": 59_999,
            "mean_mbps": 12.0,
            "moves": "driving",
        }
        return Entry(**{**fields, **changes})  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault.isdigit():
            self.send_error(int(fault))
            return
        body = DATA
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            body = DATA[start:]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "break" else body)

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _fetch(entries: list[Entry], to: Path, source: Path | None = None) -> dict[str, str]:
    return {done.entry.name: done.action for done in fetch.fetch("s", to, source, entries=entries, retry_wait_s=0.001)}


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_set_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    entries = [server.entry("a"), server.entry("b"), server.entry("c", set="other")]
    assert _fetch(entries, tmp_path) == {"a": "downloaded", "b": "downloaded"}
    assert (tmp_path / "s" / "a").read_bytes() == DATA
    assert _fetch(entries, tmp_path) == {"a": "present", "b": "present"}
    assert len(server.requests) == 2
    assert _names(tmp_path) == ["a", "b"]


def test_a_broken_transfer_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.faults = ["break", "503"]
    assert _fetch([server.entry()], tmp_path) == {"a": "resumed"}
    assert server.requests == [None, f"bytes={len(DATA) // 2}-", f"bytes={len(DATA) // 2}-"]
    assert (tmp_path / "s" / "a").read_bytes() == DATA


def test_a_later_run_resumes_too(server: Server, tmp_path: Path) -> None:
    server.faults = ["break"] * 4
    with pytest.raises(DownloadError, match="The same command goes on from here"):
        _fetch([server.entry()], tmp_path)
    (part,) = _names(tmp_path)
    assert part == "a.part"
    assert _fetch([server.entry()], tmp_path) == {"a": "resumed"}


def test_a_server_without_ranges_sends_everything_again(server: Server, tmp_path: Path) -> None:
    server.faults, server.ranges = ["break"], False
    assert _fetch([server.entry()], tmp_path) == {"a": "downloaded"}
    assert (tmp_path / "s" / "a").read_bytes() == DATA


@pytest.mark.parametrize("rest", [b"x" * 1000, b"x" * len(DATA), b"x" * (len(DATA) + 5)])
def test_a_spoilt_beginning_is_thrown_away(server: Server, tmp_path: Path, rest: bytes) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.part").write_bytes(rest)
    assert _fetch([server.entry()], tmp_path) == {"a": "downloaded"}
    assert (tmp_path / "s" / "a").read_bytes() == DATA


def test_a_changed_file_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a").write_bytes(DATA[:-2] + b"0\n")
    assert _fetch([server.entry()], tmp_path) == {"a": "downloaded"}


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"bytes": len(DATA) - 10}])
def test_what_differs_from_the_manifest_is_refused(server: Server, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(DownloadError, match="nothing was installed under its name"):
        _fetch([server.entry(**changes)], tmp_path)
    assert _names(tmp_path) == []


def test_a_missing_file_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    server.faults = ["404"] * 4
    with pytest.raises(DownloadError, match="the server answered 404"):
        _fetch([server.entry()], tmp_path)
    assert len(server.requests) == 1


def test_without_a_connection_the_message_says_what_else_works(server: Server, tmp_path: Path) -> None:
    # A port that was just given back: nothing listens there.
    with Server() as gone:
        url = f"http://127.0.0.1:{gone.server_port}/a"
    with pytest.raises(DownloadError, match=re.escape("--from DIR")) as caught:
        _fetch([server.entry(url=url)], tmp_path)
    assert "Connection refused" in str(caught.value)
    with pytest.raises(DownloadError, match="expected an http or https address"):
        _fetch([server.entry(url="file:///etc/hostname")], tmp_path)


def test_copies_at_hand_are_checked(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a").write_bytes(DATA)
    assert _fetch([server.entry()], tmp_path / "to", source) == {"a": "copied"}
    assert (tmp_path / "to" / "s" / "a").read_bytes() == DATA
    with pytest.raises(DownloadError, match=r"1 of the 2 files of set \"s\" are not in .*: b;"):
        _fetch([server.entry("a"), server.entry("b")], tmp_path / "to", source)
    (source / "b").write_bytes(DATA[1:])
    with pytest.raises(DownloadError, match="it was not copied"):
        _fetch([server.entry("b")], tmp_path / "to", source)
    assert _names(tmp_path / "to") == ["a"]
    with pytest.raises(DownloadError, match="there is no such folder"):
        _fetch([server.entry()], tmp_path / "to", tmp_path / "absent")
    assert not server.requests


def test_a_full_disk_is_said_before_and_during(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = server.entry(bytes=2**60)
    with pytest.raises(DownloadError, match="bytes are free"):
        _fetch([huge], tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ccarena.traces.fetch.os.replace", full)
    with pytest.raises(DownloadError, match="the disk is full"):
        _fetch([server.entry()], tmp_path)
    assert _names(tmp_path) == ["a.part"]


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("in the way")
    with pytest.raises(DownloadError, match=re.escape(str(tmp_path / "s"))):
        _fetch([server.entry()], tmp_path)


def test_the_manifest_is_sound() -> None:
    entries = manifest()
    assert sets() == ["mahimahi", "nyc-lte"]
    assert len({(entry.set, entry.name) for entry in entries}) == len(entries) == 28
    for entry in entries:
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
        assert re.fullmatch(r"[\w.-]+", entry.name)
        assert entry.url.startswith("https://")
        assert entry.bytes > 0
    with pytest.raises(ConfigError, match='did you mean "mahimahi"'):
        fetch.fetch("mahimah")
