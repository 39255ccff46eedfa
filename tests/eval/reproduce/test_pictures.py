"""Pictures of claims: what they show, and where."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.eval.reproduce import pages, suite
from ccarena.eval.reproduce.checks import bounds
from ccarena.eval.reproduce.pictures import LEFT, RIGHT, _scale, pictures

KEPT = Path(__file__).parents[3] / "docs" / "reproduction.md"


def claim(**changes: Any) -> dict[str, Any]:
    return {
        **{"claim": "A & B", "paper": "1.9", "measured": "2 [1, 3]", "state": "differs", "values": [[2.0]]},
        **{"intervals": [[[1.0, 3.0]]], **changes},
    }


def drawn(*claims: dict[str, Any], name: str = "own/mine") -> ElementTree.Element:
    text = pictures([{"suite": name, "claims": claims}])
    figures = "".join(re.findall(r"<figure.*?</figure>", text))
    return ElementTree.fromstring(f"<all>{figures}</all>")


def test_a_claim_shows_its_value_its_interval_and_its_state() -> None:
    (figure,) = drawn(claim())
    caption, svg = figure
    assert "".join(caption.itertext()) == "1. A & B2 [1, 3], in the paper 1.9: differs."
    at = [float(circle.get("cx", "")[:-1]) for circle in svg.iter("circle")]
    bar = next(line for line in svg.iter("line") if line.get("style"))
    ends = [float(bar.get(end, "")[:-1]) for end in ("x1", "x2")]
    assert at == [pytest.approx(sum(ends) / 2, abs=0.01)] and ends[0] < ends[1] == RIGHT


def test_what_was_not_measured_is_not_drawn() -> None:
    assert pictures([{"suite": "own/mine", "claims": [claim(values=[[None]]), claim(values=[])]}]) == ""


def test_the_papers_number_is_where_the_suite_has_it() -> None:
    one = next(each for each in suite.load("wcc/delay").claims if each.parts[0].paper)
    (figure,) = drawn(claim(claim=one.text, values=[[1.975]], intervals=()), name="wcc/delay")
    ours, paper = (circle for circle in figure.iter("circle"))
    assert paper.get("class") == "paper" and paper.get("cx") == ours.get("cx")
    shaded = next(figure.iter("rect"))
    start, wide = (float(shaded.get(key, "")[:-1]) for key in ("x", "width"))
    assert start + wide / 2 == pytest.approx(float(paper.get("cx", "")[:-1]), abs=0.02), "within 10 % on both sides"
    (without,) = drawn(claim(claim=one.text))
    assert len(list(without.iter("circle"))) == 1


@pytest.mark.parametrize(
    ("holds", "better", "expected"),
    [
        ({"within": "10 %"}, None, (1.8, 2.2)),
        ({"within": "10 %"}, "higher", (1.8, math.inf)),
        ({"within_absolute": 0.5}, "lower", (-math.inf, 2.5)),
        ({"between": [1, 3]}, None, (1.0, 3.0)),
        ({"all": [{"at_least": 1}, {"at_most": 1.5}]}, None, (1.0, 1.5)),
        ({"all": [{"at_least": 1}, {"order": "increasing", "by": "5 %"}]}, None, None),
        ({"at_least": {"value": "rtt_ms"}}, None, None),
        ({"any": [{"at_least": 1}]}, None, None),
    ],
)
def test_a_range_is_shaded_only_if_the_claim_requires_one(holds: Any, better: Any, expected: Any) -> None:
    assert bounds(holds, better, 2.0) == (expected and pytest.approx(expected))


@given(st.lists(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9), min_size=1, max_size=6))
def test_every_number_is_on_the_axis_in_its_order(numbers: list[float]) -> None:
    place, ticks = _scale(numbers)
    at = [place(x) for x in sorted(numbers)]
    assert at == sorted(at) and all(LEFT <= x <= RIGHT and math.isfinite(x) for x in at)
    assert len(ticks) <= 20 and ticks == sorted(ticks)


def test_every_suite_of_the_papers_has_pictures() -> None:
    found = pages.site(KEPT, suite.shipped())
    without = [name for name, text in found.items() if "/" in name and "<figure" not in text]
    assert without == []
