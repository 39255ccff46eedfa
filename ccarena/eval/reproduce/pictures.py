"""Pictures of a suite's claims in the site: the paper's number beside the measured one, all in one style.

A picture is SVG whose positions are percentages, so that its text has the page's size on every screen. Every axis
begins at zero, so that what lies close is close, unless the numbers span more than `DECADES`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccarena.eval.reproduce import suite
from ccarena.eval.reproduce.checks import Claim, bounds
from ccarena.eval.reproduce.tables import backend_of, beside_state, command_of
from ccarena.pages.blocks import escape
from ccarena.scenarios.backends import BACKENDS

__all__ = ["LEAD", "STYLE", "Point", "pictures"]

LEAD = (
    "The open circle is the paper's number, the filled one is measured here, and the bar is its 95 % interval over "
    "seeds. What a claim requires is shaded, if it is a range. A claim in words has no open circle."
)
DECADES = 1.7
MOST = 24
"""Most rows of an axis; the table has all."""
TEXT, ROW, AXIS = 14, 22, 26
"""Heights of a row's label, of the row and of the axis, px."""
LEFT, RIGHT = 2.0, 98.0
"""Ends of the axis, per cent of the width."""

STYLE = """\
.claim-picture { margin: 1.1em 0; max-width: 46rem; }
.claim-picture figcaption { font-size: .9rem; text-align: left; }
.claim-picture svg { display: block; width: 100%; overflow: visible; font: .8rem sans-serif; }
.claim-picture text { fill: var(--color-foreground-secondary); }
.claim-picture line { stroke: var(--color-foreground-border); }
.claim-picture rect { fill: var(--color-foreground-border); opacity: .45; }
.claim-picture .paper { fill: none; stroke: var(--color-foreground-primary); stroke-width: 2; }
.claim-picture { --holds: #0072b2; --differs: #b35900; --not: #c0392b; --open: #666; }
body[data-theme="dark"] .claim-picture { --holds: #56b4e9; --differs: #e69f00; --not: #ff8066; --open: #aaa; }
@media (prefers-color-scheme: dark) {
  body:not([data-theme="light"]) .claim-picture { --holds: #56b4e9; --differs: #e69f00; --not: #ff8066; --open: #aaa; }
}
"""
COLOURS = {"holds": "var(--holds)", "differs": "var(--differs)", "does not hold": "var(--not)"}


@dataclass(frozen=True)
class Point:
    """A measured number with its 95 % interval, and the paper's."""

    label: str
    ours: float
    low: float
    high: float
    paper: float | None
    required: tuple[float, float] | None = None
    """Range that the claim requires; None if it requires something else."""

    def numbers(self) -> list[float]:
        """Returns all that is drawn."""
        every = (self.ours, self.low, self.high, self.paper, *(self.required or ()))
        return [x for x in every if x is not None and math.isfinite(x)]


def pictures(digests: Sequence[Mapping[str, Any]]) -> str:
    """Returns the pictures of a suite's claims, backend by backend, as Markdown with HTML in it; empty if there is
    nothing to draw.
    """
    lines = []
    for digest in digests:
        stated = _claims(digest)
        found = []
        for number, claim in enumerate(digest["claims"], start=1):
            if parts := _parts(claim, stated.get(claim["claim"])):
                found.append(_figure(number, claim, parts))
        if found:
            lines += [
                f"## Beside the paper, {BACKENDS[backend_of(digest)].where}",
                "",
                f"`{command_of(digest)}`. {LEAD}",
            ]
            lines += ["", "```{raw} html", f"<style>{STYLE}</style>", *found, "```", ""]
    return "\n".join(lines)


def _claims(digest: Mapping[str, Any]) -> dict[str, Claim]:
    """Returns the claims of the suite's file by their texts. A suite of a reader's own is not read again."""
    if digest["suite"] not in suite.shipped():
        return {}
    return {claim.text: claim for claim in suite.load(digest["suite"], backend_of(digest)).claims}


def _parts(claim: Mapping[str, Any], stated: Claim | None) -> list[list[Point]]:
    """Returns what was measured for each part of a claim, without parts that were not; the suite's file has the claim
    as `stated`.
    """
    out = []
    for part, values in enumerate(claim.get("values", ())):
        of_paper = stated.parts[part].paper if stated else None
        paper = of_paper.values if of_paper else ()
        labels, intervals = (_of_part(claim, key, part) for key in ("labels", "intervals"))
        points = []
        for i, value in enumerate(values):
            if value is None:
                continue
            ends = intervals[i] if i < len(intervals) else (None, None)
            low, high = (value if end is None else end for end in ends)
            # One number of the paper may be about every element, as 1 is about equal shares.
            said = paper[i % len(paper)] if paper and not len(values) % len(paper) else None
            required = _required(stated, part, said) if stated else None
            points.append(Point(labels[i] if i < len(labels) else "", value, low, high, said, required))
        out += [points] if points else []
    return out


def _required(stated: Claim, part: int, paper: float | None) -> tuple[float, float] | None:
    asked = stated.model.all_of[part] if stated.model.all_of else stated.model
    return bounds(asked.holds or {}, asked.better, paper)


def _of_part(claim: Mapping[str, Any], key: str, part: int) -> Sequence[Any]:
    found = claim.get(key, ())
    return found[part] if part < len(found) else ()


def _figure(number: int, claim: Mapping[str, Any], parts: Sequence[Sequence[Point]]) -> str:
    """Returns a claim's picture: an axis for each part, as parts have different units."""
    colour = COLOURS.get(claim["state"], "var(--open)")
    drawn: list[str] = []
    y = 0
    for points in parts:
        place, ticks = _scale([x for point in points[:MOST] for x in point.numbers()])
        for point in points[:MOST]:
            if point.label:
                drawn.append(f'<text x="0" y="{y + TEXT - 2}">{escape(point.label)}</text>')
                y += TEXT
            drawn += _row(point, y + ROW // 2, place, colour)
            y += ROW
        drawn += _axis(ticks, y, place)
        y += AXIS
    left = " Further values are in the table." if any(len(points) > MOST for points in parts) else ""
    said = f"{claim['measured']}, in the paper {claim['paper']}: {claim['state']}{beside_state(claim)}."
    return (
        f'<figure class="claim-picture"><figcaption><b>{number}. {escape(claim["claim"])}</b><br/>{escape(said + left)}'
        f'</figcaption><svg height="{y}" role="img" aria-label="{escape(said)}">{"".join(drawn)}</svg></figure>'
    )


def _row(point: Point, y: int, place: Any, colour: str) -> list[str]:
    out = [f'<line x1="{LEFT}%" x2="{RIGHT}%" y1="{y}" y2="{y}"/>']
    if point.required is not None:
        low, high = map(place, point.required)
        out.append(f'<rect x="{low}%" width="{max(high - low, 0.0):.2f}%" y="{y - 7}" height="14"/>')
    if point.low < point.high:
        bar = f'style="stroke:{colour};stroke-width:4;opacity:.55"'
        out.append(f'<line x1="{place(point.low)}%" x2="{place(point.high)}%" y1="{y}" y2="{y}" {bar}/>')
    out.append(f'<circle cx="{place(point.ours)}%" cy="{y}" r="5" style="fill:{colour}"/>')
    if point.paper is not None:
        out.append(f'<circle class="paper" cx="{place(point.paper)}%" cy="{y}" r="8"/>')
    return out


def _axis(ticks: Sequence[float], y: int, place: Any) -> list[str]:
    out = []
    for tick in ticks:
        at = place(tick)
        anchor = "start" if at < 5 else "end" if at > 95 else "middle"
        out.append(f'<line x1="{at}%" x2="{at}%" y1="{y}" y2="{y + 5}"/>')
        out.append(f'<text x="{at}%" y="{y + 19}" text-anchor="{anchor}">{tick:g}</text>')
    return out


def _scale(numbers: Sequence[float]) -> tuple[Any, list[float]]:
    """Returns where a number is, in per cent of the width, and the ticks of the axis."""
    low, high = min(numbers), max(numbers)
    if low > 0 and math.log10(high / low) > DECADES:
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = [10.0**k for k in range(low, high + 1)]
        return lambda x: _share((math.log10(max(x, 10.0**low)) - low) / (high - low)), ticks
    low, high = min(low, 0.0), max(high, 0.0) if low or high else 1.0
    step = _step(high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [k * step for k in range(first, last + 1)]
    return lambda x: _share((x - ticks[0]) / (ticks[-1] - ticks[0])), ticks


def _step(span: float) -> float:
    """Returns the least of 1, 2 and 5 times a power of ten of which `span` has at most four."""
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(k * power for k in (1, 2, 5, 10) if span <= 4 * k * power * (1 + 1e-9))


def _share(x: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(max(x, 0.0), 1.0), 2)
