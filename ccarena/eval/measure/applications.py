"""Figures of applications: completion times of transfers, delays of media, quality of video."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure import streaming
from ccarena.eval.measure.record import MEDIA, TRANSFERS, VIDEO, Subject
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
    **{
        f"media_delay_p{q}_ms": Row(
            f"Media delay, p{q}", "ms", 1,
            f"{'Median' if q == 50 else f'{q}th percentile'} over frames of the time from capture until the receiver "
            "has the whole frame.",
            streaming.media_delay(q / 100), MEDIA,
        )
        for q in (50, 95, 99)
    },
    "media_late": Row(
        "Late frames", "share", 3,
        "Frames that the receiver does not have whole within the playout delay, and skipped ones, over all frames "
        "whose playout is within the flow's time.",
        streaming.late, MEDIA, range=(0.0, 1.0),
    ),
    "media_freezes": Row(
        "Freezes", "count", 1,
        "Times between two shown frames of at least max(3 d, d + 150 ms), where d is the frame interval (W3C "
        "webrtc-stats, `freezeCount`). A frame is shown at its playout time or when it comes later; one that comes "
        "with a newer one is not shown.",
        lambda s: float(streaming.freezes_s(s).size), MEDIA,
    ),
    "media_freeze_share": Row(
        "Time frozen", "share", 3,
        "Length of the freezes over the flow's time (`totalFreezesDuration`).",
        lambda s: streaming.freezes_s(s).sum() / s.length_s if s.length_s > 0 else math.nan, MEDIA, range=(0.0, 1.0),
    ),
    "media_mbps": Row(
        "Media rate", "Mbit/s", 2, "Bits of the frames that arrived whole, over the flow's time.",
        streaming.media_mbps, MEDIA,
    ),
    "video_mbps": Row(
        "Video bit rate", "Mbit/s", 2, "Mean bit rate of the chunks that the client has.",
        lambda s: streaming.playback(s).mbps, VIDEO,
    ),
    "video_startup_s": Row(
        "Startup", "s", 2, "Time from the flow's start until the client has the first chunk and plays it.",
        lambda s: streaming.playback(s).startup_s, VIDEO,
    ),
    "video_rebuffering_s": Row(
        "Rebuffering", "s", 2, "Time for which playback stood still after it had begun.",
        lambda s: streaming.playback(s).rebuffering_s, VIDEO,
    ),
    "video_switches": Row(
        "Quality switches", "count", 1, "Chunks with another bit rate than the chunk before.",
        lambda s: streaming.playback(s).switches, VIDEO,
    ),
    "video_qoe": Row(
        "Video QoE", "Mbit/s", 2,
        "Quality of experience per chunk: the mean bit rate, less the mean change of bit rate between chunks, less the "
        "highest bit rate of the ladder times the seconds of startup and rebuffering per chunk (Yin et al., SIGCOMM "
        "2015, equation 5, balanced preference).",
        lambda s: streaming.playback(s).qoe, VIDEO, range=(-1e12, 1e12),
    ),
}  # fmt: skip
"""Figures of applications by name."""
