"""Flows on which every signal of the registry is measured, and how far backends may differ in each signal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.cc_kernel_bridge import run as kernel_tcp
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import Spec
from ccarena.quic import run as quic
from ccarena.scenarios.backends import simulate
from tests.policies.made import constant

BACKENDS = ("sim", "quic", "bridge", "kernel")
SECONDS, WARM_UP_S = 4.5, 1.0
RECENT_RTTS = 4
SIGNALS = {signal["name"]: signal for signal in _core.signals()}


@dataclass(frozen=True)
class Bound:
    """A mean, or median (MEDIANS), may differ from the simulator's by `relative` of it and `absolute` in its unit."""

    relative: float
    absolute: float

    def holds(self, value: float, expected: float, times: float = 1.0) -> bool:
        """Returns whether `value` is near `expected`, within so many times the bound."""
        return abs(value - expected) <= times * (self.absolute + self.relative * abs(expected))


@dataclass(frozen=True)
class Flow:
    """A flow on a link of its own, 24 Mbit/s and 20 ms each way, under a constant action."""

    act: Mapping[str, Any]
    base: str
    action: float
    more: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the scenario's flow."""
    loss: float = 0.0
    steady: bool = True
    """It sends all the time. Else what the last RTTs hold depends on how the few acknowledgements in them arrive."""
    times: float = 1.0
    """The factor of its bounds, where chance has a larger part."""


RATE, COUNT = Bound(0.1, 0.05), Bound(0.1, 0.5)
# Of one period, which may end an acknowledgement earlier than others.
MOST = Bound(0.25, 0.05)
DELAY, RATIO, WINDOWS = Bound(0.02, 2.0), Bound(0.06, 0.03), Bound(0.1, 0.5)
EXACT = Bound(1e-6, 0.0)
BOUNDS = {
    "throughput_mbps": RATE,
    "throughput_max_mbps": MOST,
    "throughput_lately_mbps": MOST,
    "throughput_ratio": MOST,
    "throughput_per_rtt_mbps": Bound(0.15, 0.1),
    "throughput_per_rtt_MBps": Bound(0.15, 0.02),
    "delivery_rate_mbps": Bound(0.12, 0.1),
    "delivery_rate_mean_mbps": Bound(0.12, 0.1),
    "ack_delivery_mbps": Bound(0.12, 0.1),
    "ack_send_mbps": Bound(0.12, 0.1),
    "app_limited_ratio": Bound(0.0, 0.1),
    "delivery_ratio": Bound(0.1, 0.03),
    "delivered_bytes": Bound(0.1, 1500),
    "acked_packets": COUNT,
    "send_rate_mbps": RATE,
    "sent_packets": COUNT,
    "send_ratio": RATIO,
    "rtt_ms": DELAY,
    "rtt_min_ms": Bound(0.0, 1.0),
    "srtt_ms": DELAY,
    "rttvar_ms": Bound(0.5, 2.0),
    "ack_rtt_ms": Bound(0.02, 4.0),
    "rtt_samples": Bound(0.1, 1.0),
    "rtt_or_zero_ms": DELAY,
    "rtt_or_min_ms": DELAY,
    "rtt_quantile_ms": Bound(0.02, 4.0),
    "rtt_ratio": RATIO,
    "latency_ratio": RATIO,
    "srtt_ratio": RATIO,
    "queueing_delay_ms": DELAY,
    "delay_or_zero_ms": DELAY,
    "delay_ratio": Bound(0.02, 0.4),
    "latency_gradient": Bound(0.1, 0.02),
    "rtt_gradient": Bound(0.1, 0.02),
    "loss_ratio": Bound(0.2, 0.001),
    "packet_loss_ratio": Bound(0.2, 0.001),
    "lost_packets": Bound(0.2, 0.05),
    "loss_rate_pps": Bound(0.2, 0.5),
    "loss_mbps": Bound(0.2, 0.01),
    "ce_packets": EXACT,
    "ce_ratio": EXACT,
    "cwnd_packets": WINDOWS,
    "window_ratio": MOST,
    "rate_mbps": RATE,
    "twnd_packets": Bound(0.05, 0.5),
    "target_ratio": Bound(0.1, 0.01),
    "inflight_packets": WINDOWS,
    "outstanding_packets": Bound(0.15, 1.0),
    "retransmitted_packets": Bound(0.3, 0.3),
    "inflight_ratio": Bound(0.1, 0.02),
    "last_action": EXACT,
    "action_before": EXACT,
    "interval_ms": Bound(0.04, 0.0),
    "interval_ratio": Bound(0.06, 0.0),
    "case": EXACT,
    "mtp_ms": EXACT,
    "mtp_least_ms": EXACT,
    "mtp_most_ms": EXACT,
    "periods": EXACT,
    "time_s": Bound(0.05, 0.0),
    "since_ack_ms": Bound(0.0, 1.0),
    "ack_gap_ms": Bound(0.15, 0.1),
    "ack_dispersion": Bound(0.5, 0.5),
    "advertised_mbps": Bound(0.02, 0.0),
    "zone": Bound(0.0, 0.05),
    "zone_index": Bound(0.0, 0.1),
    "weight": EXACT,
    "required_min_mbps": EXACT,
    "required_max_mbps": EXACT,
    "input": EXACT,
}
"""The bound of each signal's mean, against the simulator's."""

DERIVED: dict[str, tuple[dict[str, Any], Bound]] = {
    "emptiness": ({"quotient": ["rtt_min_ms", "rtt_ms"], "default": 1}, RATIO),
    "queue_ms": ({"difference": ["rtt_ms", "rtt_min_ms"]}, DELAY),
    "best_mbps": ({"max": "delivery_rate_mean_mbps"}, MOST),
    "lately_mbps": ({"mean": "throughput_mbps", "over_periods": 5}, RATE),
    "within_ms": ({"mean": "rtt_ms", "over_ms": 300, "each": "ack"}, DELAY),
    "anew_ms": ({"ewma": {"signal": "ack_rtt_ms", "tick_ms": 1}, "gain": 0.125, "reset": "period"}, Bound(0.02, 4.0)),
}
"""Derived signals and their bounds: every kind of them, by period and by acknowledgement."""

WINDOW = {"kind": "window", "bounds": [2, 200]}
FLOWS = {
    "rate": Flow({"kind": "rate", "bounds": [1, 50]}, "none", 10.0),
    "window": Flow(WINDOW, "acct", 60.0),
    "lossy": Flow(WINDOW, "acct", 60.0, loss=0.02, times=3.0),
    "idle": Flow(
        WINDOW,
        "acct",
        20.0,
        more={
            "app": {"type": "transfers", "sizes_bytes": [28_960] * 30, "gap_s": 0.2},
            "initial_window": 20,
            "delayed_ack": False,
        },
        steady=False,
    ),
}


OF_DEPARTURES = ("ack_send_mbps",)
"""Signals that go by departures, which the bridge spreads evenly over the time since its last report: a burst after
silence is beyond it.
"""


MEDIANS = ("rttvar_ms",)
"""Signals whose median over periods counts: one packet that a busy machine holds up moves their mean for long."""


def columns(name: str, backend: str) -> list[dict[str, Any]]:
    """Every signal that `backend` measures, over a period and, where both can do that, over the flow's last RTTs."""
    out: list[dict[str, Any]] = []
    looks_back = FLOWS[name].steady and backend != "kernel"
    for signal, about in SIGNALS.items():
        if backend in about["backends"] and (FLOWS[name].steady or signal not in OF_DEPARTURES):
            out.append({"signal": signal, "as": signal, **({"name": "given"} if signal == "input" else {})})
            if looks_back and any(option["name"] == "over_rtts" for option in about["options"]):
                out.append({"signal": signal, "as": f"{signal}_recent", "over_rtts": RECENT_RTTS})
    return out + ([] if backend == "kernel" else [{**item, "as": name} for name, (item, _) in DERIVED.items()])


def bounds_of(name: str, backend: str) -> list[Bound]:
    """The bound of each column of a flow's report."""
    out = []
    for column in columns(name, backend):
        signal = column.get("signal")
        channels = len(SIGNALS[signal]["channels"] or [""]) if signal else 1
        out += [BOUNDS[signal] if signal else DERIVED[column["as"]][1]] * channels
    return out


def spec(name: str, backend: str) -> dict[str, Any]:
    """The learned scheme of a flow: it decides every 100 ms."""
    flow = FLOWS[name]
    return {
        "learned": 1,
        "name": name,
        "summary": "a constant action",
        "params": {"given": {"default": 3.0, "min": 0.0, "max": 10.0, "runtime": True, "doc": "an input"}},
        "clock": {"kind": "fixed", "period_ms": 100},
        "observe": {"history": 1, "signals": ["throughput_mbps"]},
        "act": dict(flow.act),
        "base": flow.base,
        "report": columns(name, backend),
    }


def side_by_side(backend: str) -> list[list[str]]:
    """Flows by run. In the kernel one policy at a time has packets with ACCT's option."""
    return [[name] for name in FLOWS] if backend == "kernel" else [list(FLOWS)]


def scenario(names: list[str], backend: str, folder: Path) -> dict[str, Any]:
    """Flows side by side, each on a link of its own."""
    links, flows = [], []
    for name in names:
        flow, document = FLOWS[name], spec(name, backend)
        link = {
            "name": name,
            "service": {"type": "constant", "rate_mbps": 24},
            "queue": {"type": "droptail", "packets": 200},
            "delay_ms": 20,
            "loss": flow.loss,
            "router": flow.base == "acct",
        }
        links.append(link)
        policy: Any = {"constant": flow.action}
        if backend == "kernel":
            policy = str(folder / f"{name}.safetensors")
            interface = Spec.of(_core.learned(json.dumps(document))).interface
            Artifact.of(constant(interface, flow.action), interface).save(policy)
        wishes = {} if backend == "kernel" else {"weight": 2, "requirement": {"min_mbps": 1, "max_mbps": 9}}
        flows.append({"name": name, "scheme": document, "policy": policy, "path": [name], **wishes, **flow.more})
    return {"duration_s": SECONDS, "seed": 3, "links": links, "flows": flows, "record": {"reports": True}}


def execute(document: dict[str, Any], backend: str) -> dict[str, Any]:
    """The result of a scenario."""
    if backend == "sim":
        return simulate(document)
    if backend == "quic":
        return quic.run_scenario(document)
    return kernel_tcp.run_scenario(document, in_kernel=backend == "kernel")


def measure(backend: str, folder: Path) -> dict[str, dict[str, float]]:
    """Returns the mean of every column of each flow's reports after the warm-up, or its median."""
    out = {}
    for names in side_by_side(backend):
        for flow in execute(scenario(names, backend, folder), backend)["flows"]:
            report = Spec.of(_core.learned(json.dumps(spec(flow["name"], backend)))).report
            rows = np.asarray(flow["reports"], float)
            times_s = np.cumsum(rows[:, report.index("interval_ms")]) / 1e3
            rows = rows[times_s > WARM_UP_S]
            out[flow["name"]] = dict(zip(report, rows.mean(axis=0), strict=True))
            out[flow["name"]] |= {each: np.median(rows[:, report.index(each)]) for each in MEDIANS if each in report}
    return out
