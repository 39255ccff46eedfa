"""docs/attack.md: its generated part is the code's."""

from __future__ import annotations

from pathlib import Path

import pytest

docs = pytest.importorskip("docs.generate.attack")

PAGE = Path(__file__).parents[2] / "docs" / "attack.md"


def test_the_tables_are_up_to_date() -> None:
    _, mark, rest = PAGE.read_text(encoding="utf-8").partition(docs.GENERATED)
    assert mark and mark + rest == docs.markdown(), "run make docs"
