"""States: each has one colour and one sign, which can be read in both themes."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from ccarena.pages import Callout, Cell, Page, Section, Table, render
from ccarena.pages.page import assets
from ccarena.pages.states import STATES, State, state_of, worst

CSS = assets()["page.css"]
COLOURED = [state for state in STATES if state != "plain"]
HUES = {"good": (80, 190), "partly": (35, 65), "bad": (-25, 25)}
"""Green, amber and red, as degrees of hue."""


def colours(name: str) -> tuple[tuple[float, ...], ...]:
    """Red, green and blue of a variable in the light and in the dark theme, 0 to 1."""
    both = re.search(rf"--{name}: light-dark\(#(\w{{6}}), #(\w{{6}})\)", CSS)
    assert both is not None, name
    return tuple(tuple(int(one[at : at + 2], 16) / 255 for at in (0, 2, 4)) for one in both.groups())


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance (WCAG 2.2)."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def hue(colour: tuple[float, ...]) -> float | None:
    """Hue in degrees, -60 to 300; None for a grey."""
    red, green, blue = colour
    high, spread = max(colour), max(colour) - min(colour)
    if spread < 0.15:
        return None
    if high == red:
        return 60 * (green - blue) / spread
    return 60 * (2 + (blue - red) / spread) if high == green else 60 * (4 + (red - green) / spread)


@pytest.mark.parametrize("state", COLOURED)
def test_a_state_is_readable_on_every_ground_in_both_themes(state: State) -> None:
    for ground in (f"{state}-paper", "surface", "paper", "ours"):
        for ink, paper in zip(colours(state), colours(ground), strict=True):
            bright, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, f"{state} on {ground} (WCAG 2.2, 1.4.3)"


@pytest.mark.parametrize(
    "name", ["blue", "vermilion", "green", "purple", "orange", "sky", "wine", "teal", "olive", "yellow"]
)
def test_a_line_is_visible_on_every_ground_in_both_themes(name: str) -> None:
    for ground in ("surface", "paper", "raised"):
        for line, paper in zip(colours(name), colours(ground), strict=True):
            bright, dark = sorted((luminance(line), luminance(paper)), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 3, f"{name} on {ground} (WCAG 2.2, 1.4.11)"


@pytest.mark.parametrize("state", COLOURED)
def test_a_state_has_its_colour(state: State) -> None:
    for colour in colours(state):
        found, expected = hue(colour), HUES.get(state)
        if expected is None:
            assert found is None, "grey"
        else:
            assert found is not None and expected[0] <= found <= expected[1]
    assert f".callout.{state} " in CSS and f"td.{state} " in CSS


def test_no_two_states_look_the_same_with_or_without_colours() -> None:
    for one, other in combinations(STATES.values(), 2):
        assert one.sign != other.sign and one.terminal != other.terminal
    page = render(
        Page(
            *("a page", "a kind", "a lead"),
            findings=[Callout(state, state) for state in COLOURED],
            sections=[Section("a section", "", [Table(["state"], [[Cell(state, state)] for state in COLOURED])])],
        )
    )
    for state in COLOURED:
        assert page.count(f"{STATES[state].sign} </span>{state}") == 2


def test_every_word_of_an_outcome_has_a_state() -> None:
    from ccarena.commands import doctor
    from ccarena.eval.heldout import expectations
    from ccarena.eval.reproduce import checks

    for words in (expectations.State, checks.State, doctor.State):
        assert all(state_of(word) in COLOURED for word in words.__args__)
    assert [state_of(word) for word in ("holds", "undecided", "not tested", "does not hold")] == COLOURED


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), "neutral"),
        (("neutral",), "neutral"),
        (("good", "neutral"), "good"),
        (("good", "partly", "neutral"), "partly"),
        (("good", "bad", "partly"), "bad"),
    ],
)
def test_what_was_not_tested_counts_neither_way(states: tuple[State, ...], expected: State) -> None:
    assert worst(states) == expected
