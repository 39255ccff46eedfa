"""Real-time media and adaptive video, as the person at the receiver sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure.record import Subject
from ccarena.eval.measure.sample import percentile

__all__ = ["Frames", "Playback", "frames", "freezes_s", "late", "media_delay", "media_mbps", "playback"]

Floats = NDArray[np.float64]


class Frames(NamedTuple):
    """Frames of a flow, in their order; times are in s from the flow's start."""

    captured_s: Floats
    size_bytes: Floats
    """Size; 0 of a frame that the encoder skipped."""
    arrived_s: Floats
    """Time at which the receiver had all of the frame; infinite if it did not."""


def frames(s: Subject) -> Frames:
    """Returns the flow's frames."""

    def make(s: Subject) -> Frames:
        captured, size = (np.asarray(s.application[name], dtype=np.float64) for name in ("captured_s", "frame_bytes"))
        arrived = np.full(captured.size, np.inf)
        told = np.asarray(s.application.get("arrived_s", ()), dtype=np.float64)
        arrived[np.flatnonzero(size)[: told.size]] = np.where(told < 0, np.inf, told)
        return Frames(captured, size, arrived)

    return s.once("frames", make)


def _playout_s(s: Subject) -> float:
    return float(s.entry["app"]["playout_ms"]) / 1e3


def media_delay(q: float) -> Callable[[Subject], float]:
    """Returns the function for a quantile of the frames' delays in ms."""

    def delay_ms(s: Subject) -> float:
        delays = frames(s).arrived_s - frames(s).captured_s
        return percentile(delays[np.isfinite(delays)] * 1e3, q)

    return delay_ms


def late(s: Subject) -> float:
    """Returns the share of frames that were not there in time for playout."""
    captured, _, arrived = frames(s)
    due = captured + _playout_s(s)
    judged = due <= s.length_s
    return float(np.mean(arrived[judged] > due[judged])) if judged.any() else math.nan


def shown_s(s: Subject) -> Floats:
    """Returns the times at which the receiver shows a frame, rising."""
    captured, _, arrived = frames(s)
    times = np.maximum(captured + _playout_s(s), arrived)
    # A frame is not shown if a newer one is there by then.
    newest = np.minimum.accumulate(times[::-1])[::-1]
    return np.unique(newest[newest <= s.length_s])


def freezes_s(s: Subject) -> Floats:
    """Returns the lengths of the freezes: from the playout time of the first frame to the flow's end."""
    captured, _, _ = frames(s)
    if not captured.size:
        return np.empty(0)
    times = np.concatenate([[captured[0] + _playout_s(s)], shown_s(s), [s.length_s]])
    interval = 1.0 / float(s.entry["app"]["fps"])
    gaps = np.diff(times)
    return gaps[gaps >= max(3 * interval, interval + 0.15)]


def media_mbps(s: Subject) -> float:
    """Returns the Mbit/s of frames that arrived whole."""
    _, size, arrived = frames(s)
    return float(size[np.isfinite(arrived)].sum()) * 8e-6 / s.length_s if s.length_s > 0 else math.nan


class Playback(NamedTuple):
    """Playback of adaptive video."""

    mbps: float
    startup_s: float
    rebuffering_s: float
    switches: float
    qoe: float


def playback(s: Subject) -> Playback:
    """Returns how the flow's video played."""
    return s.once("playback", _playback)


def _playback(s: Subject) -> Playback:
    mbps, arrived, stalled = (
        np.asarray(s.application[name], dtype=np.float64) for name in ("chunk_mbps", "chunk_arrived_s", "stalled_s")
    )
    app = s.entry["app"]
    top = float(app["ladder_mbps"][-1])
    if not mbps.size:  # all of the time waits for a chunk
        return Playback(math.nan, s.length_s, 0.0, 0.0, -top * s.length_s)
    startup = float(arrived[0])
    # The client may wait for a chunk when the run ends.
    buffered = mbps.size * float(app["chunk_s"]) - (arrived[-1] - arrived[0] - stalled.sum())
    rebuffering = float(stalled.sum() + max(0.0, s.length_s - arrived[-1] - buffered))
    changes = np.abs(np.diff(mbps))
    qoe = float(mbps.sum() - changes.sum() - top * (startup + rebuffering)) / mbps.size
    return Playback(float(mbps.mean()), startup, rebuffering, float(np.count_nonzero(changes)), qoe)
