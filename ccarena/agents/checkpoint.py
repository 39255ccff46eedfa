"""Training checkpoints: one safetensors file, arrays as tensors and everything else as JSON in its metadata.

Writes are atomic and keep the previous checkpoint, so that a training which is killed at any moment, or runs out of
disk, leaves a usable one.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ccarena.errors import CheckpointError
from ccarena.policies import tensorfile

FORMAT = "1"
NAME, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A state of training."""

    arrays: dict[str, NDArray]
    """By name; the part before the first dot says whose."""
    rest: dict[str, Any]
    """JSON-serialisable."""

    def part(self, name: str) -> dict[str, NDArray]:
        """The arrays of part `name`, without that prefix."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): array for key, array in self.arrays.items() if key.startswith(prefix)}


def save(directory: Path, checkpoint: Checkpoint) -> None:
    """Writes `directory`'s checkpoint; the last one becomes the previous one.

    Raises CheckpointError if the file cannot be written, after which the last one is still there.
    """
    path, previous = directory / NAME, directory / PREVIOUS
    spare = directory / f".{PREVIOUS}.tmp"
    metadata = {"ccarena_checkpoint": FORMAT, "state": json.dumps(checkpoint.rest, sort_keys=True)}
    try:
        if path.exists():
            # A second name for the last file, so that at no time the directory is without a checkpoint.
            with contextlib.suppress(FileNotFoundError):
                spare.unlink()
            os.link(path, spare)
            os.replace(spare, previous)
        tensorfile.write(path, checkpoint.arrays, metadata)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot write the checkpoint: {error.strerror}; the last one is kept; free some space"
        ) from error


def load(directory: Path) -> Checkpoint:
    """The last checkpoint in `directory`, or the previous one if the last is damaged.

    Raises CheckpointError if there is none that can be used.
    """
    faults = []
    for path in (directory / NAME, directory / PREVIOUS):
        try:
            arrays, metadata = tensorfile.read(path)
            version = metadata.get("ccarena_checkpoint")
            if version != FORMAT:
                raise tensorfile.TensorFileError(f'checkpoint format "{version}", expected "{FORMAT}"')
            return Checkpoint(arrays, json.loads(metadata["state"]))
        except FileNotFoundError:
            faults.append(f"{path.name}: not there")
        except OSError as error:
            faults.append(f"{path.name}: {error.strerror}")
        except (tensorfile.TensorFileError, KeyError, ValueError) as error:
            faults.append(f"{path.name}: {error}")
    raise CheckpointError(f"{directory}: no usable checkpoint ({'; '.join(faults)}); start over without --resume")
