"""Copies of trainings: checkpoint, learning curves and the best policy so far, with another setting."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ccarena.agents import checkpoint
from ccarena.agents.runs import fixed
from ccarena.configs import load_config, own_files, save_config
from ccarena.core.files import scratch, write_atomically
from ccarena.runs.remote_folder import RemoteFolder, is_url
from ccarena.runs.run_folder import CONFIG, PROGRESS, VALIDATION
from ccarena.tune.population import Comparison
from ccarena.tune.trial import Trials

__all__ = ["complete"]

COPIED = "copied.json"
"""File of a run that says with which comparison it became a copy."""


def complete(trials: Trials, comparison: Comparison, seeds: Sequence[int]) -> None:
    """Makes the copies of the last comparison that are not there yet.

    No member may be training. Raises CheckpointError or ConfigError if a run cannot be read or written.
    """
    for copy in comparison.copies:
        for seed in seeds:
            with ExitStack() as stack:
                target, remote = stack.enter_context(_local(trials.run(copy.member, seed)))
                mark = target / COPIED
                if mark.is_file() and json.loads(mark.read_text("utf-8"))["validation"] >= comparison.validation:
                    continue
                source, _ = stack.enter_context(_local(trials.run(copy.source, seed)))
                _copy_run(source, target, copy.setting)
                about = {"validation": comparison.validation, "source": copy.source, "setting": copy.setting}
                write_atomically(mark, json.dumps(about) + "\n")
                if remote is not None:
                    remote.push()


def _copy_run(source: Path, target: Path, setting: Mapping[str, Any]) -> None:
    """Makes the training in `target` that in `source`, with another setting; learning curves are the source's."""
    config = load_config(target / CONFIG, {**setting, "out": str(target)})
    start = checkpoint.load(source)
    for name in (PROGRESS, VALIDATION):
        write_atomically(target / name, (source / name).read_bytes() if (source / name).is_file() else b"")
    changed = checkpoint.Checkpoint(start.arrays, {**start.rest, "config": fixed(own_files.portable(config))})
    checkpoint.save(target, changed)
    # The checkpoints that it would fall back on are another training's.
    for old in (target / checkpoint.PREVIOUS, *(target / checkpoint.OLDER).glob("*.safetensors")):
        old.unlink(missing_ok=True)
    save_config(own_files.inside(config), target / CONFIG)


@contextmanager
def _local(run: str) -> Iterator[tuple[Path, RemoteFolder | None]]:
    """Yields a run's folder, or a copy of its URL."""
    if not is_url(run):
        yield Path(run), None
        return
    with scratch() as folder:
        remote = RemoteFolder(run, folder / "run")
        remote.pull()
        yield remote.here, remote
