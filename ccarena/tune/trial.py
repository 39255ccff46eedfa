"""One trial: a configuration trained with several seeds side by side, each in a run's folder and process of its own.

After every validation that all seeds have reached, the trial reports the mean of their scores, by which a scheduler
may end it. A trial that was interrupted goes on from its runs' checkpoints.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ccarena.errors import TrainingError
from ccarena.eval.metrics import confidence_interval
from ccarena.run_folder import CONFIG, VALIDATION, is_in_use, read_progress

__all__ = ["follow", "seed_folder", "validations"]

_LOOK_EVERY_S = 0.5
_LEFT_WITHIN_S = 60.0
"""So long may the trainings of a trial that was killed take to write their last checkpoints."""
_PR_SET_PDEATHSIG = 1


def seed_folder(folder: Path, seed: int) -> Path:
    """The run of `seed` in a trial's folder."""
    return folder / f"seed-{seed}"


def validations(folder: Path, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Of each validation during the trainings that all seeds have reached, a row per seed."""
    each = [
        [row for row in read_progress(seed_folder(folder, seed) / VALIDATION) if row["decisions"] > 0] for seed in seeds
    ]
    return [list(rows) for rows in zip(*each, strict=False)]


def follow(
    folder: Path,
    config: str,
    setting: Mapping[str, Any],
    seeds: Sequence[int],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Trains the configuration file `config` with `setting` for every seed, and reports as the module says.

    Raises TrainingError if a training fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _wait_for_others(folder, seeds)
    said = len(validations(folder, seeds))
    running = {seed: _start(seed_folder(folder, seed), config, setting, seed) for seed in seeds}
    try:
        while running:
            time.sleep(_LOOK_EVERY_S)
            over = {seed: process.poll() for seed, process in running.items() if process.poll() is not None}
            for seed, code in over.items():
                del running[seed]
                if code:
                    log = (seed_folder(folder, seed).with_suffix(".log")).read_text("utf-8", errors="replace")
                    last = (log.strip().splitlines() or ["no message"])[-1]
                    raise TrainingError(f"seed {seed} ended with {code}: {last}")
            rows = validations(folder, seeds)
            for number in range(said, len(rows)):
                report(_row(number + 1, rows[number]))
            said = len(rows)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()


def _wait_for_others(folder: Path, seeds: Sequence[int]) -> None:
    """Trainings outlive a trial that is killed by as long as a checkpoint takes."""
    until_s = time.monotonic() + _LEFT_WITHIN_S
    while time.monotonic() < until_s and any(is_in_use(seed_folder(folder, seed)) for seed in seeds):
        time.sleep(_LOOK_EVERY_S)


def _row(number: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    interval = confidence_interval([float(row["score"]) for row in rows])
    return {
        "validation": number,
        "decisions": max(int(row["decisions"]) for row in rows),
        "score": interval.mean,
        "score_low": interval.low,
        "score_high": interval.high,
    }


def _start(out: Path, config: str, setting: Mapping[str, Any], seed: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "ccarena.cli", "train", "--out", str(out)]
    if (out / CONFIG).is_file():
        words.append("--resume")
    else:
        words += ["--config", config, "--seed", str(seed)]
        for key, value in setting.items():
            words += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    with open(out.with_suffix(".log"), "ab") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(words, stdout=log, stderr=log, env=environment, preexec_fn=_end_with_parent)


def _end_with_parent() -> None:
    """A training whose trial is killed must not go on: another one may take its folder."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
