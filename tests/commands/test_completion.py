"""Completion as a shell asks for it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.commands.completion import SHELLS

ROOT = Path(__file__).parents[2]


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
        ("ccarena eval --backend ", {"sim", "kernel", "quic"}),
        ("ccarena kernel at", {"attach"}),
        ("ccarena traces stats --mean", {"--mean-mbps"}),
        ("ccarena train --config acct-w", {"acct-wired"}),
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


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which `ccarena` is this one, and nobody's shell has a configuration."""
    program = tmp_path / "ccarena"
    program.write_text(f"#!{sys.executable}\nimport ccarena_command\nccarena_command.main()\n")
    program.chmod(0o755)
    (tmp_path / ".zshrc").write_text("autoload -Uz compinit\ncompinit -u -D\nsource <(ccarena completion zsh)\n")
    (tmp_path / ".bashrc").write_text("source <(ccarena completion bash)\n")
    here = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return os.environ | here | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "xterm"}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_tab_key_completes(shell: str, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} IS NOT INSTALLED: its completion is not tested")
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(shell, [shell, "-i"], environment)
    os.write(terminal, b"ccarena compe\t--help\n")
    seen, deadline = b"", time.monotonic() + 60
    while b"usage: ccarena compete" not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536)
    os.close(terminal)
    os.waitpid(child, 0)
    assert b"usage: ccarena compete" in seen, seen.decode()


@pytest.mark.skipif(shutil.which("fish") is None, reason="FISH IS NOT INSTALLED: its completion is not tested")
def test_fish_is_offered_what_completes(environment: dict[str, str]) -> None:
    code = "ccarena completion fish | source; complete -C 'ccarena compe'"
    offered = subprocess.run(["fish", "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert offered.startswith("compete")
