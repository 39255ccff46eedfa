"""A run that a page's reader repeats: `press` presses the button and returns what the page then says."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ccarena.eval.measure.table import FIGURES
from ccarena.pages.browser import Browser
from ccarena.pages.runnable import simulator


class Pressed(NamedTuple):
    """A run that ended in a page."""

    figures: dict[str, list[str]]
    """Verdicts on each figure, "same", "other" or none, of each flow in order."""
    status: str


WAIT = """new Promise((done, failed) => {
  const began = performance.now();
  const look = () => {
    const found = (() => { %s })();
    if (found) done(found);
    else if (performance.now() - began > 20000) failed(new Error(document.body.innerText.slice(-500)));
    else setTimeout(look, 20);
  };
  look();
})"""


def need_simulator() -> None:
    if not simulator():
        pytest.skip("NO SIMULATOR FOR BROWSERS: no run was repeated in a page (make web)")


BUTTON = "const b = document.querySelector('.ccarena-cell button'); b?.click(); return b !== null;"
ENDED = """const said = document.querySelector('.ccarena-cell .cell-status')?.textContent ?? '';
  return /Digest|cannot|expected/.test(said) && said;"""
ROWS = """[...document.querySelectorAll('.ccarena-cell tbody tr')].map(row =>
  [row.dataset.figure, row.lastElementChild.className])"""


def press(browser: Browser) -> Pressed:
    """Presses the page's first button that runs a scenario, and waits for the end of the run."""
    browser.evaluate(WAIT % BUTTON)
    status = str(browser.evaluate(WAIT % ENDED))
    figures: dict[str, list[str]] = {}
    for name, verdict in browser.evaluate(ROWS):
        figures.setdefault(name, []).append(verdict)
    return Pressed(figures, status)


def repeated(browser: Browser) -> set[str]:
    """Runs the page's first run again, if the simulator is built, and returns the figures that are the stored ones.

    Without the simulator it returns all, as the page has said how to get it. Raises AssertionError if one differs.
    """
    if not simulator():
        assert browser.evaluate("document.querySelectorAll('.unbuilt').length") == 1
        return set(FIGURES)
    browser.messages.clear()
    pressed = press(browser)
    assert "Digest" in pressed.status and browser.messages == []
    assert "other" not in {verdict for verdicts in pressed.figures.values() for verdict in verdicts}, pressed
    return {name for name, verdicts in pressed.figures.items() if "same" in verdicts}
