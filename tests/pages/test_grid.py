"""Grids and heat maps as a browser shows them: sorting, filtering, the keyboard, and 100,000 rows."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

from ccarena.pages import Page, Section, render
from ccarena.pages.browser import Browser
from ccarena.pages.grid import Grid, HeatMap, Links, Numbers, Rows, Words, data_script
from ccarena.pages.markdown import blocks_of
from ccarena.pages.page import assets

sys.path.insert(0, str(Path(__file__).parent))

from looked_at import faults

ROWS = "[...document.querySelectorAll('.grid-rows .grid-row')].map(r => [...r.children].map(c => c.textContent))"
PRESS = (
    "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true, cancelable: true}))"
)
FOCUSED = "document.activeElement.textContent"


def small() -> Rows:
    words = Words("who", ["b", "<i>a", "c"], {"b": "b.html"})
    return Rows(
        [
            words,
            Numbers("figure", [2.0, None, 10.5], 1, "what it is"),
            Words("kind", ["x", "y", "x"], choose=True, first="x"),
        ],
        "-figure",
        Links("p.html", [0, 1, 2], [7, 8, 9]),
    )


def test_a_grid(browser: Browser, tmp_path: Path) -> None:
    colours = ("#b35806", "#f7f7f7", "#2166ac")
    heat = HeatMap("heat", ["<b>a", "b"], [[0.5, 1.0], [0.0, math.nan]], [[0.5, 1.0], [0.0, 0.0]], colours)
    page = Page("Grid", "test", "", sections=[Section("One", "", [Grid("g", "cells", small()), heat])])
    (tmp_path / "p.html").write_text(render(page))
    assert faults(browser, tmp_path / "p.html", charts=0) == []
    assert browser.evaluate("document.querySelector('table.heat').innerText").startswith("\t<b>a\tb")
    # The choice is made at first, numbers begin with the largest, and what is unknown is last.
    assert browser.evaluate(ROWS) == [["c", "10.5", "x"], ["b", "2.0", "x"]]
    browser.evaluate("const c = document.querySelector('select'); c.value = ''; c.dispatchEvent(new Event('change'))")
    assert [row[0] for row in browser.evaluate(ROWS)] == ["c", "b", "<i>a"]
    heading = "document.querySelectorAll('[role=columnheader] button')[%d].click()"
    browser.evaluate(heading % 1)
    assert [row[0] for row in browser.evaluate(ROWS)] == ["b", "c", "<i>a"], "unknown is last in both directions"
    browser.evaluate(heading % 0)
    assert [row[0] for row in browser.evaluate(ROWS)] == ["<i>a", "b", "c"]
    sorted_by = "[...document.querySelectorAll('[role=columnheader]')].map(h => h.getAttribute('aria-sort'))"
    assert browser.evaluate(sorted_by) == ["ascending", "none", "none"]
    browser.evaluate("const s = document.querySelector('input'); s.value = '<I y'; s.dispatchEvent(new Event('input'))")
    assert [row[0] for row in browser.evaluate(ROWS)] == ["<i>a"]
    assert browser.evaluate("document.querySelector('[role=status]').textContent") == "1 of 3 rows"


def test_a_hundred_thousand_rows(browser: Browser, tmp_path: Path) -> None:
    draw, count = random.Random(1), 100_000
    columns = [
        Words("entrant", [f"scheme {draw.randrange(40)}" for _ in range(count)], choose=True),
        Words("trace", [f"trace {draw.randrange(200)}" for _ in range(count)], choose=True),
        *(Numbers(f"figure {k}", [draw.random() * 100 for _ in range(count)], 3) for k in range(10)),
    ]
    rows = Rows(columns, "-figure 1", Links("", range(count), [0] * count))
    for name, text in assets().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data.js").write_text(data_script("g", rows))
    page = Page("Many", "test", "", sections=[Section("", "", [Grid("g", "cells")])], shared="./", scripts=["data.js"])
    (tmp_path / "p.html").write_text(render(page))
    browser.messages.clear()
    browser.open(tmp_path / "p.html")
    # From the first byte to the last script, and a sort with a click until it is drawn.
    loaded_ms = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")
    click = (
        "(() => { const t = performance.now(); document.querySelectorAll('[role=columnheader] button')[%d].click();"
        "document.querySelector('.grid-rows').offsetHeight; return performance.now() - t; })()"
    )
    sorted_ms = max(browser.evaluate(click % column) for column in (5, 0, 1))
    filtered_ms = browser.evaluate(
        "(() => { const t = performance.now(); const s = document.querySelector('input'); s.value = 'scheme 7 trace 1';"
        "s.dispatchEvent(new Event('input')); return performance.now() - t; })()"
    )
    print(f"100,000 rows: loaded in {loaded_ms:.0f} ms, sorted in {sorted_ms:.0f} ms, filtered in {filtered_ms:.0f} ms")
    # The target is 1 s for each; a machine that also does other things loads more slowly.
    assert max(sorted_ms, filtered_ms) < 1000 and loaded_ms < 3000
    browser.evaluate("const i = document.querySelector('input'); i.value = ''; i.dispatchEvent(new Event('input'))")
    drawn = browser.evaluate(ROWS)
    assert len(drawn) < 80 and browser.evaluate("document.querySelector('[role=grid]').ariaRowCount") == "100001"
    # The keyboard reaches every row.
    browser.evaluate("document.querySelector('[role=row][tabindex=\"0\"]').focus()")
    first = browser.evaluate(FOCUSED)
    browser.evaluate(PRESS % "End")
    last = browser.evaluate(FOCUSED)
    assert browser.evaluate("document.activeElement.getAttribute('aria-rowindex')") == "100001"
    for key in ("Home", "ArrowDown", "ArrowUp"):
        browser.evaluate(PRESS % key)
    assert browser.evaluate(FOCUSED) == first != last
    browser.evaluate(PRESS % "Enter")
    assert browser.evaluate("location.hash").startswith("#")
    assert browser.messages == []


def test_markdown_is_text() -> None:
    blocks = blocks_of(
        "# title\n\n<!-- note -->\n\n## Limits\n\n- **a** `b`\n\n| x | y |\n|---|---|\n| 1 | <script> |\n"
    )
    page = render(Page("t", "k", "", sections=[Section("s", "", blocks)]))
    assert "title" not in [getattr(block, "text", "") for block in blocks]
    assert (
        "<li>a b</li>" in page
        and "&lt;script&gt;" in page
        and "note" not in page.split("</style>")[1].split("<script>")[0]
    )
