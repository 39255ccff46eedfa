"""The one way out of an ended training, `ccarena train --out FOLDER --resume`, works however it ended."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ccarena import cli
from ccarena.agents import checkpoint
from ccarena.policies.artifact import load

ROOT = Path(__file__).parents[2]
SMALL = ["--total-decisions", "3000", "--env.worlds", "8", "--algorithm.workers", "1", "--network.filters", "1"]
SMALL += ["--network.hidden", "8", "--eval.link_sets", "[]", "--env.link.kinds.trace", "0"]


def printed(errors: str) -> list[str]:
    """The arguments of the `ccarena ...` that was printed."""
    words = shlex.split(errors.rpartition("go on with: ")[2].splitlines()[0])
    assert words[0] == "ccarena", errors
    return words[1:]


def test_whatever_ends_a_training_the_printed_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No room for the first checkpoint, then SIGKILL right after it, and the policy is that of a quiet training."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--out", "quiet", *SMALL]) == 0
    capsys.readouterr()

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # stands in for a full disk
    try:
        code = cli.main(["train", "--out", "run", *SMALL])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    errors = capsys.readouterr().err
    assert code == 1
    assert "cannot write the checkpoint: File too large; there is none yet; free some space" in errors
    assert not checkpoint.exists(Path("run"))
    command = printed(errors)

    # With a length that leaves time for what follows.
    process = subprocess.Popen(
        [sys.executable, "-m", "ccarena.cli", *command, "--total-decisions", "100_000_000"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not checkpoint.exists(Path("run")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    # Two trainings in one folder would write over each other.
    assert cli.main(command) == 2
    assert f"another training is running in this folder (process {process.pid})" in capsys.readouterr().err
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    assert printed(errors) == command
    assert checkpoint.load(Path("run")).rest["algorithm"]["learner"]["decisions"] == 0

    assert cli.main([*command, "--total-decisions", "3000"]) == 0
    quiet, disturbed = (load(Path(name, "policy.safetensors")).tensors for name in ("quiet", "run"))
    assert all(np.array_equal(quiet[name], disturbed[name]) for name in quiet)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["train", "--out", str(tmp_path / "file" / "run"), *SMALL]) == 2
    assert "cannot write there: Not a directory; nothing was run: give another folder" in capsys.readouterr().err
