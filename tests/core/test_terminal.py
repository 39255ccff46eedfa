"""What commands print fits 80 columns, and no number is ever cut."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.core.terminal import EVERY_S, Heartbeat, fitting, print_table, progress_bar

NUMBER = re.compile(r"\d[\d.,]*")


@pytest.mark.parametrize("columns", [200, 80, 60, 40])
def test_every_number_of_a_table_is_shown_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    head = ["links", "scheme", *(f"figure number{i} (Mbit/s)" for i in range(9))]
    rows = [
        [f"group {g}", f"a scheme {s}", *(f"{1000 * g + 100 * s + i}.125" for i in range(9))]
        for g in (1, 2)
        for s in (1, 2)
    ]
    print_table(
        "what it is, and of how many seeds, which is longer than most terminals are wide, " * 2, head, rows, left=2
    )
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= columns
    assert {cell for row in rows for cell in row[2:]} <= set(out.split())
    assert (len(re.findall("continued", out)) > 0) == (columns < 200)
    assert out.count("group 1") == 1 + len(re.findall("continued", out)), "each part says whose figures they are"


def test_a_pipe_gets_lines_as_long_as_their_content(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for words in (10, 300):
        text = " ".join(["word"] * words)
        print_table("t", ["what it is", "n"], [[text, "1"]], left=1)
        assert f"{text}  1" in capsys.readouterr().out


def test_a_pipe_gets_no_blanks_behind_a_table(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table("title", ["name", "what it is"], [["a", "short"], ["b", "long " * 30]], left=2)
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "title" and not any(line.endswith(" ") for line in out.splitlines())


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_column_needs_no_heading(capsys: pytest.CaptureFixture[str], left: int) -> None:
    print_table("t", ["", " "], [["a", "1"], ["", ""]], left=left)
    assert "a  1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["schemes"], ["schemes", "--queues"], ["doctor"], ["reproduce", "--list"], ["assess", "--list"],
     ["traces", "list"], ["traces", "stats", "lte-driving", "lte-bus", "--duration-s", "5"]],
    ids=" ".join,
)  # fmt: skip
def test_listings_fit_80_columns(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    cli.main(words)
    numbers = set(NUMBER.findall(capsys.readouterr().out))
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(words)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    if words[:2] != ["traces", "list"] and words != ["doctor"]:  # files and memory may be wrapped anywhere, or change
        assert numbers <= set(NUMBER.findall(out))


def test_what_does_not_fit_is_left_out_whole() -> None:
    assert fitting(["first", "second", "a long third", "x"], 18) == "first  second  x"
    assert fitting(["first"], 1) == "first"


def test_long_work_says_how_far_it_is_at_least_every_ten_seconds() -> None:
    now, said, done = [0.0], [], [0]
    beats = Heartbeat(lambda: f"work: {done[0]} of 9", said.append, lambda: now[0])
    spoken = []
    for second in range(1, 61):
        now[0], done[0], before = float(second), second // 30, len(said)
        beats.beat()  # as the thread does, whether or not anything was finished
        spoken += [second] * (len(said) - before)
    assert max(b - a for a, b in zip([0, *spoken], [*spoken, 60], strict=True)) <= 10
    assert len(said) <= 8 and said[0] == f"work: 0 of 9, {EVERY_S:.0f} s" and "work: 1 of 9, 32 s" in said


def test_a_pipe_gets_lines_while_one_step_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ccarena.core.terminal.EVERY_S", 0.5)
    with progress_bar("evaluating") as progress:
        time.sleep(1.3)
        progress(3, 40)
        time.sleep(1.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("evaluating: begun, ") and lines[-1].startswith("evaluating: 3 of 40 links, ")
    with progress_bar("evaluating") as progress:
        progress(40, 40)
    assert capsys.readouterr().err == ""


LONG = {
    "eval": "ccarena.eval.heldout.outcome",
    "eval --scenario": "ccarena.scenarios.run",
    "training's evaluation": "ccarena.eval.heldout.training_run",
    "training's rules": "ccarena.agents.train",
    "compete": "ccarena.eval.compete.competition",
    "leaderboard": "ccarena.commands.leaderboard",
    "fidelity": "ccarena.commands.fidelity",
    "parity": "ccarena.commands.parity",
    "reproduce": "ccarena.eval.reproduce.runner",
    "tune": "ccarena.commands.tune",
    "doctor --link-speed": "ccarena.commands.doctor",
}


@pytest.mark.parametrize("module", LONG.values(), ids=LONG)
def test_what_takes_long_shows_its_progress_in_one_way(module: str) -> None:
    source = Path(*module.split(".")).with_suffix(".py")
    text = (Path(__file__).parents[2] / source).read_text("utf-8")
    assert re.search(r"\b(heartbeat|progress_bar)\(", text), "by ccarena.core.terminal"
    assert "isatty() or done" not in text
