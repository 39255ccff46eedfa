"""Weights of published networks, out of a TensorFlow checkpoint or a safetensors file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from ccarena.core.reader import LARGEST_POLICY_BYTES, read_bytes
from ccarena.errors import PolicyError, did_you_mean
from ccarena.policies import tensorfile
from ccarena.policies.interface import FloatArray
from ccarena.policies.tensor_bundle import DATA, INDEX, Bundle, prefix_of

__all__ = ["Wanted", "read", "sha256"]


@dataclass(frozen=True)
class Wanted:
    """Tensor that a network needs."""

    name: str
    """Name in a safetensors file."""
    in_tensorflow: str
    """Name in the authors' checkpoint."""
    shape: tuple[int, ...]
    """Shape; for a matrix [out, in], which TensorFlow stores as [in, out]."""


def read(path: Path, wanted: Sequence[Wanted], whose: str) -> dict[str, FloatArray]:
    """Returns the tensors `wanted` by their names, for the network of the controller `whose`.

    Raises PolicyError, naming file and tensor, if a file is unreadable or damaged, or if a tensor is missing, of
    another type or shape, or not finite.
    """
    prefix = prefix_of(path)
    if prefix is not None:
        return _of_bundle(prefix, wanted, whose)
    if path.suffix != ".safetensors":
        raise PolicyError(
            f"{path}: no checkpoint: expected the prefix of PREFIX{INDEX} and PREFIX{DATA}, one of these files, or a "
            ".safetensors file"
        )
    try:
        data = read_bytes(path, LARGEST_POLICY_BYTES)
    except OSError as error:
        raise PolicyError(f"{path}: cannot read the checkpoint: {error.strerror}") from error
    try:
        tensorfile.refuse_pickle(data)
        tensors, _ = tensorfile.decode(data)
    except (SafetensorError, TypeError, ValueError) as error:
        raise PolicyError(f"{path}: it is truncated or no safetensors file ({error}); copy it anew") from error
    for each in wanted:
        if each.name not in tensors:
            raise _missing(path, each.name, list(tensors), whose)
        _check(path, each.name, (tensors[each.name].dtype.name, tensors[each.name].shape), each.shape, whose)
    return {each.name: _finite(path, each.name, tensors[each.name]) for each in wanted}


def sha256(path: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a checkpoint that `read` has read, by the file's name."""
    prefix = prefix_of(path)
    files = [path] if prefix is None else [prefix.with_name(prefix.name + suffix) for suffix in (INDEX, DATA)]
    return {file.name: hashlib.sha256(read_bytes(file, LARGEST_POLICY_BYTES)).hexdigest() for file in files}


def _of_bundle(prefix: Path, wanted: Sequence[Wanted], whose: str) -> dict[str, FloatArray]:
    bundle, path = Bundle(prefix), prefix.with_name(prefix.name + INDEX)
    for each in wanted:
        if each.in_tensorflow not in bundle:
            raise _missing(path, each.in_tensorflow, bundle.names, whose)
        entry = bundle.entry(each.in_tensorflow)
        _check(path, each.in_tensorflow, (entry.dtype, entry.shape), each.shape[::-1], whose)
    return {
        each.name: np.ascontiguousarray(_finite(path, each.in_tensorflow, bundle.tensor(each.in_tensorflow)).T)
        for each in wanted
    }


def _missing(path: Path, name: str, names: list[str], whose: str) -> PolicyError:
    return PolicyError(
        f'{path}: the tensor "{name}" is missing{did_you_mean(name, names)}; expected a checkpoint of {whose}'
    )


def _check(path: Path, name: str, found: tuple[str, tuple[int, ...]], shape: tuple[int, ...], whose: str) -> None:
    if found != ("float32", shape):
        raise PolicyError(
            f'{path}: the tensor "{name}" is {found[0]} of shape {list(found[1])}; expected float32 of shape '
            f"{list(shape)}, as in the network of {whose}"
        )


def _finite(path: Path, name: str, tensor: NDArray[np.float32]) -> FloatArray:
    if not np.isfinite(tensor).all():
        raise PolicyError(f'{path}: the tensor "{name}" has values that are not finite; copy the checkpoint anew')
    return tensor.astype(np.float32)
