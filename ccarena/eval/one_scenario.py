"""One scenario file: run it and show a row of figures per flow (`ccarena eval --scenario`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import backends
from ccarena.backends import SIM
from ccarena.errors import ScenarioError
from ccarena.eval import metrics
from ccarena.eval.figure_text import heading, show
from ccarena.eval.theory import fairness
from ccarena.plain_data import plain
from ccarena.scenario import give_policy, read_scenario
from ccarena.terminal import print_table

__all__ = ["run_scenario", "show_scenario"]

COLUMNS = (
    "throughput_mbps",
    "goodput_mbps",
    "utilisation",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "signal_delay_p95_ms",
    "loss_share",
)


def run_scenario(document: Mapping[str, Any], budget_ms: float = 5.0, backend: str = SIM) -> list[dict[str, Any]]:
    """Run one scenario and return a row per flow: its name, scheme, and the figures on the first link of its path."""
    record = document.get("record")
    # A record section of the wrong type is left as it is, for the validation to refuse by its path.
    recorded = (
        {**document, "record": {**(record or {}), "packets": True}} if isinstance(record or {}, dict) else document
    )
    result = backends.execute(recorded, backend)
    names = [link["name"] for link in result["links"]]
    given = list(_flow_documents(document))
    rows = []
    for index, flow in enumerate(result["flows"]):
        path = given[index].get("path") if index < len(given) else None
        link = names.index(path[0]) if path and path[0] in names else 0
        source = document["links"][link]
        figures = metrics.summarise(
            result, flow=index, link=link, delay_ms=float(source.get("delay_ms", 0.0)), budget_ms=budget_ms
        )
        row = {"flow": flow["name"], "scheme": flow["scheme"], "link": names[link], **figures}
        row |= {**backends.about(backend), **backends.validity(result)} if backend != SIM else {}
        requirement = given[index].get("requirement") if index < len(given) else None
        if requirement:
            row["satisfaction"] = metrics.satisfaction(figures["goodput_mbps"], float(requirement["min_mbps"]))
        rows.append(row)
    if len(rows) > 1:
        across = _distances(result, given, [row["throughput_mbps"] for row in rows])
        rows = [{**row, **across} for row in rows]
    return rows


def _distances(
    result: Mapping[str, Any], flows: Sequence[Mapping[str, Any]], rates_mbps: Sequence[float]
) -> dict[str, float]:
    """How far the flows' rates are from the fair ones on the links' mean capacities, applications' rates as demands."""
    capacity = {link["name"]: float(np.mean(link["capacity_mbps"])) for link in result["links"]}
    if not all(mbps > 0 for mbps in capacity.values()):
        return {}
    paths = [flow.get("path") or list(capacity) for flow in flows]
    demands = [(flow.get("app") or {}).get("rate_mbps") for flow in flows]
    distances = {"max_min_distance": fairness.max_min_distance(rates_mbps, capacity, demands, paths)}
    given = [flow.get("requirement") for flow in flows]
    if any(given):
        requirements = [(r["min_mbps"], r["max_mbps"]) if r else None for r in given]
        distances["hrf_distance"] = fairness.hrf_distance(rates_mbps, capacity, requirements, paths, demands=demands)
    return distances


def _flow_documents(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """A scenario's flow entries, each as often as its `count` says: aligned with the result's flows."""
    for flow in document.get("flows") or []:
        yield from [flow] * int(flow.get("count") or 1)


def show_scenario(path: Path, policy: Path | None, as_json: bool, backend: str) -> None:
    """Run the scenario in the file `path`, `policy` deciding for ACCT's flows that have none, and print its rows."""
    document = give_policy(read_scenario(path), policy)
    try:
        rows = run_scenario(document, backend=backend)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    if as_json:
        print(json.dumps(plain(rows), indent=1))
        return
    head = ["flow", "scheme", "link"]
    figures = [*COLUMNS, *(["satisfaction"] if any("satisfaction" in row for row in rows) else [])]
    cells = [[str(row[key]) for key in head] + [show(name, row.get(name)) for name in figures] for row in rows]
    if not rows[0].get("valid", True):
        late_ms = rows[0]["lateness_p99_ms"]
        print(f"INVALID RUN: the emulator was {late_ms:.2f} ms late (p99); run it again on a quieter machine")
    print_table(str(path), head + [heading(name) for name in figures], cells, left=3)
    if len(rows) > 1:
        jain = metrics.jain_index([row["goodput_mbps"] for row in rows])
        print(f"Jain's index of the goodputs: {jain:.4f}")
        for name in ("max_min_distance", "hrf_distance"):
            if name in rows[0]:
                print(f"{heading(name)}: {show(name, rows[0][name])}")
