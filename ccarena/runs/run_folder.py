"""Files of a training run's folder, and the shipped policies."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.errors import ConfigError
from ccarena.runs.remote_folder import shown

__all__ = [
    "BEST",
    "COMMANDS",
    "CONFIG",
    "EVALUATION",
    "LAST",
    "LOCK",
    "PAGE",
    "POLICY",
    "PROGRESS",
    "RESULTS",
    "ROWS",
    "RUNS",
    "SUMMARY",
    "VALIDATION",
    "free_folder",
    "is_in_use",
    "newest_run",
    "policy_in",
    "read_commands",
    "read_progress",
    "resume_command",
    "write_commands",
]

CONFIG, POLICY, PROGRESS = "config.yaml", "policy.safetensors", "progress.jsonl"
"""Files that a training writes: its effective configuration, the policy, and figures every few updates."""
VALIDATION, BEST, LAST = "validation.jsonl", "policy.best.safetensors", "policy.last.safetensors"
"""Files that validations write: a line each, the best policy and the last one; `POLICY` is one of the two."""
RESULTS, EVALUATION, PAGE = "results.json", "evaluation.json", "page.html"
"""Files that an evaluation writes: every row and series; the verdict and the means; the page for people."""
ROWS, SUMMARY = "rows.csv", "summary.csv"
"""Tables that an evaluation writes: a row per run; means with intervals."""

COMMANDS = "commands.json"
"""File of shell lines that made a folder's results: those that started and continued a training, oldest first."""

RUNS = Path("runs")
"""Folder of runs, unless `--out` names another one."""
LOCK = ".lock"
"""Lock file that the active training holds, as long as its process lives (flock(2))."""


def policy_in(path: Path) -> Path | None:
    """Returns the policy file that a user names by `path`.

    For a file, returns `path`. For a run's folder, returns the path of its policy, which exists only after training.
    Returns None for anything else.
    """
    # os.path answers False for what no file can be called, where pathlib raises.
    if os.path.isdir(path):
        return path / POLICY if any((path / name).is_file() for name in (POLICY, CONFIG)) else None
    return path if os.path.isfile(path) else None


def resume_command(run: Path) -> str:
    """Returns the shell command that resumes the training in the folder `run`."""
    return shlex.join(["ccarena", "train", "--out", shown(run), "--resume"])


def write_commands(folder: Path, lines: Sequence[str]) -> None:
    """Stores the shell lines that made the results in `folder`, without consecutive repetitions."""
    kept = [line for at, line in enumerate(lines) if not at or line != lines[at - 1]]
    write_atomically(folder / COMMANDS, json.dumps(kept, indent=1) + "\n")


def read_commands(folder: Path) -> list[str]:
    """Returns the shell lines that made the results in `folder`. Returns [] if no command line made them.

    Raises ConfigError if their file is damaged.
    """
    file = folder / COMMANDS
    try:
        return [str(line) for line in json.loads(file.read_text("utf-8"))] if file.is_file() else []
    except ValueError as error:
        raise ConfigError(f"{file}: not a list of commands: {error}; delete the file") from error


def read_progress(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a `progress.jsonl`, oldest first. Returns [] if there is no file.

    If the last line is incomplete, because a training was killed while writing, it is left out. Raises ConfigError for
    another line that is not JSON.
    """
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").splitlines()
    out = []
    for number, line in enumerate(lines, start=1):
        try:
            out.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}:{number}: not a line of JSON: {error}; delete the line") from error
    return out


def is_in_use(folder: Path) -> bool:
    """Returns whether a training of this machine uses the folder."""
    try:
        with open(folder / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def newest_run(name: str) -> Path:
    """Returns the folder of the newest run called `name`: the last of `runs/NAME`, `runs/NAME-2`, ..."""
    folder, number = RUNS / name, 2
    while (RUNS / f"{name}-{number}").exists():
        folder, number = RUNS / f"{name}-{number}", number + 1
    return folder


def free_folder(name: str, out: str | None) -> Path:
    """Returns the folder for a new run of the configuration `name`. No run is ever overwritten.

    Raises ConfigError if `out` was given and holds a run already.
    """
    if out:
        folder = Path(out)
        if (folder / CONFIG).exists():
            raise ConfigError(
                f"out = {folder}: holds a run already; go on with it ({resume_command(folder)}), or name another folder"
            )
        return folder
    folder = newest_run(name)
    if not (folder / CONFIG).exists():
        return folder
    stem, _, number = folder.name.rpartition("-")
    return RUNS / (f"{name}-{int(number) + 1}" if stem == name and number.isdigit() else f"{name}-2")
