"""Completion as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.completion import SHELLS

ROOT = Path(__file__).parents[1]


def completions(line: str, folder: Path) -> set[str]:
    """What is offered after `line`."""
    answer = folder / "answer"
    environment = os.environ | {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_IFS": "\n",
    }
    environment |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", "import ccarena_command; ccarena_command.main()"], cwd=folder, env=environment
    )
    return {word.strip() for word in answer.read_text().splitlines()}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ccarena compe", {"compete"}),
        ("ccarena eval --back", {"--backend"}),
        ("ccarena eval --backend ", {"sim", "kernel"}),
        ("ccarena kernel at", {"attach"}),
        ("ccarena traces stats --mean", {"--mean-mbps"}),
        ("ccarena train --config acct-q", {"acct-quick"}),
        ("ccarena train --env.link.ra", {"--env.link.rate_mbps"}),
        ("ccarena eval mi", {"mine"}),
    ],
)
def test_commands_options_and_values_are_offered(line: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    assert completions(line, tmp_path) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_its_code(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    code = capsys.readouterr().out
    assert "_ARGCOMPLETE" in code and "ccarena" in code
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=code, text=True, check=True)
