"""Checkpoint of a sweep at a URL: all that Ray Tune needs to resume, in one file that is sent like a training's.

Ray Tune writes several files, one after the other. A sweep that is killed meanwhile leaves old files beside new ones,
or a partial file. The checkpoint is therefore packed between two steps of Ray Tune, when all of them are complete.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ray.tune import Callback

from ccarena.core.files import replacing
from ccarena.errors import CheckpointError, ConfigError
from ccarena.runs.remote_folder import RemoteFolder, remote_at

log = logging.getLogger(__name__)

__all__ = ["Sender", "pack", "unpack"]

_SEND_EVERY_S, _SOON_S = 10.0, 2.0
"""Seconds between two checkpoints, and after a trial begins or ends. Ray Tune writes its files every second."""


def pack(folders: Iterable[Path], target: Path) -> None:
    """Packs the files of Ray Tune in `folders`, without subfolders, into `target`; of equal names, the first counts."""
    files: dict[str, Path] = {}
    for folder in folders:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.suffix in (".json", ".pkl") and not path.name.startswith("."):
                files.setdefault(path.name, path)
    with replacing(target, durable=False) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)


def unpack(sources: Iterable[Path], folder: Path) -> None:
    """Unpacks the first undamaged file of `sources` into `folder`; does nothing if there is no file.

    Raises CheckpointError if all files are damaged.
    """
    shutil.rmtree(folder, ignore_errors=True)
    there = [path for path in sources if path.is_file()]
    for path in there:
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is None:
                    archive.extractall(folder)
                    return
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            log.warning("%s: damaged (%s)", path.name, error)
    if there:
        raise CheckpointError(f"{there[0]}: damaged, and so is the one before it; start another sweep")


class Sender(Callback):
    """Callback that packs and sends the checkpoint, at intervals and when a trial begins or ends.

    Ray Tune pickles it. It therefore finds the sweep by its URL, on whichever machine it is unpickled.
    """

    def __init__(self, url: str, experiment: str) -> None:
        self._url, self._experiment = url, experiment
        self._due_s = -math.inf

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_due_s": -math.inf}  # of another machine's clock

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Requests a checkpoint; without one, the trial would be drawn again after a resumption."""
        self._soon()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Requests a checkpoint for a complete trial."""
        self._soon()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Requests a checkpoint for a failed trial."""
        self._soon()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Sends the checkpoint if it is time. Raises TrainingError if another sweep has taken the lease."""
        folder = remote_at(self._url)
        if folder is None or not trials:
            return
        folder.check()
        if time.monotonic() >= self._due_s:
            self._send(folder, Path(trials[0].storage.experiment_driver_staging_path))
            self._due_s = time.monotonic() + _SEND_EVERY_S

    def _send(self, folder: RemoteFolder, staging: Path) -> None:
        pack((staging, folder.here / self._experiment), folder.here / folder.kind.checkpoint)
        try:
            folder.push()
        except ConfigError as error:
            log.warning("%s; the sweep goes on, and tries again in %.0f s", error, _SEND_EVERY_S)

    def _soon(self) -> None:
        self._due_s = min(self._due_s, time.monotonic() + _SOON_S)
