"""Plots in a terminal show every number, whatever the terminal can: colours, columns, characters."""

from __future__ import annotations

import io
import re
import sys

import pytest

from ccarena.pages.terminal_plots import Cell, Matrix, bar, print_matrices

NAMES = ["cubic", "bbr", "wcc-ai@weight=2 of a long name", "acct"]
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def matrix(title: str = "share") -> Matrix:
    """16 cells of different numbers, one of them unknown."""
    cells = [[Cell(str(10 * i + j), (10 * i + j) / 40, "#2166ac") for j in range(4)] for i in range(1, 5)]
    return Matrix(title, NAMES, [[None, *cells[0][1:]], *cells[1:]])


def numbers(out: str) -> set[str]:
    return set(re.findall(r"\d+", out))


ALL = {str(10 * i + j) for i in range(1, 5) for j in range(4)} - {"10"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("columns", [None, 120, 80, 40, 20])
def test_every_number_is_shown_in_any_width(
    columns: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    print_matrices([matrix(), matrix("harm")])
    out = capsys.readouterr().out
    assert ALL <= numbers(out) and "–" in out and "\x1b" not in out
    assert max(map(len, out.splitlines())) <= (columns or 80)
    assert out.count("cubic ") >= 2 or columns == 20


def test_two_matrices_stand_side_by_side_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heights = []
    for columns in (200, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_matrices([matrix(), matrix("harm")])
        heights.append(capsys.readouterr().out.count("\n"))
    assert heights == [7, 14]


def test_colours_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    print_matrices([matrix()])
    coloured = capsys.readouterr().out
    assert len(COLOUR.findall(coloured)) >= 15 and ALL <= numbers(COLOUR.sub("", coloured))
    # The colour of a cell is as wide as the cell, at the end of a line, too.
    widths = {len(cell) for cell in re.findall(r"\x1b\[38[\d;]*m( *\d+ *)\x1b", coloured)}
    assert len(widths) == 1
    monkeypatch.setenv("NO_COLOR", "1")
    print_matrices([matrix()])
    plain = COLOUR.sub("", capsys.readouterr().out)
    assert "█" in plain and ALL <= numbers(plain)


def test_bars_grow_with_the_number() -> None:
    assert [bar(share, 3) for share in (0.0, 0.5, 1.0, 7.0, float("nan"))] == ["   ", "█▌ ", "███", "███", "   "]
    assert [bar(share, 3, plain=True) for share in (0.0, 0.4, 1.0)] == ["   ", "#  ", "###"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_old_locale_gets_characters_that_it_has(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    print_matrices([matrix()])
    out.flush()
    text = out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "###" in text and ALL <= numbers(text) and "?" not in text
