"""Reader of TensorFlow checkpoints (`PREFIX.index` and `PREFIX.data-00000-of-00001`), without TensorFlow.

The index is a table in LevelDB's format (https://github.com/google/leveldb/blob/main/doc/table_format.md) from a
tensor's name to its type, shape and place (tensorflow/core/protobuf/tensor_bundle.proto). The data file has the bytes.
Files from outside are not trusted: sizes, order and checksums are checked, and nothing is unpickled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccarena.core.protobuf import Message, ProtobufError, varint
from ccarena.core.reader import LARGEST_DOCUMENT_BYTES, LARGEST_POLICY_BYTES, read_bytes
from ccarena.errors import PolicyError

__all__ = ["DATA", "INDEX", "Bundle", "masked_crc32c", "prefix_of"]

INDEX, DATA = ".index", ".data-00000-of-00001"
MOST_TENSORS, MOST_NAME, MOST_AXES = 100_000, 4096, 8
_FOOTER, _TRAILER, _MAGIC = 48, 5, 0xDB4775248B80FB57
_TYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 6: "int8", 9: "int64", 10: "bool", 19: "float16"}
"""Types of tensors by their number in tensorflow/core/framework/types.proto, as far as NumPy has them."""


@dataclass(frozen=True)
class Entry:
    """Tensor of a checkpoint: its type, shape and place."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    checksum: int


def prefix_of(path: Path) -> Path | None:
    """Returns the prefix of the checkpoint that `path` names, by prefix or by one of its files; None if there is
    none.
    """
    for suffix in (INDEX, DATA, ".meta"):
        if path.name.endswith(suffix):
            path = path.with_name(path.name.removesuffix(suffix))
            break
    return path if path.with_name(path.name + INDEX).is_file() else None


class Bundle:
    """Checkpoint, whose index has been read."""

    def __init__(self, prefix: Path) -> None:
        """Reads the index. Raises PolicyError, naming the file, if it cannot be read or is damaged."""
        self._data_path = prefix.with_name(prefix.name + DATA)
        index = prefix.with_name(prefix.name + INDEX)
        try:
            self._entries = _entries(_read(index, LARGEST_DOCUMENT_BYTES))
        except (_Damaged, ProtobufError) as error:
            raise PolicyError(f"{index}: no index of a TensorFlow checkpoint: {error}; copy the file anew") from error

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def names(self) -> list[str]:
        """Returns the names of all tensors, sorted."""
        return sorted(self._entries)

    def entry(self, name: str) -> Entry:
        """Returns type and shape of a tensor that is there."""
        return self._entries[name]

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Returns a tensor of type float32 that is there. Raises PolicyError if its bytes are missing or damaged."""
        entry, data = self._entries[name], self._data
        if entry.offset + entry.size > len(data):
            raise PolicyError(
                f'{self._data_path}: the tensor "{name}" ends at byte {entry.offset + entry.size:,}, and the file has '
                f"{len(data):,}: it is truncated; copy it anew"
            )
        part = data[entry.offset : entry.offset + entry.size]
        if entry.size != 4 * math.prod(entry.shape) or masked_crc32c(part) != entry.checksum:
            raise PolicyError(f'{self._data_path}: the tensor "{name}" is damaged (size or checksum); copy it anew')
        return np.frombuffer(part, "<f4").reshape(entry.shape).astype(np.float32)

    @functools.cached_property
    def _data(self) -> bytes:
        return _read(self._data_path, LARGEST_POLICY_BYTES)


class _Damaged(ValueError):
    """Error for bytes that are no table."""


def _read(path: Path, most: int) -> bytes:
    try:
        return read_bytes(path, most)
    except OSError as error:
        raise PolicyError(f"{path}: cannot read the checkpoint: {error.strerror}") from error


def _entries(data: bytes) -> dict[str, Entry]:
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise _Damaged("it is truncated, or another file")
    _, at = _handle(data, len(data) - _FOOTER)
    index, _ = _handle(data, at)
    found: dict[str, Entry] = {}
    end = 0
    for _, handle in _rows(_block(data, *index)):
        place, _ = _handle(handle, 0)
        # Blocks follow each other, so that no index makes this read one block over and over.
        if place[0] < end:
            raise _Damaged("its blocks overlap")
        end = sum(place)
        for key, value in _rows(_block(data, *place)):
            _add(found, key, value)
    if "" not in found:
        raise _Damaged("its header is missing")
    del found[""]
    return found


def _add(found: dict[str, Entry], key: bytes, value: bytes) -> None:
    message = Message(value)
    if not key:
        if message.whole(1) != 1 or message.whole(2) != 0:
            raise _Damaged(f"{message.whole(1)} data files or big-endian; expected one, little-endian")
        found[""] = Entry("", (), 0, 0, 0)
        return
    try:
        name = key.decode()
    except UnicodeDecodeError:
        raise _Damaged("a name is not UTF-8") from None
    if name in found or len(found) > MOST_TENSORS:
        raise _Damaged(f'the tensor "{name[:60]}" is there twice, or there are more than {MOST_TENSORS:,}')
    shape = tuple(axis.whole(1) for axis in message.message(2).messages(2))
    if len(shape) > MOST_AXES or message.whole(3) != 0:
        raise _Damaged(f'the tensor "{name[:60]}" has more than {MOST_AXES} axes, or is in another data file')
    dtype = _TYPES.get(message.whole(1), f"type {message.whole(1)}") + (" in slices" if 7 in message else "")
    found[name] = Entry(dtype, shape, message.whole(4), message.whole(5), message.fixed32(6))


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Returns offset and size of a block, and the place after them."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER > len(data):
        raise _Damaged(f"a block ends at byte {end:,}, and the file has {len(data):,}")
    if data[end] != 0:
        raise _Damaged("its blocks are compressed; expected a checkpoint as tf.train.Saver writes it")
    if masked_crc32c(data[offset : end + 1]) != int.from_bytes(data[end + 1 : end + _TRAILER], "little"):
        raise _Damaged(f"the checksum of the block at byte {offset:,} differs")
    return data[offset:end]


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Returns keys and values of a block: each key shares a prefix with the one before it."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    if len(block) < 4 or end < 0:
        raise _Damaged("a block is too short for its restarts")
    key, at = b"", 0
    while at < end:
        shared, at = varint(block, at)
        own, at = varint(block, at)
        length, at = varint(block, at)
        if shared > len(key) or shared + own > MOST_NAME or own + length > end - at:
            raise _Damaged(f"an entry at byte {at} of a block is longer than the block")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + length]
        at += own + length


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC32C = _table()


def masked_crc32c(data: bytes) -> int:
    """Returns the CRC-32C of `data` as LevelDB stores it (crc32c::Mask)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
