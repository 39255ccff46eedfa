"""Plots for papers, drawn by matplotlib: column or page width, 8 pt, vectors with embedded fonts, the same bytes again.

Importing this module needs matplotlib: `paper_files.check` says so first. Colours and markers are those of the pages
(`ccarena.pages.charts`) on white, so that neither colour-blind readers nor grey prints mix up two series.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from ccarena.core.files import replacing
from ccarena.errors import cannot_write
from ccarena.pages import charts
from ccarena.pages.paper_files import CAPACITY, INKS, WIDTHS, Width, check_path

__all__ = ["Drawing", "PaperFigure", "area", "better", "line_look", "look", "region"]

Floats = NDArray[np.float64]

FONT_PT = 8
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": FONT_PT,
    "axes.linewidth": 0.6,
    "axes.titlesize": FONT_PT,
    "font.size": FONT_PT,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "legend.fontsize": FONT_PT,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "xtick.labelsize": FONT_PT,
    "ytick.labelsize": FONT_PT,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    # Type 42 is TrueType: conferences refuse PDF files with Type 3 fonts.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    # SVG's identifiers come from this word instead of a random number.
    "svg.hashsalt": "ccarena",
    "savefig.dpi": 300,
}
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (8, 3)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = {
    **{"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "x": "X", "cross": "P", "star": "*"},
    **{"pentagon": "p", "hexagon": "h", "triangle-down": "v"},
}
UNDATED: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
"""Metadata that would change from day to day or version to version."""


class PaperFigure(Figure):
    """A matplotlib figure in the style of a paper. `savefig` writes the same bytes for the same figure."""

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Writes the figure in the paper's style. Arguments are those of matplotlib's `savefig`."""
        given = Path(fname).suffix.lower() if isinstance(fname, (str, os.PathLike)) else ""
        suffix = f".{kwargs['format']}" if "format" in kwargs else given
        with mpl.rc_context(STYLE):
            super().savefig(fname, **{"metadata": UNDATED.get(suffix), **kwargs})

    def write(self, path: Path | None) -> PaperFigure:
        """Writes the figure to `path`, if given, as its suffix says, and returns it. Raises ConfigError if that cannot
        be done.
        """
        if path is None:
            return self
        suffix = check_path(path)
        data = io.BytesIO()
        self.savefig(data, format=suffix[1:])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(data.getvalue())
        except OSError as error:
            raise cannot_write(path, error) from error
        return self

    def _repr_png_(self) -> bytes:
        """Returns the picture for a notebook."""
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=150)
        return data.getvalue()


class Drawing:
    """Context in which a plot is drawn: gives the figure and its axes, and adds the legend at its end."""

    def __init__(self, width: Width = "column", *, rows: int = 1, columns: int = 1, height_in: float | None = None):
        inches = WIDTHS[width]
        # 0.62 of the width, near the golden ratio; a page's width holds flatter plots.
        self._size = inches, height_in or rows * (0.62 * inches if width == "column" else 0.36 * inches)
        self._grid = rows, columns
        self._style = mpl.rc_context(STYLE)

    def __enter__(self) -> tuple[PaperFigure, list[Axes]]:
        """Returns the figure and its axes, row by row."""
        self._style.__enter__()
        self.figure = PaperFigure(figsize=self._size, layout="constrained")
        FigureCanvasAgg(self.figure)
        axes = self.figure.subplots(*self._grid, squeeze=False, sharex="col" if self._grid[0] > 1 else False)
        return self.figure, list(axes.flat)

    def __exit__(self, *error: Any) -> None:
        """Adds the legend above the plot, in as many columns as fit."""
        try:
            if error[0] is None:
                self._legend()
        finally:
            self._style.__exit__(*error)

    def _legend(self) -> None:
        found: dict[str, Any] = {}
        for axes in self.figure.axes:
            found |= {name: handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
        if found:
            # An 8 pt letter is about 0.06 inches wide, and a handle with its gaps takes 0.5.
            widest = 0.06 * max(map(len, found)) + 0.5
            columns = max(1, min(len(found), int(self._size[0] / widest)))
            rows = math.ceil(len(found) / columns)
            self.figure.set_size_inches(self._size[0], self._size[1] + 0.15 * rows)
            # Rows of equal length.
            columns = math.ceil(len(found) / rows)
            self.figure.legend(
                found.values(), found.keys(), loc="outside upper center", ncols=columns, columnspacing=1.2
            )


def look(index: int) -> dict[str, Any]:
    """Returns colour, line style and marker of the `index`th series: the colour of a page's, and a marker that differs
    from it from one ten to the next.
    """
    tens = index // len(charts.STYLES)
    colour = charts.style(index).colour.removeprefix("var(--").removesuffix(")")
    marker = MARKERS[charts.style(index + tens).symbol]
    return {"color": INKS.get(colour, "#000000"), "linestyle": DASHES[index % len(DASHES)], "marker": marker}


def line_look(index: int) -> dict[str, Any]:
    """Returns colour and line style of the `index`th series, for lines with too many points for markers."""
    return {**look(index), "marker": ""}


def area(axes: Axes, time_s: Floats, capacity_mbps: Floats, bin_s: float) -> None:
    """Draws the capacity as a grey area in steps behind everything."""
    edges = np.append(time_s, time_s[-1] + bin_s) if len(time_s) else np.asarray([])
    heights = np.append(capacity_mbps, capacity_mbps[-1:])
    axes.fill_between(edges, heights, step="post", color=CAPACITY, linewidth=0, label="capacity", zorder=0)


def region(axes: Axes, x: Floats, y: Floats, factor: float, colour: str) -> None:
    """Draws the ellipse around the mean of points (x, y) whose radii are `factor` times the standard deviations along
    its axes. Equal points have none.
    """
    if x.size < 2 or (np.ptp(x) == 0 and np.ptp(y) == 0):
        return
    values, vectors = np.linalg.eigh(np.cov(x, y))
    wide, high = 2 * factor * np.sqrt(np.maximum(values[::-1], 0.0))
    angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
    shape = {"facecolor": (*to_rgb(colour), 0.15), "edgecolor": colour, "linewidth": 0.8}
    axes.add_patch(Ellipse((float(x.mean()), float(y.mean())), wide, high, angle=angle, **shape))


def better(axes: Axes) -> None:
    """Turns the delay's axis round and says that better is up and right, as plots of Sprout and Pantheon do."""
    axes.invert_xaxis()
    axes.set_title("better \N{NORTH EAST ARROW}", loc="right", color="#606060", pad=2)
