"""What commands print fits 80 columns, and no number is ever cut."""

from __future__ import annotations

import re

import pytest

from ccarena import cli
from ccarena.terminal import fitting, print_table

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


@pytest.mark.parametrize(
    "words",
    [["schemes"], ["schemes", "--queues"], ["doctor"], ["reproduce", "--list"], ["traces", "list"],
     ["traces", "stats", "lte-driving", "lte-bus", "--duration-s", "5"]],
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
