"""A training run's folder and the shipped policies: names of files, and which policy file a name means."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ccarena.errors import ConfigError, PolicyError, did_you_mean

__all__ = [
    "CONFIG",
    "EVALUATION",
    "PAGE",
    "POLICY",
    "PROGRESS",
    "RESULTS",
    "SHIPPED",
    "find_policy",
    "read_progress",
    "resume_command",
    "shipped",
]

CONFIG, POLICY, PROGRESS = "config.yaml", "policy.safetensors", "progress.jsonl"
"""What a training writes: its effective configuration, the policy, and a line of figures for every update."""
RESULTS, EVALUATION, PAGE = "results.json", "evaluation.json", "report.html"
"""What an evaluation writes: every row and series; the verdict and the means; the page for people."""


SHIPPED = Path(__file__).with_name("policies") / "shipped"
"""Where the policies are that come with ccarena."""


def shipped() -> dict[str, Path]:
    """The policies that come with ccarena, by name; beside each, NAME.md says what it is."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def find_policy(name: str) -> Path:
    """The policy file that `name` means: a file, a run's folder, a run in `runs/`, or a shipped policy.

    Raises PolicyError, with the nearest name that there is.
    """
    for path in (Path(name), Path("runs", name)):
        if path.is_dir():
            if (path / POLICY).is_file():
                return path / POLICY
            if not (path / CONFIG).is_file():
                raise PolicyError(f"{path}: no run and no policy is in this folder; expected {POLICY} in it")
            raise PolicyError(f"{path}: the run has no {POLICY} yet; train it to its end: {resume_command(path)}")
        if path.is_file():
            return path
    known = shipped()
    if name in known:
        return known[name]
    runs = {path.parent.name for path in Path("runs").glob(f"*/{POLICY}")}
    raise PolicyError(
        f"{name}: no such policy or run; expected a file, a run's folder, the name of a run in runs/, or that of a "
        f"shipped policy{did_you_mean(name, runs | known.keys())}"
    )


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
