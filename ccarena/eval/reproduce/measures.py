"""Row of one run: named measures of the run and of each flow, from the run's result.

Rates have two normalisations: `throughput_mbps` counts IP bytes that reached the receiver, `goodput_mbps` payload, each
byte once. A flow's window is the part of the suite's window in which it is active. Windows shorter than the run need
`record: {series: true}` in the scenario, and their edges are rounded to its bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.configs.spec_files import report_of
from ccarena.errors import ConfigError, ScenarioError, did_you_mean
from ccarena.eval.heldout import oracle
from ccarena.eval.measure import metrics

__all__ = ["FLOW", "KINDS", "RUN", "Window", "check", "names", "row"]

Floats = NDArray[np.float64]
PACKET_BYTES = 1500

WINDOWED_FLOW = {
    "throughput_mbps": "IP bytes that reached the receiver, over the flow's time in the window",
    "goodput_mbps": "payload that reached the receiver, each byte once, over the same time",
    "satisfaction": "goodput over the requirement's minimum (Hercules' x/a); null without a requirement",
    "share": "throughput over the sum of all flows' throughputs",
    "relative": "throughput over the first flow's throughput: the papers' throughput ratio",
}
FLOW = {
    **WINDOWED_FLOW,
    "sent_packets": "data packets sent, retransmissions included",
    "retransmitted_packets": "retransmissions",
    "lost_packets": "packets that the sender considered lost",
    "timeouts": "retransmission timeouts",
    "rtt_min_ms": "least RTT sample of the sender",
    "rtt_mean_ms": "mean RTT sample of the sender",
    "completion_s": "list of the durations of finished transfers",
    "inferences_per_s": "decisions of a learned scheme per second of the flow's time; 0 for other schemes",
}
WINDOWED_RUN = {
    "total_mbps": "sum of the flows' IP bytes over the window",
    "utilisation": "IP bytes that left the link over its capacity in IP bytes",
    "utilisation_goodput": "payload that reached receivers over the link's capacity in IP bytes",
    "worst_satisfaction": "the least satisfaction among flows with a requirement",
    "jain": "Jain's index of the flows' throughputs",
    "relative_worst": "the largest relative distance of a flow's `relative` from its weight over the first's weight",
}
RUN = {
    **WINDOWED_RUN,
    "dropped_packets": "packets dropped by the queue, whole run",
    "loss_share": "packets lost (queue, random loss, outages) over packets that arrived at the link",
    "queue_drop_share": "packets dropped by the queue over packets that arrived at the link",
    "queueing_mean_ms": "mean of packets' queueing delays over the window; needs record.series or record.packets",
    "queueing_bin_p95_ms": "95th percentile of the bins' mean queueing delays; needs record.series",
    "daemon_cpu_percent": "CPU time of the controllers in user space, over the run's; null in the simulator",
    "datapath_cpu_percent": "CPU time of the BPF programs that serve them, over the run's; null in the simulator",
}
PACKETS = {
    "queueing_p50_ms": "median of packets' queueing delays",
    "queueing_p95_ms": "95th percentile of packets' queueing delays",
    "queueing_p99_ms": "99th percentile of packets' queueing delays",
    "signal_p95_ms": "95th percentile of the signal delay (`metrics.signal_delay_ms`) of packets that left the link",
    "power": "`total_mbps` over `signal_p95_ms` in s",
}
"""Measures of a run with `record: {packets: true}`, over the window."""

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
    both = {**dict.fromkeys(FLOW, "flow"), **dict.fromkeys([*RUN, *PACKETS], "run")}
    for window in windows:
        both |= dict.fromkeys((f"{name}@{window}" for name in WINDOWED_FLOW), "flow")
        both |= dict.fromkeys((f"{name}@{window}" for name in WINDOWED_RUN), "run")
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
    """Returns `run`, `flows` and, if asked for, `series` of one run of `document`."""
    view = _View(document, result)
    run: dict[str, Any] = {}
    flows: list[dict[str, Any]] = [{"name": flow["name"], "scheme": flow["scheme"]} for flow in result["flows"]]
    for suffix, part in [("", window), *((f"@{name}", part) for name, part in windows.items())]:
        of_flows = list(view.flows(part))
        for known, measured in zip(flows, of_flows, strict=True):
            known |= {name + suffix: value for name, value in measured.items()}
        run |= {name + suffix: value for name, value in view.run(part, of_flows).items()}
    for known, flow in zip(flows, result["flows"], strict=True):
        known |= _totals(flow, view.duration_s)
    run |= view.queue(window, run["total_mbps"])
    for name, spec in declared.items():
        run[name] = view.declared({**KINDS[spec["kind"]][0], **spec}, window)
    out = {"run": run, "flows": flows}
    return out | {"series": view.series()} if series else out


def _totals(flow: Mapping[str, Any], duration_s: float) -> dict[str, Any]:
    kept = ("sent_packets", "retransmitted_packets", "lost_packets", "timeouts", "rtt_min_ms", "rtt_mean_ms")
    stop = flow.get("stop_s")
    active_s = (duration_s if stop is None else min(float(stop), duration_s)) - float(flow.get("start_s") or 0.0)
    return {
        **{name: flow[name] for name in kept},
        "completion_s": [float(x) for x in flow["completion_s"]],
        "inferences_per_s": int(flow.get("decisions") or 0) / active_s if active_s > 0 else math.nan,
    }


@dataclass
class _View:
    """View of a run's result with its document."""

    document: Mapping[str, Any]
    result: Mapping[str, Any]
    entries: list[Mapping[str, Any]] = field(init=False)
    """Flows of the document, each as often as its `count` says."""

    def __post_init__(self) -> None:
        self.entries = [flow for flow in self.document["flows"] for _ in range(int(flow.get("count") or 1))]
        self.duration_s = float(self.result["duration_s"])
        self.bin_s = float((self.document.get("record") or {}).get("bin_ms", 10)) / 1e3
        self.link = self.result["links"][0]
        self._log: metrics.PacketLog | None = None

    def flows(self, window: Window) -> Iterator[dict[str, float]]:
        """Yields each flow's windowed measures."""
        rates, payload = self.rates(window, "wire_bytes"), self.rates(window, "payload_bytes")
        total = sum(rates)
        for entry, rate, goodput in zip(self.entries, rates, payload, strict=True):
            needed = entry.get("requirement") or {}
            yield {
                "throughput_mbps": rate,
                "goodput_mbps": goodput,
                "satisfaction": metrics.satisfaction(goodput, float(needed.get("min_mbps", 0.0))),
                "share": rate / total if total > 0 else math.nan,
                "relative": rate / rates[0] if rates[0] > 0 else math.nan,
            }

    def rates(self, window: Window, what: str) -> list[float]:
        """Returns Mbit/s of each flow over its time in the window."""
        out = []
        for flow in self.result["flows"]:
            stop = flow.get("stop_s")
            from_s = max(window.from_s, float(flow.get("start_s") or 0.0))
            to_s = min(window.to_s, self.duration_s if stop is None else float(stop))
            if to_s <= from_s:
                out.append(0.0)
                continue
            out.append(self.bytes(flow, what, window) * 8e-6 / (to_s - from_s))
        return out

    def bytes(self, flow: Mapping[str, Any], what: str, window: Window) -> float:
        if self.whole(window):
            return float(flow["wire_bytes" if what == "wire_bytes" else "delivered_bytes"])
        return float(self.bins(self.of(flow, what), window).sum())

    def whole(self, window: Window) -> bool:
        return window.from_s <= 0 and window.to_s >= self.duration_s

    def of(self, part: Mapping[str, Any], what: str) -> Floats:
        """Returns a series of a flow or link, float64 per bin."""
        if "series" not in part:
            raise ScenarioError(
                "record.series: false, but the suite has a window, a convergence time or a figure over time, which "
                "need `record: {series: true}`"
            )
        return np.asarray(part["series"][what], dtype=np.float64)

    def bins(self, series: Floats, window: Window) -> Floats:
        first, last = round(window.from_s / self.bin_s), round(min(window.to_s, self.duration_s) / self.bin_s)
        return series[first:last]

    def run(self, window: Window, flows: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Returns the run's windowed measures."""
        length_s = min(window.to_s, self.duration_s) - window.from_s
        if self.whole(window):
            capacity, left = float(self.link["capacity_bytes"]), float(self.link["delivered_bytes"])
        else:
            capacity = float(self.bins(np.asarray(self.link["capacity_mbps"]), window).sum()) * self.bin_s * 125_000
            left = float(self.bins(self.of(self.link, "delivered_bytes"), window).sum())
        sums = {
            what: sum(self.bytes(flow, what, window) for flow in self.result["flows"])
            for what in ("wire_bytes", "payload_bytes")
        }
        satisfactions = [flow["satisfaction"] for flow in flows if not math.isnan(flow["satisfaction"])]
        weights = [float(entry.get("weight") or 1.0) for entry in self.entries]
        off = [abs(f["relative"] * weights[0] / w - 1) for f, w in zip(flows, weights, strict=True)]
        return {
            "total_mbps": sums["wire_bytes"] * 8e-6 / length_s if length_s > 0 else math.nan,
            "utilisation": metrics.utilisation(left, capacity),
            "utilisation_goodput": metrics.utilisation(sums["payload_bytes"], capacity),
            "worst_satisfaction": min(satisfactions, default=math.nan),
            "jain": metrics.jain_index([flow["throughput_mbps"] for flow in flows]),
            "relative_worst": max(off, default=math.nan),
        }

    def percent(self, seconds: float | None) -> float:
        """Returns a time in percent of the run's; NaN for None."""
        return math.nan if seconds is None else 100 * seconds / self.duration_s

    def queue(self, window: Window, total_mbps: float) -> dict[str, float]:
        """Returns measures of the first link's queue: delay, drops and marks."""
        link = self.link
        machine = self.result.get("machine") or {}
        out = {
            "dropped_packets": float(link["dropped_packets"]),
            **metrics.loss_shares(*(float(link[f"{what}_packets"]) for what in ("dropped", "lost", "delivered"))),
            "queueing_mean_ms": math.nan,
            "queueing_bin_p95_ms": math.nan,
            **{f"{who}_cpu_percent": self.percent(machine.get(f"{who}_cpu_s")) for who in ("daemon", "datapath")},
        }
        if "series" in link:
            delay, sent = (self.bins(self.of(link, what), window) for what in ("queueing_ms", "delivered_bytes"))
            seen = np.isfinite(delay)
            if seen.any():
                out["queueing_mean_ms"] = float(np.average(delay[seen], weights=np.maximum(sent[seen], 1.0)))
                out["queueing_bin_p95_ms"] = metrics.percentile(delay[seen], 0.95)
        if "log" in link:
            log = self.log()
            within = (log.departure_ns >= window.from_s * 1e9) & (log.departure_ns < window.to_s * 1e9)
            delays = metrics.queueing_delay_ms(log)[within]
            out["queueing_mean_ms"] = float(delays.mean()) if delays.size else math.nan
            named = ("queueing_p50_ms", "queueing_p95_ms", "queueing_p99_ms")
            out |= zip(named, metrics.percentiles(delays, (0.50, 0.95, 0.99)), strict=True)
            signal_ms = metrics.signal_delay_percentile_ms(log.where(within), 0.95)
            out |= {"signal_p95_ms": signal_ms, "power": metrics.power(total_mbps, signal_ms)}
        return out

    def log(self) -> metrics.PacketLog:
        if "log" not in self.link:
            raise ScenarioError("record.packets: false, but the suite measures the queue's length; set it to true")
        if self._log is None:
            self._log = metrics.PacketLog.from_arrays(self.link["log"])
        return self._log

    def declared(self, spec: Mapping[str, Any], window: Window) -> float:
        """Returns a measure of the suite's `measures`."""
        kind = spec["kind"]
        if kind == "convergence":
            return self.convergence(spec)
        if kind == "variation":
            varying = self.binned_rates(spec, float(spec["from_s"]))[1]
            return max(float(rate.std() / rate.mean()) if rate.any() else math.nan for rate in varying)
        if kind == "group_ratio":
            rates = {
                flow["name"]: rate
                for flow, rate in zip(self.result["flows"], self.rates(window, "wire_bytes"), strict=True)
            }
            of, to = ([r for name, r in rates.items() if name.startswith(str(spec[group]))] for group in ("of", "to"))
            return float(np.mean(of) / np.mean(to)) if of and sum(to) > 0 else math.nan
        if kind == "period_share":
            return self.period_share(spec)
        if kind == "over_late_knowledge":
            return self.over_late_knowledge()
        if kind == "share_within_delay":
            return metrics.share_within_delay(self.log(), float(spec["budget_ms"]), window.from_s, window.to_s)
        if kind == "share_within_packets":
            return metrics.share_within_packets(self.log(), int(spec["packets"]), window.from_s, window.to_s)
        lengths, share = metrics.queue_cdf(self.log(), window.from_s, window.to_s)
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
        reached = metrics.utilisation(float(self.link["delivered_bytes"]), float(self.link["capacity_bytes"]))
        least = np.interp(reached, utilisation, late_ms, right=math.nan)
        delays = metrics.signal_delay_ms(self.log())
        return float(metrics.percentile(delays, 0.95) / least) if delays.size and least > 0 else math.nan

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
        """Returns the latest of the flows' convergence times (`metrics.convergence_time_s`), of IP bytes per bin."""
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
        return metrics.convergence_time_s(together, 1.0, bin_s, float(spec["hold_s"]), tolerance=0.0)

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
            per_flow = _binned(
                self.bins(self.of(self.result["flows"][known.index(name)], "wire_bytes"), window), per_bin
            )
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
        carried = sum(self.bins(self.of(flow, "wire_bytes"), window).sum() for flow in flows)
        rate = float(carried) * 8e-6 / (window.to_s - window.from_s)
        weights = [float(entry.get("weight") or 1.0) if given == "weights" else 1.0 for entry in entries]
        return [rate * weight / sum(weights) for weight in weights]

    def series(self) -> dict[str, Any]:
        """Returns series in bins of about 1/150 of the run: flows' rates and periods, capacity, queueing delay."""
        per_bin = max(1, round(self.duration_s / 150 / self.bin_s))
        bin_s = per_bin * self.bin_s
        flows = {}
        for flow in self.result["flows"]:
            sums = _binned(self.of(flow, "wire_bytes"), per_bin)
            flows[str(flow["name"])] = [round(x, 6) for x in (sums * 8e-6 / bin_s).tolist()]
        size = len(next(iter(flows.values())))
        capacity = _binned(np.asarray(self.link["capacity_mbps"], dtype=np.float64), per_bin)[:size] / per_bin
        delay = self.of(self.link, "queueing_ms")[: size * per_bin].reshape(size, per_bin)
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
            "throughput_mbps": flows,
            "capacity_mbps": [round(x, 3) for x in capacity.tolist()],
            "queueing_ms": [round(x, 4) if n else None for x, n in zip(mean.tolist(), counts.tolist(), strict=True)],
            "period_ms": periods,
        }


def _binned(values: Floats, per_bin: int) -> Floats:
    size = values.size // per_bin
    sums: Floats = values[: size * per_bin].reshape(size, per_bin).sum(axis=1)
    return sums
