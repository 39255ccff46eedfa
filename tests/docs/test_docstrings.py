"""Docstrings begin with a verb or a noun, and their sentences are short (Python's `\"""` and Rust's `///`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 30
"""Most words of a sentence."""

NO_SUBJECT = frozenset(
    """what whatever whether how who whose whom where wherever when whenever why which whichever that those these this
    it its they their he his she her nobody none not only of by in on for from with without as if among amid after
    before between beside besides below above about across against along around at behind beyond but despite during
    except inside into like near off onto out outside over past per since than through throughout till to toward
    towards under until up upon via within and or so then there such""".split()
)
"""Question words, pronouns, prepositions and conjunctions: a docstring that begins with one has no subject."""


class Docstring(NamedTuple):
    """One docstring of the package or of a crate."""

    place: str
    """File and line."""
    text: str


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yields the docstrings of a Python or Rust file."""
    name = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    text = path.read_text("utf-8")
    yield from _strings(ast.parse(text), name) if path.suffix == ".py" else _doc_comments(text, name)


def _strings(node: ast.Module | ast.ClassDef, name: str) -> Iterator[Docstring]:
    """Yields docstrings of a module or class, its classes and functions, and strings after constants and fields."""
    before: ast.stmt | None = None
    for k, stmt in enumerate(node.body):
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str):
            if k == 0 or isinstance(before, ast.Assign | ast.AnnAssign):
                yield Docstring(f"{name}:{stmt.lineno}", stmt.value.value)
        elif isinstance(stmt, ast.ClassDef):
            yield from _strings(stmt, name)
        elif isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(stmt)):
            yield Docstring(f"{name}:{stmt.body[0].lineno}", text)
        before = stmt


def _doc_comments(text: str, name: str) -> Iterator[Docstring]:
    """Yields runs of `///` or `//!` lines."""
    lines: list[str] = []
    for k, line in enumerate([*text.split("\n"), ""], 1):
        if found := re.match(r"\s*//[/!](?!/) ?(.*)", line):
            lines.append(found[1])
        elif lines:
            yield Docstring(f"{name}:{k - len(lines)}", "\n".join(lines))
            lines = []


def sentences(text: str) -> list[str]:
    """Splits a docstring into sentences: code, lists, tables and headings end one; code in backticks is one word."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]+`", "x", text)
    text = re.sub(r"\[([^\]]+)\](\([^)]*\))?", r"\1", text)
    text = re.sub(r"\b(e\.g|i\.e|cf|vs|Sec|sec|Fig|Eq|Alg|No|pp|et al)\.", r"\1", text)
    blocks = re.split(r"\n\s*\n|\n\s*(?=[-*|#>]|\d+\. |\w+: )|\n(?=    )|::\n", text)
    return [s for block in blocks for s in re.split(r"(?<=[.!?:;])[)\"']*\s+", block.strip()) if s]


def faults(doc: Docstring) -> list[str]:
    """Returns the faults of a docstring, as lines that name the place."""
    words = re.findall(r"[A-Za-z][\w'-]*", doc.text.strip())
    bare = doc.text.strip()[:1] == "`"
    found = []
    if words and not bare and words[0].lower() in NO_SUBJECT:
        found.append(f"{doc.place}: begins with {words[0]!r}: {doc.text.strip().splitlines()[0][:90]}")
    for sentence in sentences(doc.text):
        if len(sentence.split()) > LONGEST:
            found.append(f"{doc.place}: {len(sentence.split())} words: {' '.join(sentence.split())[:120]}")
    return found


def rooms() -> dict[str, list[Path]]:
    """Returns files of the package by room (two levels in `eval/`), and of the crates by crate."""
    by_room: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "ccarena").rglob("*.py")):
        parts = path.relative_to(ROOT / "ccarena").parts
        depth = min(2 if parts[0] == "eval" else 1, len(parts) - 1)
        by_room.setdefault("/".join(parts[:depth]) or ".", []).append(path)
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        by_room.setdefault(f"crates/{path.relative_to(ROOT).parts[1]}", []).append(path)
    return by_room


@pytest.mark.parametrize("room", rooms())
def test_docstrings_have_a_subject_and_short_sentences(room: str) -> None:
    found = [fault for path in rooms()[room] for doc in docstrings(path) for fault in faults(doc)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["Whether it is there.", "Of the loss.", "As they are.", "Who runs\nthem.", " ".join(["Returns"] * (LONGEST + 1))],
)
def test_a_fault_is_found(text: str) -> None:
    assert len(faults(Docstring("here", text))) == 1


def test_docstrings_are_read_from_both_languages(tmp_path: Path) -> None:
    python, rust = tmp_path / "a.py", tmp_path / "a.rs"
    python.write_text(
        '"""Module."""\nA = 1\n"""Constant."""\nclass B:\n    """Class."""\n    x: int\n    """Field."""\n'
    )
    rust.write_text("//! Crate.\n\n/// Function,\n/// two lines.\nfn f() {} // no docstring\n")
    assert [doc.text for doc in docstrings(python)] == ["Module.", "Constant.", "Class.", "Field."]
    assert [doc.text for doc in docstrings(rust)] == ["Crate.", "Function,\ntwo lines."]


def test_code_and_lists_are_no_sentences() -> None:
    listed = "\n".join(f"- entry {k} of the list" for k in range(LONGEST))
    assert sentences(f"Holds `a b c`:\n\n{listed}")[0] == "Holds x:"
    assert faults(Docstring("here", f"Holds:\n\n{listed}")) == []
