"""Fits a scenario to measured runs: one link whose simulation comes close to the path.

The estimators use the times of packets at both ends alone:

- rate: the rate at which packets arrive while the path's queue never empties, in windows of `WINDOW_S`; the
  `RATE_QUANTILE` of those windows, since whatever else uses the path takes away from it.
- competitors: the share of the rate that the mean of those windows lacks.
- delay: the least RTT, less the transmission of one packet.
- buffer: the median queueing delay of packets next to those that were lost while the queue was long, times the rate.
- loss: the share of packets lost while the queue was short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.remote.run import PATH
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.scenario import flows_of

__all__ = ["Fit", "fit", "is_exact", "scenario_of"]

Floats = NDArray[np.float64]

WINDOW_S = 0.1
"""Length of a window in which rates are taken: long beside a packet's transmission, short beside a run."""
RATE_QUANTILE = 0.9
SHORT = 0.5
"""Share of the largest queueing delay up to which a queue counts as short."""
LEAST_QUEUE_MS = 2.0
"""Queueing delay above which the queue is known not to be empty: more than receivers' clocks and threads vary."""
COMPETES = 0.1
"""Share of the rate that is missing from which competitors count as present."""
LEAST_BUSY = 5
"""Fewest windows with a queue from which the rate of the path is known."""
MOST_BYTES = 1500
"""IP bytes of a full packet."""


@dataclass(frozen=True)
class Fit:
    """Properties of a path as the runs show it."""

    rate_mbps: float
    rate_is_bound: bool
    """The path was hardly ever full: its rate is at least this."""
    rtt_ms: float
    """Base RTT: propagation both ways."""
    buffer_bytes: int
    buffer_is_bound: bool
    """No packet was lost to a full queue: the buffer is at least this."""
    loss: float
    """Probability that a packet is lost at random."""
    missing: float
    """Share of the rate that was not there for the flows while they kept a queue."""

    @property
    def has_competitors(self) -> bool:
        """Returns whether something else used the path, or its rate varied."""
        return self.missing >= COMPETES

    @property
    def competing_mbps(self) -> float:
        """Mean rate of what else used the path; 0 if that is hardly anything."""
        return self.missing * self.rate_mbps if self.has_competitors else 0.0

    def sentences(self) -> list[str]:
        """Returns what was found, a sentence for each property."""
        rate = "at least (the flows hardly ever filled the path) " if self.rate_is_bound else ""
        buffer = "at least (no packet was lost to a full queue) " if self.buffer_is_bound else ""
        others = (
            f"{self.missing:.0%} of it was missing while the flows kept a queue: competitors of "
            f"{self.competing_mbps:.2f} Mbit/s in the mean, or a rate that varies"
            if self.has_competitors
            else f"none seen ({self.missing:.0%} of the rate was missing while the flows kept a queue)"
        )
        return [
            f"rate: {rate}{self.rate_mbps:.2f} Mbit/s",
            f"base RTT: {self.rtt_ms:.1f} ms",
            f"buffer: {buffer}{self.buffer_bytes} bytes ({self.buffer_bytes * 8e-3 / self.rate_mbps:.1f} ms)",
            f"random loss: {self.loss:.3%}",
            f"competitors: {others}",
        ]


@dataclass(frozen=True)
class _Seen:
    """Packets of a run on the path."""

    sent_ns: Floats
    came_ns: Floats
    bytes: Floats
    waited_ms: Floats
    lost_ns: Floats

    @classmethod
    def of(cls, run: Run) -> _Seen:
        [link] = run.result["links"]
        log = PacketLog.from_arrays(link["log"])
        waited_ms = (log.departure_ns - log.arrival_ns) / 1e6
        lost_ns = np.asarray(link["losses"]["time_ns"], dtype=np.float64)
        return cls(
            log.arrival_ns.astype(float), log.departure_ns.astype(float), log.bytes.astype(float), waited_ms, lost_ns
        )

    def busy_mbps(self) -> Floats:
        """Returns the arriving rate in each window throughout which packets had waited."""
        if self.came_ns.size == 0:
            return np.empty(0)
        window = (self.came_ns // (WINDOW_S * 1e9)).astype(np.int64)
        count = int(window.max()) + 1
        rate = np.bincount(window, self.bytes, count) * 8e-6 / WINDOW_S
        least = np.full(count, np.inf)
        np.minimum.at(least, window, self.waited_ms)
        return rate[(least > LEAST_QUEUE_MS) & np.isfinite(least)]

    def all_mbps(self) -> Floats:
        """Returns the arriving rate in each window."""
        window = (self.came_ns // (WINDOW_S * 1e9)).astype(np.int64)
        return np.bincount(window, self.bytes).astype(np.float64) * 8e-6 / WINDOW_S

    def waited_at_loss_ms(self) -> Floats:
        """Returns, for each lost packet, how long the packet waited that was sent last before it and arrived."""
        if self.sent_ns.size == 0:
            return np.empty(0)
        order = np.argsort(self.sent_ns, kind="stable")
        at = np.searchsorted(self.sent_ns[order], self.lost_ns, side="right") - 1
        return self.waited_ms[order][np.maximum(at, 0)]


def fit(runs: Sequence[Run]) -> Fit:
    """Returns the properties of the path that measured runs show together. Raises ConfigError if no packet came."""
    seen = [_Seen.of(run) for run in runs]
    rtts = [flow["rtt_min_ms"] for run in runs for flow in run.result["flows"] if flow["rtt_min_ms"]]
    busy = np.concatenate([each.busy_mbps() for each in seen])
    every = np.concatenate([each.all_mbps() for each in seen])
    if not rtts or not every.size or not float(every.max()) > 0:
        raise ConfigError("no packet of these runs arrived, so that nothing is known of the path; measure again")
    is_bound = busy.size < LEAST_BUSY
    rate_mbps = float(np.quantile(every if is_bound else busy, RATE_QUANTILE)) or float(every.max())
    missing = 0.0 if is_bound else max(0.0, 1 - float(busy.mean()) / rate_mbps)
    waited = np.concatenate([each.waited_ms for each in seen])
    at_loss = np.concatenate([each.waited_at_loss_ms() for each in seen])
    longest_ms = float(np.quantile(waited, 0.999))
    short_ms = max(SHORT * longest_ms, LEAST_QUEUE_MS)
    at_full = at_loss[at_loss > short_ms]
    buffer_ms = float(np.median(at_full)) if at_full.size else longest_ms
    short = int((waited <= short_ms).sum())
    lost = int((at_loss <= short_ms).sum())
    transmission_ms = MOST_BYTES * 8e-3 / rate_mbps
    return Fit(
        rate_mbps=rate_mbps,
        rate_is_bound=is_bound,
        rtt_ms=max(0.0, min(rtts) - transmission_ms),
        # The packet that waited is in the queue, too.
        buffer_bytes=max(2 * MOST_BYTES, round(buffer_ms * rate_mbps * 125) + MOST_BYTES),
        buffer_is_bound=not at_full.size,
        loss=lost / max(1, short + lost),
        missing=missing,
    )


def is_exact(run: Run) -> bool:
    """Returns whether each packet of a run has its times: flows of the kernel's TCP have estimates alone."""
    return not any(flow.get("foreign") for flow in flows_of(run.document))


def scenario_of(fitted: Fit, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scenario `given`, as it was measured, with a link of the fitted properties in place of the path."""
    rate_mbps, delay_ms = _rounded(fitted.rate_mbps), _rounded(fitted.rtt_ms / 2)
    link: dict[str, Any] = {
        **{"name": PATH, "service": {"type": "constant", "rate_mbps": rate_mbps}},
        **{"queue": {"type": "droptail", "bytes": fitted.buffer_bytes}, "delay_ms": delay_ms},
    }
    if fitted.loss > 0:
        link["loss"] = _rounded(fitted.loss)
    flows = [{key: value for key, value in flow.items() if key != "base_rtt_ms"} for flow in given["flows"]]
    if fitted.has_competitors:
        app = {"type": "cbr", "rate_mbps": _rounded(fitted.competing_mbps)}
        flows.append({"name": "competitors", "scheme": "cubic", "app": app})
    return {**given, "links": [link], "flows": flows}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else value
