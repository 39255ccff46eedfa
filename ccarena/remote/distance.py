"""Distance between measured runs and the simulator on a fitted link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ccarena.eval.measure.table import row
from ccarena.remote.fit import Fit, scenario_of
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.one_run import Run, perform

__all__ = ["FIGURES", "distances", "summary"]

FIGURES = ("throughput_mbps", "queueing_delay_mean_ms", "queueing_delay_p95_ms", "loss_share")
"""Figures of each flow that are compared."""


def distances(fitted: Fit, runs: Sequence[tuple[Run, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Simulates each run on the fitted link, and returns a row per flow and figure: `measured`, `simulated`.

    `runs` are measured runs, each with its document as given.
    """
    rows = []
    for number, (run, given) in enumerate(runs):
        simulated = perform({**scenario_of(fitted, given), "seed": run.seed}, SIM)
        pairs = zip(run.measured().flows, simulated.measured().flows, strict=False)  # competitors come last
        for measured, ours in pairs:
            assert measured.flow is not None
            flow = run.result["flows"][measured.flow]
            here, there = row(measured, FIGURES), row(ours, FIGURES)
            about = {"run": number, "seed": run.seed, "flow": flow["name"], "scheme": flow["scheme"]}
            rows += [
                {**about, "figure": figure, "measured": here[figure], "simulated": there[figure]} for figure in FIGURES
            ]
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns how far the simulator is: the median over runs and flows of each figure's difference."""
    lines = []
    for figure in FIGURES:
        mine = [each for each in rows if each["figure"] == figure]
        known = [each for each in mine if math.isfinite(each["measured"]) and math.isfinite(each["simulated"])]
        if not known:
            continue
        if figure == "throughput_mbps":
            gaps = [abs(each["simulated"] / each["measured"] - 1) for each in known if each["measured"]]
            lines += [f"throughput: {median(gaps):.1%} apart in the median"] if gaps else []
        elif figure == "loss_share":
            gaps = [abs(each["simulated"] - each["measured"]) for each in known]
            lines.append(f"loss: {100 * median(gaps):.2f} percentage points apart in the median")
        else:
            gaps = [abs(each["simulated"] - each["measured"]) for each in known]
            what = figure.removesuffix("_ms").replace("_", " ")
            lines.append(f"{what}: {median(gaps):.1f} ms apart in the median")
    return lines
