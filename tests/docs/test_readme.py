"""Every command of the README is run exactly as written, by this file or by `.ci/run`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the README's commands were not run (run make)")
pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: the README's commands were not run")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", flags=re.S | re.M)
IN_CI = re.compile(r"make \w+")
"""Commands that build or test everything: `.ci/run` runs them."""
MOST_LINES = 80


def commands(text: str) -> list[str]:
    """The lines of all shell blocks, without their comments."""
    lines = [line for block in BLOCK.finditer(text) if block["language"] == "sh" for line in block["text"].splitlines()]
    return [line.split(" #")[0].rstrip() for line in lines if line and not line.startswith("#")]


def split(found: list[str]) -> tuple[list[str], list[str]]:
    """Returns the commands to run here, and those that `.ci/run` has to run."""
    return [c for c in found if not IN_CI.fullmatch(c)], [c for c in found if IN_CI.fullmatch(c)]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_ci_runs_what_builds_and_tests() -> None:
    script = [line.strip() for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()]
    run = {" ".join(line.split()[:2]) for line in script}
    _, others = split(commands(README))
    assert len(others) >= 3 and [command for command in others if command not in run] == []


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the output of each command, in one shell, beginning in an empty folder.

    The address of the repository leads to this checkout, and `.venv` to the environment that runs the tests.
    """
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("NO GIT CHECKOUT: the README's commands were not run")
    folder = tmp_path_factory.mktemp("readme")
    here, _ = split(commands(README))
    script = ["set -e"]
    for number, command in enumerate(here):
        script += [f"exec >{folder}/{number}.out", command]
        if command.startswith("git clone"):
            # As `make setup` leaves it.
            script += [f"ln -s {sys.prefix} .venv", f"cp {ROOT}/ccarena/_core*.so ccarena/"]
    environment = {
        **os.environ,
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/ccarena/ccarena",
        "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": "*",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    for name in ("COLUMNS", "FORCE_COLOR", "CCARENA_TRACE_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {command: (folder / f"{number}.out").read_text("utf-8") for number, command in enumerate(here)}


def test_every_other_command_runs_as_written(outputs: dict[str, str]) -> None:
    silent = ("git clone", "source ")
    assert [c for c, out in outputs.items() if not out.strip() and not c.startswith(silent)] == []
    (trained,) = (out for command, out in outputs.items() if command.startswith("ccarena train"))
    assert "Did it learn?" in trained


def test_the_plot_is_what_the_command_before_it_draws(outputs: dict[str, str]) -> None:
    (plot,) = (block["text"] for block in BLOCK.finditer(README) if block["language"] == "text")
    (drawn,) = (out for command, out in outputs.items() if command.startswith("ccarena compete"))
    assert plot in drawn


def test_commands_are_found() -> None:
    text = "```sh\nmake setup   # build\nccarena eval x  # look\n# a comment\n```\n```python\nx\n```\n"
    assert split(commands(text)) == (["ccarena eval x"], ["make setup"])
