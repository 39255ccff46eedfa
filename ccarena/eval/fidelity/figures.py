"""Entries of docs/measurements.json for `ccarena fidelity --record`: the summary of a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.core.measurements import Entry, Source, Target

__all__ = ["entries"]

TITLES = {
    "recorded": "The simulator against recorded kernel TCP over mahimahi",
    "emulated": "The emulator with kernel TCP against recorded kernel TCP over mahimahi",
    "live": "The simulator against this machine's kernel TCP over the emulator",
}
"""Kinds of comparison and the headings of their tables."""
SHALLOW_PACKETS = 120
"""Largest shallow buffer; a larger one counts as deep."""

Case = Mapping[str, Any]


def entries(kind: str, result: Mapping[str, Any], source: Source) -> list[Entry]:
    """Returns the figures of a result of `recorded.summarise`; `kind` is one of [`TITLES`]. None if no case is
    valid.
    """
    cases, bounds = result["cases"], result["bounds"]
    if not cases:
        return []
    out = [
        _entry(kind, "throughput", "median error of the throughput", 100 * _median(cases, "throughput_rel_error"), "%"),
        _entry(kind, "mean-delay", "median error of the mean delay", _median(cases, "qdelay_mean_error_ms"), "ms"),
        _entry(
            kind,
            "p95-delay",
            "median error of the 95th percentile of the delay",
            _median(cases, "qdelay_p95_error_ms"),
            "ms",
        ),
    ]
    what = (
        f"of {len(cases)} cases, those within {bounds['throughput_rel']:.0%} in throughput, and in delay within the "
        f"larger of {bounds['delay_rel']:.0%} and {bounds['delay_ms']:g} ms"
    )
    target = Target(at_least=len(cases))
    out.append(_entry(kind, "within", what, sum(case["within"] for case in cases), target=target))
    strict = "of these, those strictly within: median against median, no allowance for spread, none excused as chaotic"
    out.append(_entry(kind, "strict", strict, sum(not case["strict_misses"] for case in cases), target=target))
    chaotic = "of these, chaotic and judged on throughput alone"
    out.append(_entry(kind, "chaotic", chaotic, sum(case["chaotic"] for case in cases)))
    if policies := [case["policy"] for case in cases if "policy" in case]:
        gap = 100 * max(policy["reward_gap"] for policy in policies)
        out.append(_entry(kind, "reward", "ACCT: largest gap in reward of a case", gap, "%", Target(at_most=10)))
        what = f"ACCT: of {len(policies)} cases, those whose reward and mean delay are within"
        within = sum(policy["within"] for policy in policies)
        out.append(_entry(kind, "policies-within", what, within, target=Target(at_least=len(policies))))
    out = [Entry(**{**vars(one), "source": source, "table": TITLES[kind]}) for one in out]
    return out + (_by_class(kind, cases, source) if kind != "live" else [])


def _by_class(kind: str, cases: Sequence[Case], source: Source) -> list[Entry]:
    """Returns the same for each class of recorded cases."""
    classes: dict[str, list[Case]] = {}
    for case in cases:
        classes.setdefault(_class(case), []).append(case)
    out = []
    for name, of in sorted(classes.items()):
        within, chaotic = (sum(case[key] for case in of) for key in ("within", "chaotic"))
        rate, mean, p95 = (
            _median(of, key) for key in ("throughput_rel_error", "qdelay_mean_error_ms", "qdelay_p95_error_ms")
        )
        columns = {
            "within": f"{within} of {len(of)}",
            "chaotic": str(chaotic),
            "median error of throughput": f"{100 * rate:.1f} %",
            "of mean delay": f"{mean:.1f} ms",
            "of p95 delay": f"{p95:.0f} ms",
        }
        for column, text in columns.items():
            key = f"fidelity/{kind}/{name}/{column}".replace(" ", "-")
            table = f"{TITLES[kind]}, by kind of case"
            out.append(Entry(key, "fidelity", name, text, source, table=table, case=column))
    return out


def _class(case: Case) -> str:
    """Returns the kind of link and buffer, and the scheme."""
    schemes = case["cc"] if isinstance(case["cc"], list) else [case["cc"]]
    if len(schemes) > 1:
        return "two flows"
    if case.get("loss"):
        return f"random loss, {schemes[0]}"
    if case["queue"] not in ("droptail", "infinite"):
        return f"{case['queue']}, {schemes[0]}"
    packets = re.search(r"packets=(\d+)", case.get("queue_args") or "")
    depth = "shallow" if packets and int(packets.group(1)) <= SHALLOW_PACKETS else "deep"
    link = "constant" if re.fullmatch(r"\d+mbps", case["up"]) else "cellular"
    return f"{link}, {depth} buffer, {schemes[0]}"


def _entry(kind: str, name: str, what: str, value: float, unit: str = "", target: Target | None = None) -> Entry:
    return Entry(f"fidelity/{kind}/{name}", "fidelity", what, value, Source("", "", ""), unit, target)


def _median(cases: Sequence[Case], key: str) -> float:
    return float(np.median([case[key] for case in cases]))
