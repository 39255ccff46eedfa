"""Schemes as bases, choices among schemes and several actions at once do on real-time backends what they simulate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: actions are not tested (run make)")

from ccarena.cc_kernel_bridge.policies import image
from ccarena.configs import load_config
from ccarena.errors import MachineError
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.spec import spec_of
from tests.privileged.signals import execute

pytestmark = pytest.mark.usefixtures("kernel", "quic")


def spec(act: Any, base: Any) -> dict[str, Any]:
    """A small spec that reports the scheme that runs."""
    return {
        "learned": 1,
        "name": "small",
        "clock": {"kind": "timer", "period_ms": 250},
        "observe": {"signals": ["rtt_ratio"]},
        "act": act,
        "base": base,
        "report": [{"signal": "last_action", "as": "running"}, "interval_ms"] if act == "choice" else ["interval_ms"],
    }


PAIR = [{"kind": "window_exp2", "bounds": [-1, 1]}, {"kind": "pacing_gain", "bounds": [0.8, 2]}]
FLOWS: dict[str, tuple[dict[str, Any], Any]] = {
    "a scheme as the base": (spec("window_exp2", {"scheme": "bbr"}), "none"),
    "a choice that changes with every decision": (
        spec("choice", {"schemes": ["cubic", "vegas"]}),
        {"by": "running", "actions": [1, 0]},
    ),
    "two actions": (spec(PAIR, {"scheme": "cubic"}), {"constant": [0, 1.2]}),
}


@pytest.mark.parametrize("backend", ["quic", "bridge"])
def test_flows_do_as_they_are_simulated(backend: str) -> None:
    """Side by side, each on a link of its own."""
    link = {
        "service": {"type": "constant", "rate_mbps": 24},
        "queue": {"type": "droptail", "packets": 80},
        "delay_ms": 15,
    }
    document = {
        "duration_s": 3,
        "links": [{"name": name, **link} for name in FLOWS],
        "flows": [
            {"name": name, "path": [name], "scheme": scheme, "policy": policy}
            for name, (scheme, policy) in FLOWS.items()
        ],
    }
    expected, found = (
        {flow["name"]: flow["delivered_bytes"] for flow in execute(document, each)["flows"]}
        for each in ("sim", backend)
    )
    assert set(found) == set(FLOWS) and found == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("act", "base", "refused"),
    [
        ("window_exp2", {"scheme": "cubic"}, 'base "scheme"'),
        ({"kind": "choice"}, {"schemes": ["cubic", "vegas"]}, 'actuator "choice"'),
        (
            [{"kind": "window_exp2", "levels": [-1, 1]}, {"kind": "cap", "levels": [1, 2]}],
            "cubic",
            'actuator "several"',
        ),
    ],
)
def test_the_kernel_refuses_what_it_does_not_run_by_name(act: Any, base: Any, refused: str, tmp_path: Path) -> None:
    document = {**spec(act, base), "clock": {"kind": "fixed", "period_ms": 20}, "report": ["interval_ms"]}
    interface = spec_of(load_config({"spec": document})).interface
    node = Node("action", "linear", (OBSERVATION,), {"weight": "weight"})
    weight = np.zeros((interface.outputs, interface.observation_len), np.float32)
    network = Graph(interface.observation_len, (node,), "action", {"weight": weight})
    Artifact.of(network, interface).save(tmp_path / "small.safetensors")
    with pytest.raises(MachineError, match=refused):
        image(str(tmp_path / "small.safetensors"), tmp_path / "small.image")
