"""Files of published controllers, which this repository has not: where they are, and made ones in their formats."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ccarena.policies.tensor_bundle import DATA, INDEX, masked_crc32c

_FOLDER = os.environ.get("CCARENA_PUBLISHED_DIR", "")


def needs(file: str) -> pytest.MarkDecorator:
    """Skips a test unless the folder in `CCARENA_PUBLISHED_DIR` has `file`."""
    reason = f"CCARENA_PUBLISHED_DIR names no folder with {file}"
    return pytest.mark.skipif(not (_FOLDER and Path(_FOLDER, file).is_file()), reason=reason)


def path(file: str) -> Path:
    """Returns the path of a file in that folder."""
    return Path(_FOLDER, file)


# Protobuf and TensorFlow's checkpoints, byte by byte.


def varint(value: int) -> bytes:
    """Encodes an unsigned integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | float | bytes) -> bytes:
    """Encodes a field: an integer as a varint, a float as a double, bytes with their length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + np.float64(value).tobytes()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


_NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}


def write_bundle(prefix: Path, tensors: dict[str, NDArray], shards: int = 1, compressed: bool = False) -> None:
    """Writes a checkpoint as tf.train.Saver does."""
    rows, data = [(b"", field(1, shards) + field(3, field(1, 1)))], b""
    for name, tensor in sorted(tensors.items()):
        part = tensor.tobytes()
        shape = b"".join(field(2, field(1, size)) for size in tensor.shape)
        checksum = varint(6 << 3 | 5) + masked_crc32c(part).to_bytes(4, "little")
        place = field(2, shape) + field(4, len(data)) + field(5, len(part))
        rows.append((name.encode(), field(1, _NUMBERS[tensor.dtype.name]) + place + checksum))
        data += part
    prefix.with_name(prefix.name + DATA).write_bytes(data)
    prefix.with_name(prefix.name + INDEX).write_bytes(_table(rows, compressed))


def _table(rows: list[tuple[bytes, bytes]], compressed: bool) -> bytes:
    out = bytearray()

    def block(content: bytes) -> bytes:
        kind = bytes([compressed])
        handle = varint(len(out)) + varint(len(content))
        out.extend(content + kind + masked_crc32c(content + kind).to_bytes(4, "little"))
        return handle

    # Two blocks, so that the index has more than one entry.
    half = len(rows) // 2 + 1
    handles = [(part[-1][0] + b"~", block(_rows(part))) for part in (rows[:half], rows[half:]) if part]
    meta = block(_rows([]))
    footer = meta + block(_rows(handles))
    return bytes(out) + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _rows(rows: list[tuple[bytes, bytes]]) -> bytes:
    out, before = b"", b""
    for key, value in rows:
        least = min(len(before), len(key))
        shared = next((at for at in range(least) if before[at] != key[at]), least)
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return out + bytes(4) + (1).to_bytes(4, "little")
