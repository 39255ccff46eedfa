"""Heat maps of a competition for papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ccarena.errors import ConfigError
from ccarena.eval.compete.page import HARM, PANELS, SHARES, shade
from ccarena.eval.compete.tables import Matrix, number
from ccarena.pages import charts
from ccarena.pages.paper_files import WIDTHS, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ccarena.pages.paper import PaperFigure

__all__ = ["HEAT_MAP", "heat_map"]

HEAT_MAP = "heat-map"


def heat_map(found: Sequence[Matrix], link: str | None, width: Width) -> PaperFigure:
    """Returns share, harm to rates and harm to delays of every pair on a link; the first one if `link` is None.

    Panels stand side by side on a page's width, and below each other in a column. Raises ConfigError if no pair was
    run.
    """
    from ccarena.pages import paper

    chosen = [matrix for matrix in found if link in (None, matrix.link)]
    if not chosen:
        raise ConfigError('no pair was run, and a heat map shows pairs; name two entries or more, or plot "bar"')
    matrix, beside = chosen[0], width == "page"
    grid = {"columns": len(PANELS)} if beside else {"rows": len(PANELS)}
    side = WIDTHS[width] / (len(PANELS) if beside else 1)
    height = (0.28 * len(matrix.entrants) + 0.9) * (1 if beside else len(PANELS))
    with paper.Drawing(width, height_in=max(height, 0.6 * side), **grid) as (figure, panels):
        for axes, (key, title) in zip(panels, PANELS, strict=True):
            _panel(axes, matrix, key, title)
    return figure


def _panel(axes: Axes, matrix: Matrix, key: str, title: str) -> None:
    values, size = matrix.figures[key], len(matrix.entrants)
    shades, colours = shade(matrix, key), SHARES if key == "share" else HARM
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="beside")
    axes.set_title(title, loc="right")  # a long one has room only on the left, over the names
    axes.grid(visible=False)
    for i, j in zip(*np.nonzero(np.isfinite(values)), strict=True):
        colour = charts.ramp(colours, float(shades[i, j]))
        axes.fill_between([j - 0.48, j + 0.48], i - 0.48, i + 0.48, color=colour, linewidth=0)
        axes.text(j, i, number(100 * values[i, j], 0), ha="center", va="center", color=charts.on(colour))
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if max(map(len, matrix.entrants)) > 5 else {}
    axes.set_xticks(range(size), matrix.entrants, **turned)
    axes.set_yticks(range(size), matrix.entrants)
    axes.tick_params(length=0)
