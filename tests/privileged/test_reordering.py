"""Kernel TCP and QUIC over an emulated link that reorders: what they repeat and undo, beside the simulator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: reordering is not compared (run make)")

from ccarena.scenarios import backends


def document(scheme: str, late_ms: float) -> dict[str, Any]:
    """One packet in fifty comes late; the receiver's window is 1.5 times the link's product: nothing is lost."""
    link = {
        "service": {"type": "constant", "rate_mbps": 20},
        "queue": {"type": "droptail", "packets": 500},
        "delay_ms": 20,
        "reorder": {"probability": 0.02, "late_ms": late_ms},
    }
    return {"duration_s": 3, "links": [link], "flows": [{"scheme": scheme, "receive_window_packets": 100}]}


# A quarter of the least RTT is 10 ms: RACK's first window waits for the first case and has to grow for the others.
CASES = {scheme_and_ms: document(*scheme_and_ms) for scheme_and_ms in (("cubic", 6), ("cubic", 30), ("reno", 15))}


def test_kernel_tcp_answers_reordering_as_it_is_simulated(kernel: str) -> None:
    # Runs of one flow each, at once: the kernel counts undone recoveries by namespace.
    with ThreadPoolExecutor(len(CASES)) as at_once:
        runs = at_once.map(lambda case: backends.timely(lambda: backends.execute(case, "kernel")), CASES.values())
    for (scheme, late_ms), (real, late) in zip(CASES, runs, strict=True):
        if real is None:
            pytest.skip(f"SKIPPED, reordering is not compared: the emulator was late by {late} ms, the machine is busy")
        (simulated,) = backends.simulate(document(scheme, late_ms))["flows"]
        (found,) = real["flows"]
        assert found["delivered_bytes"] == pytest.approx(simulated["delivered_bytes"], rel=0.05), (scheme, late_ms)
        assert found["reordered"] == pytest.approx(simulated["reordered"], rel=0.1, abs=5), (scheme, late_ms)
        for count in ("retransmitted_packets", "spurious_retransmits", "duplicate_packets", "undone_recoveries"):
            may_differ = 1 if late_ms < 10 else 5
            assert found[count] == pytest.approx(simulated[count], abs=may_differ), (scheme, late_ms, count)
            assert found[count] > 0 and simulated[count] > 0, (scheme, late_ms, count)
        assert found["timeouts"] == simulated["timeouts"] == 0, (scheme, late_ms)


def test_quic_undoes_what_it_took_for_lost_and_counts_no_more(quic: str) -> None:
    real, late = backends.timely(lambda: backends.execute(document("cubic", 15), "quic"))
    if real is None:
        pytest.skip(f"SKIPPED, reordering is not tried: the emulator was late by {late} ms, the machine is busy")
    (found,) = real["flows"]
    assert found["undone_recoveries"] > 0
    assert found["reordered"] is None and found["spurious_retransmits"] is None
