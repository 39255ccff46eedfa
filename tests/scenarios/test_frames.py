"""The frames of `ccarena-kernel run`: what is written is read, and nothing else gets past."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.errors import RunnerError
from ccarena.scenarios.frames import Array, Decision, Decoder, Failure, Result, Started, assemble
from tests.cc_kernel_bridge import kernel_frames as wire

STREAM = (
    wire.started()
    + wire.decision(3, 7_000_000, [1.0, 2.0], [3.0])
    + wire.result()
    + wire.document("E", {"kind": "machine", "message": "no TUN"})
)


def test_every_kind_is_read() -> None:
    started, due, reports, arrivals, result, failure = Decoder().feed(STREAM)
    assert isinstance(started, Started) and started.zero_ns == 12 and started.flows[0]["scheme"] == "acct"
    assert isinstance(due, Decision) and (due.flow, due.time_ns) == (3, 7_000_000)
    assert due.observation.tolist() == [1.0, 2.0] and due.report.tolist() == [3.0]
    assert due.observation.dtype == np.float32 and due.observation.flags.writeable
    assert isinstance(reports, Array) and isinstance(arrivals, Array) and isinstance(result, Result)
    whole = assemble(result, {"r": reports.values, "a": arrivals.values})
    assert whole["flows"][0]["reports"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert whole["links"][0]["log"]["arrival_ns"].tolist() == [1, 2**63]
    assert failure == Failure("machine", "no TUN")


@given(st.lists(st.integers(1, 60), min_size=1))
def test_pieces_of_any_size_give_the_same_frames(cuts: list[int]) -> None:
    decoder, kinds, at = Decoder(), [], 0
    while at < len(STREAM):
        for cut in cuts:
            kinds += [type(frame) for frame in decoder.feed(STREAM[at : at + cut])]
            at += cut
    assert kinds == [Started, Decision, Array, Array, Result, Failure]


@given(st.integers(0, len(STREAM) - 1))
def test_a_stream_that_is_cut_gives_whole_frames_only(end: int) -> None:
    whole = list(Decoder().feed(STREAM))
    cut = list(Decoder().feed(STREAM[:end]))
    assert len(cut) < len(whole)
    assert [type(frame) for frame in cut] == [type(frame) for frame in whole[: len(cut)]]


@given(st.binary(min_size=5, max_size=200))
def test_garbage_is_refused_or_waited_for(data: bytes) -> None:
    decoder = Decoder()
    try:
        list(decoder.feed(data))
    except RunnerError as error:
        assert "ccarena-kernel" in str(error)
    else:
        length, kind = struct.unpack_from("<IB", data)
        assert chr(kind) in "SDARE" and length > 0, "what cannot begin a frame must not be waited for"


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
def test_a_flipped_byte_never_escapes_as_another_error(at: int, flip: int) -> None:
    damaged = bytearray(STREAM)
    damaged[at] ^= flip
    arrays: dict[str, np.ndarray] = {}
    try:
        for frame in Decoder().feed(bytes(damaged)):
            if isinstance(frame, Array):
                arrays[frame.name] = frame.values
            elif isinstance(frame, Result):
                assemble(frame, arrays)
    except RunnerError:
        pass


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wire.frame("X", b""), "no frame"),
        (struct.pack("<IB", 0, ord("S")), "no frame"),
        (struct.pack("<IB", 2**31 + 1, ord("A")), "no frame"),
        (wire.frame("S", b"{"), "no JSON mapping"),
        (wire.frame("S", b"[" * 100_000), "no JSON mapping"),
        (wire.document("S", {"flows": {}}), "type S"),
        (wire.frame("D", bytes(19)), "type D"),
        (wire.frame("D", struct.pack("<IQII", 0, 0, 2**32 - 1, 2**32 - 1)), "type D"),
        (wire.frame("A", b"\xff\xff"), "type A"),
        (wire.frame("A", b"\x01\x00ax1234"), "type A"),
        (wire.frame("A", b"\x01\x00\xffI1234"), "UTF-8"),
        (wire.frame("A", b"\x01\x00aI123"), "type A"),
        (wire.document("R", {"flows": []}), "type R"),
    ],
)
def test_a_broken_frame_is_named(data: bytes, message: str) -> None:
    with pytest.raises(RunnerError, match=message):
        list(Decoder().feed(data))


@pytest.mark.parametrize(
    "reference", [{"$array": "b"}, {"$array": "a", "shape": [7, 7]}, {"$array": "a", "shape": "x"}]
)
def test_a_result_with_an_array_that_does_not_fit_is_refused(reference: dict) -> None:
    (result,) = Decoder().feed(wire.document("R", {"flows": [reference], "links": []}))
    assert isinstance(result, Result)
    with pytest.raises(RunnerError, match=r"array|shape"):
        assemble(result, {"a": np.arange(6)})


def test_a_failure_without_words_is_still_one() -> None:
    (failure,) = Decoder().feed(wire.frame("E", json.dumps({}).encode()))
    assert failure == Failure("internal", "without a message")
