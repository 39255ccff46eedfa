"""Guards of artifacts: actions held to a bound, and observations outside the box counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: guards are not tested (run make)")

from ccarena.configs import load_config
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.spec import spec_of
from ccarena.scenarios.backends import simulate
from tests.policies.made import DOCUMENT, constant

SPEC = {**DOCUMENT, "observe": {"history": 1, "signals": ["throughput_mbps", "rtt_ms"]}}


def policy(low: list[Any], high: list[Any], most: float = 30.0) -> Artifact:
    made = spec_of(load_config({"spec": SPEC})).interface
    guard = {"observation": {"low": low, "high": high}, "action": {"low": [1.0], "high": [most]}}
    return replace(Artifact.of(constant(made, 20.0), made), guard=guard)


def run(file: Path) -> dict[str, Any]:
    link = {"service": {"type": "constant", "rate_mbps": 24.0}, "delay_ms": 10.0}
    flow = {"scheme": SPEC, "policy": str(file)}
    queue = {"type": "droptail", "packets": 100}
    found = simulate({"duration_s": 2, "links": [{**link, "queue": queue}], "flows": [flow]})
    result: dict[str, Any] = found["flows"][0]
    return result


def test_trips_are_counted_and_a_policy_without_a_guard_has_no_count(tmp_path: Path) -> None:
    file = tmp_path / "policy.safetensors"
    for low, high, share in [([None, None], [None, None], 0.0), ([0, 1e6], [1, 2e6], 1.0)]:
        made = policy(low, high)
        made.save(file)
        assert load(file).guard == made.guard
        assert run(file)["guard_trips"] == share
    replace(made, guard={}).save(file)
    assert "guard_trips" not in run(file)


def test_a_run_takes_actions_within_the_bound(tmp_path: Path) -> None:
    delivered = []
    for most in (30.0, 2.0):
        file = tmp_path / f"{most}.safetensors"
        policy([None, None], [None, None], most).save(file)
        delivered.append(run(file)["delivered_bytes"])
    assert delivered[0] != delivered[1]


def test_a_guard_of_another_length_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"metadata `guard` is .*2 finite numbers or null"):
        policy([0.0], [1.0]).encode()
