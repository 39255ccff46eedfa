"""Row of one run: named measures of the run and of each flow, from the run's result.

Measures are figures of the table (`ccarena.eval.measure.table`): of each flow, of the whole run, and of its first link.
A flow's window is the part of the suite's window in which it is active. Windows shorter than the run need `record:
{series: true}` in the scenario, and their edges are rounded to its bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.configs.spec_files import report_of
from ccarena.errors import ConfigError, ScenarioError, did_you_mean
from ccarena.eval.heldout import oracle
from ccarena.eval.measure import table
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.queueing import queue_cdf, share_within_delay, share_within_packets
from ccarena.eval.measure.record import (
    COUNTERS,
    FLOWS,
    MACHINE,
    NEEDS_OF_APPLICATIONS,
    PACKETS,
    RECEIVED,
    REQUIREMENT,
    SERIES,
    Record,
)
from ccarena.eval.measure.table import FIGURES, columns
from ccarena.eval.measure.throughput import convergence_time_s

__all__ = [
    "KINDS",
    "WHOLE",
    "Window",
    "check",
    "counted",
    "names",
    "of_packets",
    "row",
    "windowed_flow",
    "windowed_run",
]

Floats = NDArray[np.float64]
PACKET_BYTES = 1500

GIVEN = frozenset({RECEIVED, FLOWS, REQUIREMENT, SERIES, MACHINE})
"""Needs of figures that a part of a run may meet."""
OF_WHOLE = frozenset({COUNTERS, *NEEDS_OF_APPLICATIONS})
"""Needs of a flow's figures that only a whole run meets."""
WHOLE = (
    *("loss_share", "queue_drop_share", "arrived_packets", "delivered_packets", "dropped_packets"),
    *("marked_ect0_packets", "marked_ect1_packets", "dropped_not_ect_packets"),
    *("l4s_queue_delay_p50_ms", "l4s_queue_delay_p99_ms", "classic_queue_delay_p50_ms", "classic_queue_delay_p99_ms"),
    *("daemon_cpu_percent", "datapath_cpu_percent"),
)
"""Figures of the run and its first link that are of the whole run."""
COMPLETION = "completion_s"
"""A flow's durations of finished transfers: a list, and so no figure."""


def windowed_flow() -> list[str]:
    """Returns the measures of a flow over a part of the run."""
    return [name for name in columns(GIVEN, ()) if {"flow"} == FIGURES[name].of]


def windowed_run() -> list[str]:
    """Returns the measures of a run, or of its first link, over a part of the run."""
    return [name for name in (*columns(GIVEN, (), "run"), *columns(GIVEN, (), "link")) if name not in WHOLE]


def counted() -> list[str]:
    """Returns the measures of a flow over the whole run."""
    return [name for name in columns(GIVEN | OF_WHOLE, ()) if OF_WHOLE & FIGURES[name].needs]


def of_packets() -> list[str]:
    """Returns the measures of a run that need `record: {packets: true}`: figures of its first link."""
    return [name for name in columns({PACKETS}, (), "link") if name not in (*windowed_run(), *WHOLE)]


KINDS: dict[str, tuple[dict[str, Any], str]] = {
    # kind: (parameters with defaults, None for one that must be given; meaning)
    "convergence": (
        {
            "event_s": 0.0,
            "until_s": None,
            "target": "fair",
            "flows": "all",
            "bin_s": 0.5,
            "hold_s": 2.0,
            "tolerance": 0.25,
            "above_is_near": False,
        },
        "time after `event_s` until every flow stays for `hold_s` within `tolerance` of its target; null if never. "
        "The target `equal` is an equal share of the flows' total in each bin, `fair` of their mean total, and "
        "`settled` the flow's own mean over the last half. With `above_is_near` a rate above the target counts as near",
    ),
    "variation": (
        {"from_s": 0.0, "until_s": None, "flows": "all", "bin_s": 1.0},
        "standard deviation of a flow's rate over its mean, in bins of `bin_s`; the largest of several flows",
    ),
    "group_ratio": (
        {"of": "", "to": ""},
        "mean throughput of flows with the name prefix `of`, over the mean throughput of flows with the prefix `to`",
    ),
    "period_share": (
        {"least_ms": 0.0, "below_ms": None, "from_s": 0.0, "until_s": None, "flow": 0},
        "share of the time in which a flow's monitoring periods last at least `least_ms` and less than `below_ms`, as "
        "the mean of the periods between two inferences; needs record.reports",
    ),
    "share_within_delay": (
        {"budget_ms": 5.0},
        "share of the window with at most `budget_ms` of work queued; needs record.packets",
    ),
    "share_within_packets": (
        {"packets": 5},
        "share of the window with at most `packets` packets queued; needs record.packets",
    ),
    "over_late_knowledge": (
        {},
        "95th percentile of the signal delay, over the oracle's at the same utilisation. The oracle knows the capacity "
        "one round trip late (`heldout.oracle.trade_off`); null if it does not reach that utilisation. Needs "
        "record.packets, and bins as short as the link's slots",
    ),
    "queue_packets": (
        {"quantile": 0.8},
        "queue length in packets that is not exceeded for the share `quantile` of the window; needs record.packets",
    ),
}


@dataclass(frozen=True)
class Window:
    """Window [from_s, to_s) of the run."""

    from_s: float
    to_s: float


def names(declared: Mapping[str, Any], windows: Sequence[str]) -> dict[str, str]:
    """Returns every measure of a suite's rows -> "run" or "flow"; a measure in a named window is `MEASURE@WINDOW`."""
    both = dict.fromkeys((*windowed_flow(), *counted(), COMPLETION), "flow")
    both |= dict.fromkeys((*windowed_run(), *WHOLE, *of_packets()), "run")
    for window in windows:
        both |= dict.fromkeys((f"{name}@{window}" for name in windowed_flow()), "flow")
        both |= dict.fromkeys((f"{name}@{window}" for name in windowed_run()), "run")
    return both | dict.fromkeys(declared, "run")


def check(spec: Mapping[str, Any], path: str) -> None:
    """Raises ConfigError, led by `path`, for a declared measure of an unknown kind or parameter."""
    kind = spec.get("kind")
    if kind not in KINDS:
        raise ConfigError(f'{path}.kind: unknown "{kind}"{did_you_mean(str(kind), KINDS)}')
    parameters = KINDS[kind][0]
    for key in spec:
        if key not in ("kind", *parameters):
            raise ConfigError(f'{path}: unknown key "{key}"{did_you_mean(str(key), parameters)}; {kind} has '
                              f"{', '.join(parameters)}")  # fmt: skip


def row(
    document: Mapping[str, Any],
    result: Mapping[str, Any],
    window: Window,
    windows: Mapping[str, Window],
    declared: Mapping[str, Mapping[str, Any]],
    series: bool,
) -> dict[str, Any]:
    """Returns `run`, `flows` and, if asked for, `series` of one run; `document` has every default filled in."""
    view = _View(document, result, window)
    run: dict[str, Any] = {}
    flows: list[dict[str, Any]] = [{"name": flow["name"], "scheme": flow["scheme"]} for flow in result["flows"]]
    for suffix, part in [("", window), *((f"@{name}", part) for name, part in windows.items())]:
        record = view.within(part)
        if RECEIVED not in record.given:
            record.series(result["flows"][0], "wire_bytes")  # says what is missing
        for known, flow in zip(flows, record.flows, strict=True):
            known |= {name + suffix: value for name, value in table.row(flow, windowed_flow()).items()}
        run |= {name + suffix: value for name, value in table.row(record.links[0], windowed_run()).items()}
    for known, flow in zip(flows, view.whole.flows, strict=True):
        known |= table.row(flow, counted())
        known[COMPLETION] = [float(x) for x in flow.counter(COMPLETION)]
    run |= table.row(view.whole.links[0], WHOLE)
    if PACKETS in view.record.given:
        run |= table.row(view.record.links[0], of_packets())
    for name, spec in declared.items():
        run[name] = view.declared({**KINDS[spec["kind"]][0], **spec})
    out = {"run": run, "flows": flows}
    return out | {"series": view.series()} if series else out


class _View:
    """View of a run's result with its document."""

    def __init__(self, document: Mapping[str, Any], result: Mapping[str, Any], window: Window) -> None:
        self.document, self.result = document, result
        self.whole = Record(document, result)
        self.record = self.within(window)
        self.entries, self.duration_s, self.bin_s = self.whole.entries, self.whole.duration_s, self.whole.bin_s
        self.link = result["links"][0]

    def within(self, window: Window) -> Record:
        """Returns the run's part in a window."""
        return Record(self.document, self.result, (window.from_s, window.to_s))

    def part(self, flow: Mapping[str, Any], what: str, window: Window) -> Floats:
        """Returns a flow's series within a window."""
        return self.within(window).series(flow, what)

    def over_time(self, part: Mapping[str, Any], what: str) -> Floats:
        """Returns a series of a flow or link over the whole run, float64 per bin."""
        return self.whole.series(part, what)

    def log(self) -> PacketLog:
        """Returns the packets that left the first link over the whole run."""
        if "log" not in self.link:
            raise ScenarioError("record.packets: false, but the suite measures the queue's length; set it to true")
        return self.whole.links[0].log

    def declared(self, spec: Mapping[str, Any]) -> float:
        """Returns a measure of the suite's `measures`."""
        kind = spec["kind"]
        if kind == "convergence":
            return self.convergence(spec)
        if kind == "variation":
            varying = self.binned_rates(spec, float(spec["from_s"]))[1]
            return max(float(rate.std() / rate.mean()) if rate.any() else math.nan for rate in varying)
        if kind == "group_ratio":
            rates = {str(flow.counter("name")): float(table.value(flow, "received_mbps")) for flow in self.record.flows}
            of, to = ([r for name, r in rates.items() if name.startswith(str(spec[group]))] for group in ("of", "to"))
            return float(np.mean(of) / np.mean(to)) if of and sum(to) > 0 else math.nan
        if kind == "period_share":
            return self.period_share(spec)
        if kind == "over_late_knowledge":
            return self.over_late_knowledge()
        window = (self.record.from_s, self.record.to_s)
        if kind == "share_within_delay":
            return share_within_delay(self.log(), float(spec["budget_ms"]), *window)
        if kind == "share_within_packets":
            return share_within_packets(self.log(), int(spec["packets"]), *window)
        lengths, share = queue_cdf(self.log(), *window)
        return float(lengths[min(int(np.searchsorted(share, float(spec["quantile"]) - 1e-12)), len(lengths) - 1)])

    def over_late_knowledge(self) -> float:
        """Returns the delay over that of the oracle that knows capacity one RTT late, at the same utilisation, for the
        whole run.

        The oracle's curve needs the whole link. Its round trip is the shortest that the first flow has measured.
        """
        queue, rtt_ms = self.document["links"][0]["queue"], float(self.result["flows"][0]["rtt_min_ms"] or math.nan)
        if not rtt_ms > 0:
            return math.nan
        limit = float(queue["packets"]) * PACKET_BYTES if "packets" in queue else math.inf
        capacity = np.ascontiguousarray(self.link["capacity_mbps"], dtype=np.float64)
        bin_ms = self.bin_s * 1e3
        late = max(1, round(rtt_ms / bin_ms))
        utilisation, late_ms = oracle.trade_off(capacity.tobytes(), bin_ms, late, limit)
        self.log()
        reached = self.whole.links[0]
        least = np.interp(table.value(reached, "utilisation"), utilisation, late_ms, right=math.nan)
        return float(table.value(reached, "signal_delay_p95_ms") / least) if least > 0 else math.nan

    def periods(self, flow: Mapping[str, Any]) -> tuple[Floats, Floats, Floats]:
        """Returns for each of a flow's reports its time, the time it covers, and the mean period in it; none for other
        flows.
        """
        columns = report_of(flow["scheme"]) if len(flow.get("reports", ())) else ()
        if "periods" not in columns:
            return np.empty(0), np.empty(0), np.empty(0)
        reports = np.asarray(flow["reports"], dtype=np.float64)
        time_s, interval_ms, periods = (
            reports[:, columns.index(name)] for name in ("time_s", "interval_ms", "periods")
        )
        return time_s, interval_ms, interval_ms / np.maximum(periods, 1)

    def period_share(self, spec: Mapping[str, Any]) -> float:
        """Returns a share of the time that reports cover, NaN without reports."""
        if (self.document.get("record") or {}).get("reports") is not True:
            raise ScenarioError("record.reports: false, but the suite measures the periods' length; set it to true")
        time_s, interval_ms, period_ms = self.periods(self.result["flows"][int(spec["flow"])])
        until_s, below_ms = (math.inf if spec[key] is None else float(spec[key]) for key in ("until_s", "below_ms"))
        spent = np.where((time_s >= float(spec["from_s"])) & (time_s < until_s), interval_ms, 0.0)
        chosen = (period_ms >= float(spec["least_ms"])) & (period_ms < below_ms)
        return float(spent[chosen].sum() / spent.sum()) if spent.any() else math.nan

    def convergence(self, spec: Mapping[str, Any]) -> float:
        """Returns the latest of the flows' convergence times (`convergence_time_s`), of IP bytes per bin."""
        event_s, until_s = float(spec["event_s"]), spec["until_s"]
        window = Window(event_s, self.duration_s if until_s is None else float(until_s))
        known = [flow["name"] for flow in self.result["flows"]]
        chosen, rates = self.binned_rates(spec, event_s)
        if spec["target"] == "equal":
            targets: Sequence[Any] = [np.mean(rates, axis=0)] * len(rates)
        elif spec["target"] == "settled":
            targets = [float(rate[rate.size // 2 :].mean()) for rate in rates]
        else:
            targets = self.targets(spec["target"], known, chosen, window)
        tolerance, above_is_near = float(spec["tolerance"]), bool(spec["above_is_near"])
        near = [
            (np.abs(rate - target) <= tolerance * target) | (above_is_near & (rate > target))
            for rate, target in zip(rates, targets, strict=True)
        ]
        # All at once: a rate of 1 where every flow is near, which then has to stay.
        together = np.logical_and.reduce(near).astype(np.float64)
        bin_s = self.per_bin(spec) * self.bin_s
        return convergence_time_s(together, 1.0, bin_s, float(spec["hold_s"]), tolerance=0.0)

    def per_bin(self, spec: Mapping[str, Any]) -> int:
        return max(1, round(float(spec["bin_s"]) / self.bin_s))

    def binned_rates(self, spec: Mapping[str, Any], from_s: float) -> tuple[list[str], list[Floats]]:
        """Returns the names of a measure's `flows`, and the IP Mbit/s of each in bins of `bin_s` up to `until_s`."""
        until_s = spec["until_s"]
        window = Window(from_s, self.duration_s if until_s is None else float(until_s))
        known = [flow["name"] for flow in self.result["flows"]]
        chosen = known if spec["flows"] == "all" else [known[x] if isinstance(x, int) else x for x in spec["flows"]]
        per_bin = self.per_bin(spec)
        rates = []
        for name in chosen:
            if name not in known:
                raise ConfigError(f'measures: no flow "{name}"{did_you_mean(str(name), known)}')
            per_flow = _binned(self.part(self.result["flows"][known.index(name)], "wire_bytes", window), per_bin)
            rates.append(per_flow * 8e-6 / (per_bin * self.bin_s))
        return chosen, rates

    def targets(self, given: Any, known: Sequence[str], chosen: Sequence[str], window: Window) -> list[float]:
        """Returns Mbit/s for each chosen flow; `fair` and `weights` divide what the chosen flows carried in the
        window.
        """
        if isinstance(given, (int, float)):
            return [float(given)] * len(chosen)
        if isinstance(given, list):
            if len(given) != len(chosen):
                raise ConfigError(f"measures: {len(given)} targets for {len(chosen)} flows")
            return [float(x) for x in given]
        entries = [self.entries[known.index(name)] for name in chosen]
        if given == "requirement":
            return [float(entry["requirement"]["min_mbps"]) for entry in entries]
        if given not in ("fair", "weights"):
            raise ConfigError(
                f"measures: target {given!r}: expected fair, equal, settled, weights, requirement, a number or a list"
            )
        flows = [self.result["flows"][known.index(name)] for name in chosen]
        carried = sum(self.part(flow, "wire_bytes", window).sum() for flow in flows)
        rate = float(carried) * 8e-6 / (window.to_s - window.from_s)
        weights = [float(entry["weight"]) if given == "weights" else 1.0 for entry in entries]
        return [rate * weight / sum(weights) for weight in weights]

    def series(self) -> dict[str, Any]:
        """Returns series in bins of about 1/150 of the run: flows' rates and periods, capacity, queueing delay."""
        per_bin = max(1, round(self.duration_s / 150 / self.bin_s))
        bin_s = per_bin * self.bin_s
        flows = {}
        for flow in self.result["flows"]:
            sums = _binned(self.over_time(flow, "wire_bytes"), per_bin)
            flows[str(flow["name"])] = [round(x, 6) for x in (sums * 8e-6 / bin_s).tolist()]
        size = len(next(iter(flows.values())))
        capacity = _binned(np.asarray(self.link["capacity_mbps"], dtype=np.float64), per_bin)[:size] / per_bin
        delay = self.over_time(self.link, "queueing_ms")[: size * per_bin].reshape(size, per_bin)
        seen = np.isfinite(delay)
        counts: Floats = seen.sum(axis=1, dtype=np.float64)
        middle_s = (np.arange(size) + 0.5) * bin_s
        periods = {}
        for flow in self.result["flows"]:
            time_s, _, period_ms = self.periods(flow)
            if time_s.size:
                # A report covers the time until it came; after the last one nothing is known.
                found = period_ms[np.minimum(np.searchsorted(time_s, middle_s), time_s.size - 1)].round(3)
                known = (middle_s <= time_s[-1]).tolist()
                periods[str(flow["name"])] = [
                    x if there else None for x, there in zip(found.tolist(), known, strict=True)
                ]
        mean: Floats = np.where(seen, delay, 0.0).sum(axis=1) / np.maximum(counts, 1)
        return {
            "bin_s": bin_s,
            "received_mbps": flows,
            "capacity_mbps": [round(x, 3) for x in capacity.tolist()],
            "queueing_ms": [round(x, 4) if n else None for x, n in zip(mean.tolist(), counts.tolist(), strict=True)],
            "period_ms": periods,
        }


def _binned(values: Floats, per_bin: int) -> Floats:
    size = values.size // per_bin
    sums: Floats = values[: size * per_bin].reshape(size, per_bin).sum(axis=1)
    return sums
