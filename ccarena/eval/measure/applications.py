"""Figures of applications: completion times of transfers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure.record import TRANSFERS, Subject
from ccarena.eval.measure.sample import percentile

__all__ = ["APPLICATIONS", "Row", "slowdowns"]

Floats = NDArray[np.float64]


class Row(NamedTuple):
    """Figure of an application, as the table of figures takes it."""

    title: str
    unit: str
    digits: int
    definition: str
    function: Callable[[Subject], float]
    need: str
    range: tuple[float, float] = (0.0, 1e12)


def _sizes(s: Subject) -> Floats:
    """Returns the bytes of the flow's transfers, in their order: those that it was asked for."""
    sizes = s.application.get("size_bytes", s.entry["app"].get("sizes_bytes", ()))
    return np.asarray(sizes, dtype=np.float64)


def slowdowns(s: Subject) -> tuple[Floats, Floats]:
    """Returns the sizes and the slowdowns of the flow's finished transfers."""
    done = np.asarray(s.completion_s, dtype=np.float64)
    sizes = _sizes(s)[: done.size]
    segments = np.ceil(sizes / s.entry["mss_bytes"])
    rate = s.record.capacity_bytes(s.link) * 8 / (s.record.to_s - s.record.from_s)
    ideal_s = (sizes + segments * s.entry["header_bytes"]) * 8 / max(rate, 1e-9) + s.base_rtt_ms / 1e3
    return sizes, done / ideal_s


def _of_scheme(s: Subject) -> tuple[Floats, Floats, int]:
    """Returns `slowdowns` of all flows of this scheme on this link, and how many transfers they were asked for."""

    def make() -> tuple[Floats, Floats, int]:
        like = [
            flow
            for flow in s.record.flows
            if flow.link == s.link and flow.entry["scheme"] == s.entry["scheme"] and TRANSFERS in flow.given
        ]
        found = [slowdowns(flow) for flow in like]
        sizes, ratios = (np.concatenate([each[k] for each in found]) for k in (0, 1))
        return sizes, ratios, sum(_sizes(flow).size for flow in like)

    return s.record.once(("slowdowns", s.link, str(s.entry["scheme"])), make)


def _slowdown(q: float, above: float, most: float) -> Callable[[Subject], float]:
    def function(s: Subject) -> float:
        sizes, ratios, _ = _of_scheme(s)
        return percentile(ratios[(sizes > above) & (sizes <= most)], q)

    return function


def _finished(s: Subject) -> float:
    _, ratios, asked = _of_scheme(s)
    return ratios.size / asked if asked else math.nan


_CLASSES = (
    ("", "", 0.0, math.inf),
    ("_small", " up to 100 kB", 0.0, 1e5),
    ("_medium", " above 100 kB, up to 1 MB", 1e5, 1e6),
    ("_large", " above 1 MB", 1e6, math.inf),
)
"""Classes of transfers: suffix of the figure's name, words, bytes above and at most."""

APPLICATIONS: dict[str, Row] = {
    **{
        f"fct_slowdown{suffix}_p{q}": Row(
            f"FCT slowdown{words}, p{q}", "x", 2,
            f"{'Median' if q == 50 else f'{q}th percentile'} of completion time over the ideal one, over finished "
            f"transfers{words} of all flows of the scheme on the link. Ideal is the IP bytes over the link's mean "
            "capacity, plus the base RTT; the sender counts until it has the last acknowledgement.",
            _slowdown(q / 100, above, most), TRANSFERS,
        )
        for suffix, words, above, most in _CLASSES
        for q in (50, 99)
    },
    "fct_finished": Row(
        "Finished transfers", "share", 3,
        "Transfers that finished within the run over those that were asked for, of all flows of the scheme on the "
        "link. The slowdowns leave out the others.",
        _finished, TRANSFERS, range=(0.0, 1.0),
    ),
}  # fmt: skip
"""Figures of applications by name."""
