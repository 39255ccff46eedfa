"""Plots for papers of one link of an evaluation over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.pages.paper_files import Width

if TYPE_CHECKING:
    from ccarena.pages.paper import PaperFigure

__all__ = ["OVER_TIME", "paper_over_time"]

OVER_TIME = ("rate", "delay")


def paper_over_time(result: Evaluation, kind: str, link: str | None, width: Width) -> PaperFigure:
    """Returns each scheme's rate in front of the capacity, or its largest queueing delay per bin, on one link.

    `link` names it; the first one is drawn if None. Raises ConfigError for another name.
    """
    from ccarena.pages import paper

    by_link = {str(series["link"]): series for series in result.series}
    if not by_link:
        raise ConfigError("nothing to plot: the evaluation has no series; run it with a link at least")
    if link is not None and link not in by_link:
        raise ConfigError(f'link = "{link}": no such link{did_you_mean(link, by_link)}')
    series = by_link[link] if link is not None else next(iter(by_link.values()))
    time_s = np.asarray(series["time_s"], dtype=np.float64)
    bin_s = float(time_s[1] - time_s[0]) if len(time_s) > 1 else 0.1
    with paper.Drawing(width) as (figure, (axes,)):
        if kind == "rate":
            paper.area(axes, time_s, np.asarray(series["capacity_mbps"], dtype=np.float64), bin_s)
        for index, (scheme, lines) in enumerate(series["schemes"].items()):
            values = np.asarray(lines["rate_mbps" if kind == "rate" else "queueing_delay_ms"], dtype=np.float64)
            axes.plot(time_s[: values.size] + bin_s / 2, values, label=scheme, **paper.line_look(index))
        axes.set(xlabel="time (s)", xlim=(0, time_s.size * bin_s))
        axes.set_ylabel("rate (Mbit/s)" if kind == "rate" else "largest queueing delay (ms)")
        axes.set_ylim(bottom=0)
    return figure
