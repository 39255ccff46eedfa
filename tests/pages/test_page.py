"""A page as a browser shows it: texts are texts, the theme can be chosen, figures are saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.pages import Callout, Cell, Choice, Code, Details, Figure, Items, Page, Section, Table, Text, render, write
from ccarena.pages.browser import Browser
from ccarena.pages.charts import STYLES, Axis, Chart, bars, line
from ccarena.pages.over_time import Course, over_time

HARM = """</script><script>window.harmed = 1</script><img src=x onerror="window.harmed = 2">'"&amp;"""


def page(name: str) -> Page:
    """A page with every block, in which every text is `name`."""
    chart = Chart(
        Axis(name), Axis(name), [line(name, [1, 2], [3, 4], STYLES[0]), bars(name, [name], [1], STYLES[1])], name
    )
    figure = Figure(name, [chart, chart], columns=2, same_x=True, caption=name)
    blocks = [Text(name), Items([name]), Code(name), Details(name, [Text(name)], open=True), Callout("bad", name)]
    blocks += [Table([name], [[Cell(name, "good", name)]], emphasise=name), figure]
    blocks.append(Choice(name, {name: [figure], "other": [figure]}))
    sections = [Section(name, name, blocks)]
    return Page(name, name, name, {name: name}, [Callout("partly", name, [Text(name)], name)], [name], sections)


def test_no_text_is_taken_for_html(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write(path, page(HARM))
    browser.messages.clear()
    browser.open(path)
    assert browser.evaluate("window.harmed ?? null") is None
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == HARM
    assert browser.evaluate("[...document.querySelectorAll('.plot text')].some(t => t.textContent.includes('<img'))")
    assert browser.messages == []
    loaded = browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []


def test_the_same_page_gives_the_same_text() -> None:
    assert render(page("a")) == render(page("a"))


@pytest.mark.parametrize(
    "delays", [(60.0, 190.0), (120.0, 130.0), (5.0, 5.0), (0.0, 3.0), (0.0, 40_000.0), (1.0, None)]
)
def test_delays_can_be_read_and_times_line_up(delays: tuple[float | None, ...]) -> None:
    """The delay axis has labels at both ends of the data, whatever its range; charts of one figure share the time."""
    missing = [None] * 2
    course = Course("flow", STYLES[0], [1.0] * 4, [*missing, *delays])
    rates, waits = (chart.plain()["layout"] for chart in over_time("f", 0.5, [2.0] * 4, [course], start_s=1.0).charts)
    assert rates["xaxis"]["range"] == waits["xaxis"]["range"] == [1.0, 3.0]
    axis = waits["yaxis"]
    low, high = (10**end for end in axis["range"])
    ticks = axis["tickvals"]
    assert 2 <= len(ticks) <= 9 and (ticks[0], ticks[-1]) == (pytest.approx(low), pytest.approx(high))
    drawn = [max(ms, 0.1) for ms in delays if ms is not None]
    assert low * (1 - 1e-9) <= min(drawn) and max(drawn) <= high * (1 + 1e-9)


def test_the_reader_chooses_theme_and_series(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write(path, page("a"))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.open(path)
    colour = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    background = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(f"[{colour}, {background}]")
    browser.evaluate("document.getElementById('theme').click()")
    dark = browser.evaluate(f"[{colour}, {background}]")
    assert light[0] != dark[0] and light[1] != dark[1]
    browser.open(path)
    assert browser.evaluate(f"[{colour}, {background}]") == dark, "the choice is not kept"
    browser.evaluate("localStorage.clear()")
    other = "document.querySelectorAll('.option')[1].querySelectorAll('.main-svg').length"
    assert browser.evaluate(other) == 0
    choose = "const s = document.querySelector('select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))"
    browser.evaluate(choose)
    assert browser.evaluate(other) > 0


def test_a_click_on_a_name_hides_its_series(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    lines = [line(name, [1, 2], [3, 4], style) for name, style in zip("ab", STYLES, strict=False)]
    figure = Figure("f", [Chart(Axis("x"), Axis("y"), lines)])
    write(path, Page("t", "k", "l", sections=[Section("s", "", [figure])]))
    browser.open(path)
    count = "document.querySelectorAll('.scatterlayer .trace').length"
    assert browser.evaluate(count) == 2
    browser.evaluate("document.querySelector('.legend button').click()")
    assert browser.evaluate(count) == 1
    saved = browser.evaluate("window.ccarena.image(0, 800)")
    assert saved.startswith("<svg") and saved.count("<svg") == 2 and ">f</text>" in saved
