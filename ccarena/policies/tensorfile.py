"""Safetensors files, written atomically and with the same bytes for the same content.

The library orders metadata by a randomly seeded hash. Writing (a length, a JSON header and the bytes) is therefore done
here. Reading, which must withstand any input, is the library's. Format:
https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from ccarena.core.files import replacing

_NAMES = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


class TensorFileError(ValueError):
    """Error for bytes that are no usable safetensors file; the message says why, without the path."""


def encode(tensors: Mapping[str, NDArray], metadata: Mapping[str, str], checksum: str | None = None) -> bytes:
    """Returns the file's bytes. Tensors may be float32, float64, int64, int32, uint8 or bool, and are ordered by name.

    `checksum` names an entry that is added to the metadata: the SHA-256, in hexadecimal, of all bytes after the header.
    """
    header: dict[str, object] = {}
    chunks, offset = [], 0
    # Wider types first keep every tensor aligned to its size, which some readers map directly.
    for name, array in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        data = np.ascontiguousarray(array).tobytes()
        kind = _NAMES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    body = b"".join(chunks)
    if checksum is not None:
        metadata = {**metadata, checksum: hashlib.sha256(body).hexdigest()}
    header = {"__metadata__": dict(sorted(metadata.items())), **header}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, body))


def write(path: Path, tensors: Mapping[str, NDArray], metadata: Mapping[str, str]) -> None:
    """Writes the file atomically: a reader of `path` finds the old file or the new one, complete.

    Raises OSError (disk full, no permission); the old file is then still there.
    """
    write_bytes(path, encode(tensors, metadata))


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` as `write` does."""
    with replacing(path) as file:
        file.write(data)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes renames in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> tuple[dict[str, NDArray], dict[str, str]]:
    """Returns tensors and metadata of the file at `path`.

    Raises TensorFileError if it is no safetensors file or is truncated, OSError if it cannot be read.
    """
    data = path.read_bytes()
    refuse_pickle(data)
    try:
        return decode(data)
    except (SafetensorError, TypeError, ValueError) as error:
        raise TensorFileError(f"it is truncated or no safetensors file ({error})") from error


def decode(data: bytes) -> tuple[dict[str, NDArray], dict[str, str]]:
    """Returns tensors and metadata of a file's bytes. Raises SafetensorError, ValueError or TypeError for other
    bytes.
    """
    tensors = load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return tensors, header.get("__metadata__") or {}


def refuse_pickle(data: bytes) -> None:
    """Raises TensorFileError if `data` is a pickle, or a container of one."""
    # Ours begins with the length of its header, which may look like this too, and then with the header's brace.
    if data[8:9] != b"{" and (data[:2] == b"PK" or data[:1] == b"\x80"):
        raise TensorFileError("it is a pickle or a zip archive such as torch.save writes, which is never loaded")
