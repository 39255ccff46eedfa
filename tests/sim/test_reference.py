"""The simulator against kernel TCP over real mahimahi: what `ccarena fidelity` finds on the reference.

The reference (`cases.json`, see docs/fidelity.md) is not part of the repository: `CCARENA_REFERENCE_DIR` names its
folder, else `../shared/reference` beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the simulator was not compared (run make)")

from ccarena.eval.fidelity import cases as recorded_cases
from ccarena.eval.fidelity import recorded

HERE = Path(__file__).resolve()
REFERENCE = Path(os.environ.get("CCARENA_REFERENCE_DIR", HERE.parents[3] / "shared" / "reference")) / "cases.json"

# Cases beyond the bounds, by name, with how far they may be beyond them (multiples of the bound).
MISSES: dict[str, float] = {
    # The same kernel over another emulator with mahimahi's rules: a mean of 44 ms (mahimahi 29, simulated 37), and of
    # 88 to 95 ms (mahimahi 75, simulated 93). What the shells' host does decides here.
    "12mbps 20 ms droptail(200) bbr": 2.0,
    "TMobile-LTE-driving.down 20 ms droptail(100) reno": 2.0,
    # The 95th percentile of the queueing delay alone: 237 ms in the one recorded run, 299 ms in the median of the
    # simulated ones. The mean is within its bound: 105 and 115 ms.
    "Verizon-LTE-short.up 20 ms droptail(100) cubic": 2.0,
    # One run under random loss is one draw, which differs from the median of the draws.
    "24mbps 20 ms droptail(80) cubic loss 0.001": 3.0,
    "24mbps 20 ms droptail(80) reno loss 0.001": 1.5,
}


def _load() -> list[recorded_cases.Case]:
    return recorded_cases.load(REFERENCE) if REFERENCE.is_file() else []


CASES = _load()


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    if not CASES:
        pytest.skip(f"NO REFERENCE: {REFERENCE} is missing; set CCARENA_REFERENCE_DIR")
    return recorded.fidelity(CASES)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.name for case in CASES])
def test_case(index: int, result: dict[str, Any]) -> None:
    case = result["cases"][index]
    error = {
        "throughput_mbps": case["throughput_rel_error"] / recorded.THROUGHPUT_REL,
        "mean": case["qdelay_mean_error_ms"] / case["bounds"]["mean"],
        "p95": case["qdelay_p95_error_ms"] / case["bounds"]["p95"],
    }
    judged = ["throughput_mbps"] if case["chaotic"] else list(error)
    assert max(error[key] for key in judged) <= MISSES.get(case["name"], 1.0), (case["measured"], case["simulated"])


def test_the_target_over_all_cases(result: dict[str, Any]) -> None:
    assert result["throughput_rel_error_median"] <= 0.02
    assert result["within_fraction"] >= 0.9


def test_most_cases_are_judged_on_delay(result: dict[str, Any]) -> None:
    """The rule for chaotic cases must not excuse everything."""
    chaotic = [case["name"] for case in result["cases"] if case["chaotic"]]
    assert len(chaotic) <= len(CASES) // 3, chaotic


def test_flows_share_as_in_the_kernel(result: dict[str, Any]) -> None:
    for case in result["cases"]:
        if isinstance(case["cc"], list):
            kernel, ours = (
                [rate for _, rate in flows] for flows in (case["result"]["flows"], case["simulated"]["flows"])
            )
            assert abs(ours[0] / sum(ours) - kernel[0] / sum(kernel)) < 0.10, (kernel, ours)
