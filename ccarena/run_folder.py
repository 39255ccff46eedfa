"""A training run's folder: the names of its files, and which policy file a name on the command line means."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ccarena.errors import ConfigError, PolicyError

__all__ = [
    "CONFIG",
    "EVALUATION",
    "PAGE",
    "POLICY",
    "PROGRESS",
    "RESULTS",
    "find_policy",
    "read_progress",
    "resume_command",
]

CONFIG, POLICY, PROGRESS = "config.yaml", "policy.safetensors", "progress.jsonl"
"""What a training writes: its effective configuration, the policy, and a line of figures for every update."""
RESULTS, EVALUATION, PAGE = "results.json", "evaluation.json", "report.html"
"""What an evaluation writes: every row and series; the verdict and the means; the page for people."""


def find_policy(name: str) -> Path:
    """The policy file that `name` means: a file, a run's folder, or a run in `runs/`. Raises PolicyError."""
    for path in (Path(name), Path("runs", name)):
        if path.is_dir():
            if (path / POLICY).is_file():
                return path / POLICY
            if not (path / CONFIG).is_file():
                raise PolicyError(f"{path}: no run and no policy is in this folder; expected {POLICY} in it")
            raise PolicyError(f"{path}: the run has no {POLICY} yet; train it to its end: {resume_command(path)}")
        if path.is_file():
            return path
    raise PolicyError(f"{name}: no such policy or run; expected a file, a run's folder, or the name of a run in runs/")


def resume_command(run: Path) -> str:
    """What goes on with the training in the folder `run`, whenever and however it ended, as a line for a shell."""
    return shlex.join(["ccarena", "train", "--out", str(run), "--resume"])


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The lines of a `progress.jsonl`, oldest first; a last line cut short by a kill is left out. Empty if no file."""
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").splitlines()
    out = []
    for number, line in enumerate(lines, start=1):
        try:
            out.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}:{number}: not a line of JSON: {error}; delete the line") from error
    return out
