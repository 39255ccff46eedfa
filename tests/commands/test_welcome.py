"""`ccarena` alone says where to begin, and whatever it prints, an old locale can show."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.commands import welcome
from ccarena.commands.welcome import FIRST
from ccarena.configs import load_config
from ccarena.core.arguments import parse


@pytest.mark.parametrize("columns", [None, 200, 80, 40])
def test_it_names_the_first_commands_from_the_shortest_on(
    columns: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "\x1b" not in out and out.count("\n") <= 30
    assert max(map(len, out.splitlines())) <= min(columns or 80, 80)
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ccarena")]
    assert commands == [*(command for _, command, _ in FIRST), "ccarena --help", "ccarena doctor"]


def test_it_says_what_training_lacks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for spec, said in ((None, True), (object(), False)):
        monkeypatch.setattr(welcome, "find_spec", lambda name, spec=spec: spec)
        assert cli.main([]) == 0
        assert ("Training needs PyTorch" in capsys.readouterr().out) == said


@pytest.mark.parametrize("command", [command for _, command, _ in FIRST])
def test_its_commands_are_ones(command: str) -> None:
    words = shlex.split(command)[1:]
    args, rest = parse(lambda: cli.build_parser(words[0]), words)
    assert rest == []
    if words[0] == "train":
        assert load_config(args.config).total_decisions > 0


def test_help_still_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    assert stopped.value.code == 0
    assert set(cli.COMMANDS) <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_a_character_is_no_error(encoding: str, tmp_path: Path) -> None:
    words = ["compete", "reno", "cubic", "--duration-s", "1", "--stagger-s", "0.1", "--seeds", "2", "--out", tmp_path]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "ccarena_command", *words], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode(encoding)
    assert ("+-" if encoding == "ascii" else "±") in text and "?" not in text
    assert text.splitlines()[-1] == f"page, for your browser: {(tmp_path / 'compete.html').as_uri()}"
