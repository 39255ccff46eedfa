"""One video over aiortc: `flow.py receiver` gets what `flow.py sender` sends.

aiortc has the receiver's half of Google Congestion Control (draft-ietf-rmcat-gcc-02). The receiver estimates the rate
from delays, and tells the sender (REMB). aiortc's own encoders stop at 3 Mbit/s. Here frames are as large as the rate
allows.
"""

import asyncio
import os
import sys
import time
from fractions import Fraction
from pathlib import Path

import aioice.ice
import aiortc
import aiortc.rtcrtpreceiver
import aiortc.rtcrtpsender
import av
from aiortc.codecs.h264 import MAX_BITRATE

FRAMES_PER_S = 30
CLOCK_HZ = 90_000
DESCRIPTION = b"\x10"
"""The least payload descriptor of VP8 (RFC 7741)."""
PAYLOAD = DESCRIPTION + bytes(1199)
POLL_S = 0.02


class Video:
    """Encoder whose frames are as large as the target rate says."""

    target_bitrate = MAX_BITRATE

    def encode(self, frame: av.VideoFrame, force_keyframe: bool = False) -> tuple[list[bytes], int]:
        packets = round(self.target_bitrate / FRAMES_PER_S / 8 / len(PAYLOAD))
        return [PAYLOAD] * max(packets, 1), frame.pts


class Sink:
    """Decoder that shows nothing."""

    def decode(self, frame: object) -> list[av.VideoFrame]:
        return []


class Camera(aiortc.MediaStreamTrack):
    """Frames at a constant rate."""

    kind = "video"

    def __init__(self) -> None:
        super().__init__()
        self.begun_s = time.monotonic()
        self.frames = 0

    async def recv(self) -> av.VideoFrame:
        self.frames += 1
        await asyncio.sleep(max(self.begun_s + self.frames / FRAMES_PER_S - time.monotonic(), 0))
        frame = av.VideoFrame(16, 16)
        frame.pts, frame.time_base = self.frames * CLOCK_HZ // FRAMES_PER_S, Fraction(1, CLOCK_HZ)
        return frame


def connection(own: str) -> aiortc.RTCPeerConnection:
    """Returns a connection from the flow's own address."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: [os.environ[own]]
    aiortc.rtcrtpsender.get_encoder = lambda codec: Video()
    aiortc.rtcrtpreceiver.get_decoder = lambda codec: Sink()
    return aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))


async def send() -> None:
    """Sends the video until the end."""
    here = connection("CCARENA_SENDER")
    here.addTrack(Camera())
    await here.setLocalDescription(await here.createOffer())
    tell("offer", here.localDescription.sdp)
    await here.setRemoteDescription(aiortc.RTCSessionDescription(await told("answer"), "answer"))
    await asyncio.Event().wait()


async def receive() -> None:
    """Receives the video until the end."""
    here = connection("CCARENA_RECEIVER")
    print("waiting", flush=True)
    await here.setRemoteDescription(aiortc.RTCSessionDescription(await told("offer"), "offer"))
    await here.setLocalDescription(await here.createAnswer())
    tell("answer", here.localDescription.sdp)
    path = os.environ.get("CCARENA_RECEIVED")
    while True:
        await asyncio.sleep(POLL_S)
        if path:
            stats = (await here.getStats()).values()
            with open(path, "ab") as file:
                file.truncate(sum(each.bytesReceived for each in stats if each.type == "transport"))


def tell(name: str, text: str) -> None:
    """Gives the other end a description, by a file of the folder that they share."""
    part = Path(f"{name}.part")
    part.write_text(text)
    part.rename(name)


async def told(name: str) -> str:
    """Waits for a description from the other end."""
    while not Path(name).exists():
        await asyncio.sleep(POLL_S)
    return Path(name).read_text()


run = send if sys.argv[1:] == ["sender"] else receive
asyncio.run(run())
