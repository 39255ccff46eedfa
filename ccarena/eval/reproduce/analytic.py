"""Rows of suites that need no packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ccarena.eval.theory import fairness

__all__ = ["objectives"]


def objectives(
    objective: str, capacity_mbps: float, requirements: Sequence[Sequence[float]], **_: Any
) -> dict[str, Any]:
    """Returns the rates of one bandwidth-sharing objective for flows with `requirements` [[min, max], ...] (Mbit/s) on
    one link.

    `equal` is Hercules' "MMF": every flow gets the largest rate that all can have, and no more.
    """
    wanted = [(float(low), float(high)) for low, high in requirements]
    most = [high for _, high in wanted]
    rates = {
        "equal": lambda: [min(capacity_mbps / len(wanted), *most)] * len(wanted),
        "max-min": lambda: fairness.max_min_rates(capacity_mbps, most),
        "hrf": lambda: fairness.hrf_rates(capacity_mbps, wanted),
    }[objective]()
    flows = [
        {"name": f"{low:g} to {high:g}", "throughput_mbps": rate, "satisfaction_throughput": rate / low}
        for rate, (low, high) in zip(rates, wanted, strict=True)
    ]
    return {"run": {"total_mbps": sum(rates)}, "flows": flows}
