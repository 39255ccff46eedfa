"""One flow over aioquic: `flow.py server` receives what `flow.py client` sends."""

import asyncio
import os
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, QuicEvent, StreamDataReceived

WINDOW = 64 << 20
"""Flow-control windows, which are to bound nothing."""
AHEAD = 256 << 10
"""Data that waits in the stream beyond what has been sent."""
ZEROS = bytes(AHEAD)


class Receiver(QuicConnectionProtocol):
    """End that counts what it receives."""

    received = 0

    def quic_event_received(self, event: QuicEvent) -> None:
        if not isinstance(event, StreamDataReceived):
            return
        self.received += len(event.data)
        if path := os.environ.get("CCARENA_RECEIVED"):
            with open(path, "ab") as file:
                file.truncate(self.received)
        if event.end_stream:
            self.close()


class Sender(QuicConnectionProtocol):
    """End that keeps a stream filled."""

    stream: int | None = None
    written = 0
    size = int(os.environ.get("CCARENA_BYTES", 1 << 62))

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.stream = self._quic.get_next_available_stream_id(is_unidirectional=True)

    def transmit(self) -> None:
        # Called whenever an acknowledgement or a timer may allow packets; aioquic itself buffers without a bound.
        if self.stream is not None and self.written < self.size:
            sent = self._quic._streams[self.stream].sender.highest_offset if self.written else 0
            more = min(AHEAD - (self.written - sent), self.size - self.written)
            if more > 0:
                self.written += more
                self._quic.send_stream_data(self.stream, ZEROS[:more], end_stream=self.written == self.size)
        super().transmit()


def configuration(client: bool) -> QuicConfiguration:
    """Returns the configuration of one end."""
    return QuicConfiguration(
        is_client=client,
        alpn_protocols=["stack"],
        verify_mode=ssl.CERT_NONE,
        max_data=WINDOW,
        max_stream_data=WINDOW,
        congestion_control_algorithm=os.environ["CCARENA_CONTROL"],
    )


async def receive(address: str, port: int) -> None:
    """Receives a flow."""
    here = configuration(client=False)
    here.load_cert_chain("cert.pem", "key.pem")
    await serve(address, port, configuration=here, create_protocol=Receiver)
    await asyncio.Event().wait()


async def send(address: str, port: int) -> None:
    """Sends a flow, until the receiver has all of it."""
    here = configuration(client=True)
    async with connect(address, port, configuration=here, create_protocol=Sender) as client:
        await client.wait_closed()


run = receive if sys.argv[1:] == ["server"] else send
asyncio.run(run(os.environ["CCARENA_RECEIVER"], int(os.environ["CCARENA_PORT"])))
