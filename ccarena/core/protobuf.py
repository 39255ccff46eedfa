"""Reader of protobuf messages without their schema: fields by number, for small files from outside.

The format is described at https://protobuf.dev/programming-guides/encoding/. Every length is checked against the bytes
that are there, so the time and memory of a message are within a small factor of its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["Message", "ProtobufError", "varint"]

_MOST_VARINT_BYTES = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """Error for bytes that are no message, or for a field of another type; the message says why, without the path."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the variable-length integer at byte `at`, and the place after it. Raises ProtobufError if it is cut
    off.
    """
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        if at + index >= len(data):
            raise ProtobufError(f"an integer at byte {at} is cut off")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    raise ProtobufError(f"an integer at byte {at} has more than {_MOST_VARINT_BYTES} bytes")


class Message:
    """Message as its fields by number, each a list of values in the order in which they are in the file.

    A method takes the number of a field, and returns the last value, as protobuf does, or `default` if it is missing.
    """

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        for number, kind, value in _parts(data):
            self._fields.setdefault(number, []).append((kind, value))

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def whole(self, number: int, default: int = 0) -> int:
        """Returns an unsigned integer (`uint32`, `int64` that is not negative, an enumeration)."""
        return int(self._last(number, _VARINT, default))

    def zigzag(self, number: int, default: int = 0) -> int:
        """Returns a signed integer of type `sint32` or `sint64`."""
        value = self.whole(number, -1)
        return default if value < 0 else (value >> 1) ^ -(value & 1)

    def wholes(self, number: int) -> list[int]:
        """Returns a repeated unsigned integer, packed or not."""
        found: list[int] = []
        for kind, value in self._fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            if kind != _BYTES:
                raise _other(number, kind, _VARINT)
            at = 0
            while at < len(value):
                each, at = varint(value, at)
                found.append(each)
        return found

    def fixed32(self, number: int, default: int = 0) -> int:
        """Returns an integer of type `fixed32`."""
        value = self._last(number, _FIXED32, b"")
        return int.from_bytes(value, "little") if isinstance(value, bytes) and value else default

    def double(self, number: int, default: float = 0.0) -> float:
        """Returns a number of type `double`."""
        value = self._last(number, _FIXED64, b"")
        return float(struct.unpack("<d", value)[0]) if isinstance(value, bytes) and value else default

    def message(self, number: int) -> Message:
        """Returns a message; one without fields if it is missing."""
        value = self._last(number, _BYTES, b"")
        return Message(value if isinstance(value, bytes) else b"")

    def messages(self, number: int) -> Iterator[Message]:
        """Returns the messages of a repeated field, one after the other."""
        for kind, value in self._fields.get(number, []):
            if kind != _BYTES or not isinstance(value, bytes):
                raise _other(number, kind, _BYTES)
            yield Message(value)

    def _last(self, number: int, kind: int, default: int | bytes) -> int | bytes:
        if number not in self._fields:
            return default
        found, value = self._fields[number][-1]
        if found != kind:
            raise _other(number, found, kind)
        return value


def _other(number: int, found: int, expected: int) -> ProtobufError:
    return ProtobufError(f"field {number} has the wire type {found}; expected {expected}")


def _parts(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError(f"a field before byte {at} has the number 0")
        if kind == _VARINT:
            value, at = varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            length, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError(f"field {number} before byte {at} has the wire type {kind}; expected 0, 1, 2 or 5")
        if length > len(data) - at:
            raise ProtobufError(f"field {number} at byte {at} has {length} bytes, and {len(data) - at} follow")
        yield number, kind, data[at : at + length]
        at += length
