"""Trial of a sweep: a configuration trained with several seeds side by side, each in its own run folder and process.

After every validation that all seeds have reached, the trial reports the mean of their scores, by which a scheduler may
end it. A member of a population trains to one validation at a time. An interrupted trial resumes from its runs'
checkpoints. Below a URL, each training sends its own run (`ccarena.runs.remote_folder`), and the validations are read
from there. Files that the configuration names come with it (`ccarena.executors.shipping`).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, load_config, save_config
from ccarena.configs.located import located
from ccarena.core.files import scratch
from ccarena.core.machine import is_linux
from ccarena.errors import INTERRUPTED, ConfigError, TrainingError
from ccarena.eval.measure.sample import confidence_interval
from ccarena.runs.remote_folder import RemoteFolder, is_url
from ccarena.runs.run_folder import CONFIG, VALIDATION, is_in_use, read_progress
from ccarena.tune.space import Space
from ccarena.tune.space_files import renamed, texts

__all__ = ["BASE", "TRIALS", "Base", "Trials", "advance", "follow"]

BASE, TRIALS = "base.yaml", "trials"
"""Entries of the sweep's folder: the configuration, and a folder per trial."""

_LOOK_EVERY_S, _ASK_EVERY_S = 0.5, 3.0
"""Seconds between two looks for validations in a folder, and at a URL."""
_LEFT_WITHIN_S = 60.0
"""Longest time that the trainings of a killed trial take to write their last checkpoints, s."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Trials:
    """Trials of a sweep, located so that every machine finds them."""

    sweep: str
    """Folder or URL of the sweep."""

    def folder(self, trial: str) -> str:
        """Returns the folder, or the URL, of a trial."""
        return f"{self.sweep}/{TRIALS}/{trial}"

    @contextmanager
    def sweep_folder(self, *names: str) -> Iterator[Path]:
        """Yields the folder of the sweep; of one at a URL, a copy with the files `names`. Raises ConfigError."""
        with _Copy.of(self.sweep) as copy:
            copy.fetch(*names)
            yield copy.here

    def run(self, trial: str, seed: int) -> str:
        """Returns the folder, or the URL, of the run of `seed`."""
        return f"{self.folder(trial)}/seed-{seed}"

    def validations(self, trial: str, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
        """Returns the validations that all seeds have reached, each with a row per seed. Raises ConfigError."""
        with _Copy.of(self.folder(trial)) as copy:
            return copy.validations(seeds)


@dataclass(frozen=True)
class _Copy:
    """Local folder: the run itself, or a copy of its URL."""

    here: Path
    remote: RemoteFolder | None

    @classmethod
    @contextmanager
    def of(cls, place: str) -> Iterator[_Copy]:
        if not is_url(place):
            yield cls(Path(place), None)
            return
        with scratch() as here:
            yield cls(here, RemoteFolder(place, here))

    def fetch(self, *names: str) -> None:
        if self.remote is not None:
            self.remote.fetch(names)

    def has(self, name: str) -> bool:
        return (self.here / name).is_file() if self.remote is None else self.remote.has(name)

    def last(self, seeds: Sequence[int]) -> list[dict[str, Any]]:
        """Returns the last validation of each seed that has one."""
        return [rows[-1][0] for seed in seeds if (rows := self.validations([seed]))]

    def validations(self, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
        names = [f"seed-{seed}/{VALIDATION}" for seed in seeds]
        self.fetch(*names)
        each = [[row for row in read_progress(self.here / name) if row["decisions"] > 0] for name in names]
        return [list(rows) for rows in zip(*each, strict=False)]


@dataclass(frozen=True)
class Base:
    """Configuration that a sweep's trials share, with the files that it names."""

    config: TrainConfig
    texts: list[tuple[bytes, str]]
    """Texts of the search space, which may name files: as they are written there, and as they are here."""

    @classmethod
    def of(cls, config: TrainConfig, space: Space, files: Mapping[str, str], out: Path) -> Base:
        """Returns the base of a sweep in `out` over `space`, whose `files` are as from `space_files.keep`."""
        written = dict.fromkeys(text for _, text in texts(space))
        return cls(config, [(text.encode(), str(out / files[text]) if text in files else text) for text in written])

    def here(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a setting with the names that its files have here."""
        names = {written.decode(): text for written, text in self.texts}
        return {key: renamed(value, names) for key, value in setting.items()}

    def located(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the overrides with which a run finds here the files of which it has no copy."""
        return located(load_config(self.config.model_dump(mode="json"), self.here(setting)))


def follow(
    trials: Trials,
    trial: str,
    base: Base,
    setting: Mapping[str, Any],
    seeds: Sequence[int],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Trains the sweep's configuration with `setting` for every seed, and reports each validation's mean score.

    Raises TrainingError if a training fails, ConfigError if the sweep's URL cannot be read.
    """
    with _trainings(trials, trial, base, setting, seeds) as (copy, running, logs):
        said = len(copy.validations(seeds))
        while running:
            _wait(copy)
            _take_those_over(running, logs)
            try:
                rows = copy.validations(seeds)
            except ConfigError:
                # The trainings go on while their store cannot be reached; what they sent last has to be read.
                if not running:
                    raise
                continue
            for number in range(said, len(rows)):
                report(_row(number + 1, rows[number]))
            said = len(rows)


def advance(
    trials: Trials,
    trial: str,
    base: Base,
    setting: Mapping[str, Any],
    seeds: Sequence[int],
    validation: int,
    until: int | None,
) -> dict[str, Any]:
    """Trains every seed to the validation at `until` decisions, or to the end if None, and returns the figures there.

    Trainings that are there already are not started. Raises what `follow` does.
    """
    with _trainings(trials, trial, base, setting, seeds, until) as (copy, running, logs):
        while running:
            _wait(copy)
            _take_those_over(running, logs, until is not None)
        rows = copy.last(seeds)
    if until is not None and min((row["decisions"] for row in rows), default=0) < until:
        raise TrainingError(f"interrupted before the validation at {until:,} decisions")
    return _row(validation, rows)


@contextmanager
def _trainings(
    trials: Trials, trial: str, base: Base, setting: Mapping[str, Any], seeds: Sequence[int], until: int | None = None
) -> Iterator[tuple[_Copy, dict[int, subprocess.Popen[bytes]], dict[int, Path]]]:
    """Yields a trial's folder, its started trainings and their logs by seed; ends them after the block."""
    runs = {seed: trials.run(trial, seed) for seed in seeds}
    with scratch() as folder, _Copy.of(trials.folder(trial)) as copy:
        save_config(base.config, folder / BASE)
        copy.here.mkdir(parents=True, exist_ok=True)
        logs = {seed: copy.here / f"seed-{seed}.log" for seed in seeds}
        copy.fetch(*(log.name for log in logs.values()))
        _wait_for_others(runs.values())
        running: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for seed, run in runs.items():
                reached = copy.last([seed])
                if until is not None and reached and reached[0]["decisions"] >= until:
                    continue
                begin = ["--config", str(folder / BASE), "--seed", str(seed), *_options(base.here(setting))]
                words = ["--resume", *_options(base.located(setting))] if copy.has(f"seed-{seed}/{CONFIG}") else begin
                running[seed] = _start(run, words, logs[seed], until)
            yield copy, running, logs
        finally:
            _end(running.values())
            if copy.remote is not None:
                with suppress(ConfigError):
                    copy.remote.push()


def _wait(copy: _Copy) -> None:
    time.sleep(_LOOK_EVERY_S if copy.remote is None else _ASK_EVERY_S)


def _take_those_over(
    running: dict[int, subprocess.Popen[bytes]], logs: Mapping[int, Path], pauses: bool = False
) -> None:
    """Removes ended trainings from `running`. Raises TrainingError if one has failed; `pauses`: they end early."""
    over = {seed: process.poll() for seed, process in running.items() if process.poll() is not None}
    for seed, code in over.items():
        del running[seed]
        if code and not (pauses and code == INTERRUPTED):
            last = (logs[seed].read_text("utf-8", errors="replace").strip().splitlines() or ["no message"])[-1]
            raise TrainingError(f"seed {seed} ended with {code}: {last}")


def _end(running: Collection[subprocess.Popen[bytes]]) -> None:
    for process in running:
        process.terminate()
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


def _wait_for_others(runs: Iterable[str]) -> None:
    """Waits for trainings of a killed trial, which run until their checkpoint is written; at a URL, for their
    leases.
    """
    until_s = time.monotonic() + _LEFT_WITHIN_S
    while time.monotonic() < until_s and any(_is_in_use(run) for run in runs):
        time.sleep(_LOOK_EVERY_S)


def _is_in_use(run: str) -> bool:
    with _Copy.of(run) as copy:
        return is_in_use(copy.here) if copy.remote is None else copy.remote.in_use()


def _row(number: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    interval = confidence_interval([float(row["score"]) for row in rows])
    return {
        "validation": number,
        "decisions": max(int(row["decisions"]) for row in rows),
        "score": interval.mean,
        "score_low": interval.low,
        "score_high": interval.high,
    }


def _options(setting: Mapping[str, Any]) -> list[str]:
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in setting.items()}
    return [word for key, value in given.items() for word in (f"--{key}", value)]


def _start(run: str, words: Sequence[str], log: Path, until: int | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ccarena.cli", "train", "--out", run, *words]
    if until is not None:
        command += ["--until", str(until)]
    prepare = _end_with_parent if is_linux() else None
    with open(log, "ab") as file:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment, preexec_fn=prepare)


def _end_with_parent() -> None:
    """Ends a training whose trial is killed, since another trial may take its folder. Only Linux has this call."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
