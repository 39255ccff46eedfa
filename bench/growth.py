"""Draws how the cost of a packet in the simulator grows with flows, links and window: docs/images/growth.svg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ccarena.core.measurements import Entry
from ccarena.pages import Axis, Chart, Figure, Page, charts, images

IMAGE = Path("docs", "images", "growth.svg")
PREFIX = "simulator/growth/"
PANELS = {
    "flows": "flows on one link (10 Mbit/s each)",
    "links": "links of a parking lot",
    "window": "window of one flow (packets)",
}


def draw(entries: Sequence[Entry], path: Path = IMAGE) -> None:
    """Writes the plot of those `entries` that say how the cost grows: a chart each for flows, links and window.

    Raises MissingDependencyError if the browser that draws it is missing, ConfigError if `path` cannot be written.
    """
    drawn = []
    for what, title in PANELS.items():
        points = curve(entries, what)
        sizes, costs = [str(size) for size, _ in points], [cost for _, cost in points]
        line = charts.line("cost of a packet", sizes, costs, charts.style(0), width=2)
        drawn.append(Chart(Axis(title), Axis("ns per packet on a link", from_zero=True), [line], title, 300))
    figure = Figure("How the cost of a packet on a link grows", drawn, columns=len(drawn))
    images.save(path, Page("", "", "", sections=[]), [figure])


def curve(entries: Sequence[Entry], what: str) -> list[tuple[int, float]]:
    """Sizes and the cost of a packet at each in ns."""
    start = f"{PREFIX}{what}/"
    return sorted((int(e.name.removeprefix(start)), float(e.value)) for e in entries if e.name.startswith(start))
