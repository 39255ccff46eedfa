"""Standard output in the place of a file: in every option that writes one, or refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: outputs not tested (run make)")

from ccarena import cli
from ccarena.commands.emulator import SHELLS
from ccarena.core.arguments import parsers
from ccarena.core.outputs import Output, folder, kept
from ccarena.policies import artifact
from ccarena.traces import files

READ = {
    ("attack", "--replay"),
    ("attack", "--space"),
    ("build", "path"),
    ("compete", "--scenario"),
    ("data", "data"),
    ("eval", "--scenario"),
    ("fidelity", "cases"),
    ("fidelity", "--traces"),
    ("fit", "runs"),
    ("kernel", "--cgroup"),
    ("kernel", "--option"),
    ("leaderboard", "file"),
    ("leaderboard", "--reported"),
    ("play", "scenario"),
    ("policy", "path"),
    ("quic", "--control"),
    ("remote", "scenario"),
    ("remote", "--token"),
    ("traces", "table"),
    ("traces", "tables"),
    ("traces", "--from"),
    ("search", "--space"),
    ("tune", "--space"),
    ("tune-scheme", "--space"),
}
"""Options that name what is read, or what is there already; every other one of a path says how it is written."""


def options() -> list[tuple[str, str, argparse.Action]]:
    """(command, option, action) of everything that names a path."""
    found = []
    for name in cli.COMMANDS.keys() - SHELLS:
        for parser in parsers(cli.build_parser(name)):
            for action in parser._actions:
                if action.type is Path or action.type in (folder, kept) or isinstance(action.type, Output):
                    found.append((name, action.option_strings[-1] if action.option_strings else action.dest, action))
    return found


def test_every_option_of_a_path_is_read_or_says_how_it_is_written() -> None:
    plain = {(command, option) for command, option, action in options() if action.type is Path}
    assert plain - READ == set()
    assert len(options()) > 20


@pytest.mark.parametrize("text", ["-", "/dev/stdout"])
def test_folders_and_files_that_are_changed_are_never_standard_output(text: str) -> None:
    refused = [action for _, _, action in options() if action.type in (folder, kept)]
    assert len(refused) > 10
    for action in refused:
        assert callable(action.type)
        with pytest.raises(argparse.ArgumentTypeError, match="is standard output; expected the name of"):
            action.type(text)


def run(words: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(words.split())
    captured = capfd.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("parity acct --decisions 20 --link-sets --json -", "agreement"),
        ("compete reno cubic --duration-s 1 --stagger-s 0.1 --seeds 1 --plot -", "wrote standard output\n"),
        ("traces plot lte-bus --duration-s 5 --out -", "wrote standard output"),
        ("traces generate lte-bus --duration-s 5 --out -", "wrote standard output: "),
        ("traces convert table.csv --interval-s 1 --out -", "wrote standard output: "),
        ("policy rule acct --out -", "standard output: "),
    ],
)
def test_what_is_written_is_all_of_standard_output(
    words: str, said: str, here: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (here / "table.csv").write_text("rate_mbps\n12\n12\n")
    before = {path.name for path in here.iterdir()}
    assert cli.main(words.split()) == 0
    captured: Any = capfdbinary.readouterr()
    assert said in captured.err.decode() and "/tmp/ccarena-" not in captured.err.decode()
    assert {path.name for path in here.iterdir()} - before <= {"runs"}
    written = here / "written"
    written.write_bytes(captured.out)
    if "parity" in words:
        assert json.loads(captured.out)["problems"] == []
    elif "policy" in words:
        assert artifact.load(written).interface.digest
    elif "--plot" in words:
        assert captured.out.startswith(b"<?xml") and captured.out.rstrip().endswith(b"</svg>")
    elif "plot" in words:
        assert captured.out.startswith(b"<!") and captured.out.rstrip().endswith(b"</html>")
    else:
        assert files.load(written).size > 10


def test_two_things_are_not_both_standard_output(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compete = "compete reno cubic --duration-s 1 --stagger-s 0.1 --seeds 1"
    code, out, err = run(f"{compete} --plot - --json", capfd)
    assert (code, out) == (2, "") and "--plot and --json: standard output takes one of them" in err
    code, out, err = run("fidelity --live --json - --plot -", capfd)
    assert (code, out) == (2, "") and "--json and --plot: standard output takes one of them" in err
    for words in (f"{compete} --out -", "eval reno --out -", "eval reno --record -"):
        code, out, err = run(words, capfd)
        assert (code, out) == (2, "") and '"-" is standard output; expected the name of' in err
    assert not list(here.iterdir())


def test_what_fails_writes_nothing(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("parity absent --json -", capfd)
    assert (code, out) == (3, "") and err.startswith("error: ")
