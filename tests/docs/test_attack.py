"""docs/attack.md: its generated part is the code's."""

from __future__ import annotations

from pathlib import Path

import pytest

docs = pytest.importorskip("docs.generate.attack")

PAGE = Path(__file__).parents[2] / "docs" / "attack.md"


def test_the_tables_are_up_to_date() -> None:
    _, mark, rest = PAGE.read_text(encoding="utf-8").partition(docs.GENERATED)
    assert mark and mark + rest == docs.markdown(), "run make docs"


def test_the_sample_is_a_result_and_all_entrants_were_attacked_alike() -> None:
    above = PAGE.read_text(encoding="utf-8").partition(docs.GENERATED)[0]
    assert docs.sample() in above and docs.filled(above) == above, "run make docs"
    efforts = [(each["candidates"], each["seeds"], each["seed"]) for each in docs.entries(docs.RESULTS).values()]
    assert "`gcc`" in docs.others() and "`cubic`" not in docs.others() and "`hercules`" not in docs.others()
    assert len(set(efforts)) == 1 and str(efforts[0][0]) in docs.effort()
