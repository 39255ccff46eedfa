"""Training checkpoints: one safetensors file, arrays as tensors and everything else as JSON in its metadata.

A new checkpoint is written to a second file, read back and compared, and only then replaces the last one. A training
that is killed at any moment, or runs out of disk, therefore leaves a usable checkpoint. A digest of the content finds
damage that the format does not notice. The previous checkpoint then replaces a damaged one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ccarena.core.files import TEMPORARY
from ccarena.errors import CheckpointError, cannot_write
from ccarena.policies import tensorfile

log = logging.getLogger(__name__)

FORMAT = "2"
NAME, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
OLDER = "checkpoints"
"""Folder of kept checkpoints older than the previous one, named by their number of decisions."""

_whole: dict[Path, tuple[int, int]] = {}
"""Files that this process has written and verified, with the data that identify them."""


@dataclass(frozen=True)
class Checkpoint:
    """State of a training."""

    arrays: dict[str, NDArray]
    """Arrays by name; the part before the first dot names the owner."""
    rest: dict[str, Any]
    """JSON data."""

    def part(self, name: str) -> dict[str, NDArray]:
        """Returns the arrays of part `name`, without that prefix."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): array for key, array in self.arrays.items() if key.startswith(prefix)}


def exists(directory: Path) -> bool:
    """Returns whether a checkpoint was ever written to `directory`, usable or not."""
    return any((directory / name).exists() for name in (NAME, PREVIOUS))


def save(directory: Path, checkpoint: Checkpoint, keep: int = 0, decisions: int = 0) -> None:
    """Writes the checkpoint of `directory` at `decisions`; the last one becomes the previous one, if it is undamaged.

    `keep`: how many older checkpoints to keep (default 0). Raises ConfigError or WriteError if the file cannot be
    written, or differs when read back. The existing checkpoints then stay.
    """
    path, previous = directory / NAME, directory / PREVIOUS
    new, spare = (directory / f".{name}.{os.getpid()}{TEMPORARY}" for name in (NAME, PREVIOUS))
    state = json.dumps(checkpoint.rest, sort_keys=True)
    metadata = {"ccarena_checkpoint": FORMAT, "state": state, "digest": _digest(checkpoint.arrays, state)}
    data = tensorfile.encode(checkpoint.arrays, metadata)
    try:
        tensorfile.write_bytes(new, data)
        if new.read_bytes() != data:
            raise OSError(errno.EIO, "the disk gave back other bytes than were written")
        with contextlib.suppress(FileNotFoundError):
            spare.unlink()
        # After a fallback the last one is damaged: the previous one is then the only one to fall back on, and stays.
        if _is_whole(path):
            os.link(path, spare)
        # In this order, so that at every moment one of the two names has a checkpoint that is whole.
        os.replace(new, path)
        with contextlib.suppress(FileNotFoundError):
            os.replace(spare, previous)
        tensorfile.sync_directory(directory)
        _whole[path] = _mark(path)
        if keep:
            _keep(directory, path, keep, decisions)
    except OSError as error:
        for name in (new, spare):
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)
        kept = "the last one is kept" if exists(directory) else "there is none yet"
        raise cannot_write(path, error, f"{kept}; free some space", "the checkpoint") from error


def _keep(directory: Path, path: Path, keep: int, decisions: int) -> None:
    older = directory / OLDER
    older.mkdir(exist_ok=True)
    name = older / f"{decisions:015d}.safetensors"
    name.unlink(missing_ok=True)
    os.link(path, name)
    # The last two have names of their own, too.
    for old in sorted(older.glob("*.safetensors"))[: -(keep + 2)]:
        old.unlink(missing_ok=True)


def _mark(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_ino, about.st_mtime_ns


def _is_whole(path: Path) -> bool:
    """Returns whether the file is there and undamaged; a file that this process has verified is not read again."""
    try:
        if _whole.get(path) == _mark(path):
            return True
        _read(path)
    except (OSError, tensorfile.TensorFileError, KeyError, ValueError):
        return False
    return True


def _read(path: Path) -> Checkpoint:
    """Reads a checkpoint. Raises OSError, TensorFileError, KeyError or ValueError."""
    arrays, metadata = tensorfile.read(path)
    version = metadata.get("ccarena_checkpoint")
    if version != FORMAT:
        raise tensorfile.TensorFileError(f'checkpoint format "{version}", expected "{FORMAT}"')
    if metadata.get("digest") != _digest(arrays, metadata["state"]):
        raise tensorfile.TensorFileError("its content is damaged (the digest differs)")
    return Checkpoint(arrays, json.loads(metadata["state"]))


def load(directory: Path) -> Checkpoint:
    """Returns the last checkpoint in `directory`, or the previous one if the last is damaged.

    Raises CheckpointError if neither can be used.
    """
    faults: list[str] = []
    older = sorted((directory / OLDER).glob("*.safetensors"), reverse=True)
    for path in (directory / NAME, directory / PREVIOUS, *older):
        try:
            found = _read(path)
            if faults:
                log.warning("%s: going on from %s, because of %s", directory, path.name, "; ".join(faults))
            return found
        except FileNotFoundError:
            faults.append(f"{path.name}: not there")
        except OSError as error:
            faults.append(f"{path.name}: {error.strerror}")
        except (tensorfile.TensorFileError, KeyError, ValueError) as error:
            faults.append(f"{path.name}: {error}")
    raise CheckpointError(
        f"{directory}: no usable checkpoint ({'; '.join(faults)}); train anew in another folder with --config "
        f"{directory / 'config.yaml'} --out FOLDER"
    )


def _digest(arrays: dict[str, NDArray], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
