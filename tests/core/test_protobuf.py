"""The reader of protobuf messages takes what the format allows, and refuses everything else by its place."""

from __future__ import annotations

import random

import pytest

from ccarena.core.protobuf import Message, ProtobufError, varint
from tests.published import field
from tests.published import varint as encoded


def test_fields_are_read_by_number_and_type() -> None:
    packed = field(4, encoded(7) + encoded(300))
    message = Message(field(1, 150) + field(2, 2.5) + field(3, field(1, 9)) + packed + field(5, 3) + field(1, 151))
    assert (message.whole(1), message.double(2), message.message(3).whole(1)) == (151, 2.5, 9)
    assert message.wholes(4) == [7, 300]
    assert message.wholes(1) == [150, 151]
    assert (message.zigzag(5), Message(field(5, 4)).zigzag(5)) == (-2, 2)
    assert (message.whole(9), message.double(9, 1.5), message.zigzag(9), message.wholes(9)) == (0, 1.5, 0, [])
    assert [each.whole(1) for each in message.messages(3)] == [9]
    assert 9 not in message
    assert 3 in message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80", "an integer at byte 0 is cut off"),
        (b"\x08" + b"\xff" * 11, "an integer at byte 1 has more than 10 bytes"),
        (field(1, b"1234")[:-1], "field 1 at byte 2 has 4 bytes, and 3 follow"),
        (field(2, 1.0)[:-3], "field 2 at byte 1 has 8 bytes, and 5 follow"),
        (b"\x00\x01", "number 0"),
        (b"\x0b", "field 1 before byte 1 has the wire type 3; expected 0, 1, 2 or 5"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(ProtobufError, match=said):
        Message(data)


def test_a_field_of_another_type_is_refused() -> None:
    message = Message(field(1, 150) + field(2, b"ab"))
    for call in (message.double, message.message, message.fixed32, lambda n: list(message.messages(n))):
        with pytest.raises(ProtobufError, match="field 1 has the wire type 0; expected"):
            call(1)
    with pytest.raises(ProtobufError, match="field 2 has the wire type 2; expected 0"):
        message.whole(2)


def test_any_bytes_give_a_message_or_an_error() -> None:
    generator = random.Random(1)
    for _ in range(3000):
        data = bytes(generator.choice((0, 1, 8, 10, 13, 0x80, 0xFF, generator.randrange(256))) for _ in range(12))
        try:
            message = Message(data)
            message.wholes(1)
        except ProtobufError:
            continue
    assert varint(encoded(2**63), 0) == (2**63, 10)
