"""What all kinds of policy artifacts have in common: metadata, provenance, and the checks of their tensors."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata as packages
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.policies import tensorfile

__all__ = ["FORMAT", "check_tensors", "parse", "versions", "write"]

FORMAT = "1"


def write(path: Path, artifact: Any, architecture: Mapping[str, Any], observation: str, actions: list[float]) -> None:
    """Writes `artifact`'s tensors and provenance. Raises PolicyError if the file cannot be written."""
    metadata = {
        "ccarena_format": FORMAT,
        "architecture": _json(architecture),
        "observation": observation,
        "actions": _json(actions),
        "training": _json(artifact.training),
        "seed": str(artifact.seed),
        "versions": _json(artifact.versions),
        "evaluation": _json(artifact.evaluation),
    }
    try:
        tensorfile.write(path, artifact.tensors, metadata)
    except OSError as error:
        raise PolicyError(f"{path}: cannot write the policy: {error.strerror}; choose another place") from error


def parse(path: Path, metadata: Mapping[str, str], key: str, kind: type) -> Any:
    """The JSON of one entry of the metadata. Raises PolicyError if it is missing or of another type."""
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        raise PolicyError(f"{path}: metadata `{key}` is missing or no JSON, expected a JSON {kind.__name__}") from None
    if not isinstance(value, kind):
        raise PolicyError(f"{path}: metadata `{key}` is a {type(value).__name__}, expected a JSON {kind.__name__}")
    return value


def check_tensors(path: Path, tensors: Mapping[str, NDArray], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raises PolicyError unless `tensors` are exactly those expected, float32 and finite."""
    for name in sorted(expected.keys() - tensors.keys()):
        raise PolicyError(f'{path}: tensor "{name}" is missing, expected shape {list(expected[name])}')
    for name in sorted(tensors.keys() - expected.keys()):
        raise PolicyError(f'{path}: unknown tensor "{name}"; a policy of this architecture has none of that name')
    for name, shape in expected.items():
        tensor = tensors[name]
        if tensor.shape != shape:
            raise PolicyError(f'{path}: tensor "{name}" has shape {list(tensor.shape)}, expected {list(shape)}')
        if tensor.dtype != np.float32:
            raise PolicyError(f'{path}: tensor "{name}" is {tensor.dtype}, expected float32')
        if not np.isfinite(tensor).all():
            raise PolicyError(f'{path}: tensor "{name}" has values that are not finite; the policy cannot be used')
    if (tensors["normalisation.low"] > tensors["normalisation.high"]).any():
        raise PolicyError(f"{path}: the normalisation clips to an empty range, expected low <= high everywhere")


def versions() -> dict[str, str]:
    """Versions of this Python and of the installed packages that training depends on."""
    found = {"python": platform.python_version()}
    for name in ("ccarena", "torch", "numpy", "gymnasium", "stable-baselines3"):
        try:
            found[name] = packages.version(name)
        except packages.PackageNotFoundError:
            continue
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
