"""A signal means the same in every backend: the whole registry, measured side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: signals are not tested (run make)")

from ccarena.configs import load_config
from ccarena.errors import PolicyError, ScenarioError
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.spec import spec_of
from tests.policies.made import DOCUMENT, constant
from tests.privileged.signals import BACKENDS, BOUNDS, FLOWS, SIGNALS, bounds_of, execute, measure

pytestmark = pytest.mark.usefixtures("kernel", "quic")


def test_every_signal_has_a_bound() -> None:
    assert set(BOUNDS) == set(SIGNALS), "a new signal needs a bound, and a signal that is gone none"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    return measure("sim", tmp_path_factory.mktemp("sim"))


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_signal_means_the_same(backend: str, simulated: dict[str, dict[str, float]], tmp_path: Path) -> None:
    measured, wrong = measure(backend, tmp_path), []
    assert set(measured) == set(FLOWS)
    for name, flow in measured.items():
        for (column, value), bound in zip(flow.items(), bounds_of(name, backend), strict=True):
            expected = simulated[name][column]
            if not bound.holds(value, expected, FLOWS[name].times):
                wrong.append(f"{name}: {column} is {value:.4g}; {expected:.4g} in the simulator, {bound}")
    assert not wrong, "\n".join(wrong)


def by_send_ratio(file: Path) -> None:
    """A policy for Aurora's spec: the rate rises until a few packets more are sent than acknowledged."""
    spec = spec_of(load_config("aurora"))
    weight = np.zeros((1, spec.size), np.float32)
    weight[0, spec.signals["send_ratio"]] = -5.0
    node = Node("action", "linear", (OBSERVATION,), {"weight": "weight", "bias": "bias"})
    tensors = {"weight": weight, "bias": np.full(1, 2.0, np.float32)}
    Artifact.of(Graph(spec.size, (node,), "action", tensors), spec.interface).save(file)


@pytest.mark.parametrize("backend", ["sim", "quic", "bridge"])
def test_a_policy_that_sees_what_it_sends_does_not_overload_the_link(backend: str, tmp_path: Path) -> None:
    by_send_ratio(tmp_path / "policy.safetensors")
    link = {
        "service": {"type": "constant", "rate_mbps": 24},
        "queue": {"type": "droptail", "packets": 80},
        "delay_ms": 20,
    }
    flow = {"scheme": "aurora", "policy": str(tmp_path / "policy.safetensors")}
    found = execute({"duration_s": 6, "links": [link], "flows": [flow]}, backend)["flows"][0]
    assert found["delivered_bytes"] * 8e-6 / 6 > 10
    assert found["lost_packets"] < 0.1 * found["sent_packets"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_observations_outside_of_the_training_are_counted(backend: str, tmp_path: Path) -> None:
    spec = {**DOCUMENT, "clock": {"kind": "fixed", "period_ms": 20}, "base": "cubic"}
    spec |= {"act": {"kind": "window_exp2", "bounds": [-2, 2]}, "observe": {"signals": ["throughput_mbps"]}}
    interface = spec_of(load_config({"spec": spec})).interface
    flows = []
    for name, least_mbps in {"seen": 0.0, "unseen": 200.0}.items():
        observed = {"low": [least_mbps], "high": [300.0]}
        replace(Artifact.of(constant(interface, 0.0), interface), observed=observed).save(tmp_path / name)
        flows.append({"scheme": spec, "policy": str(tmp_path / name)})
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10}
    result = execute({"duration_s": 1.5, "links": [link], "flows": flows}, backend)
    assert [flow["observations_outside"] for flow in result["flows"]] == [0.0, 1.0]


def refused(document: dict[str, Any], backend: str, file: Path) -> str:
    """Returns the reason for which `backend` refuses a flow of this scheme."""
    config = spec_of(load_config({"spec": document}))
    Artifact.of(constant(config.interface, 20.0), config.interface).save(file)
    flow = {"scheme": document, "policy": str(file)}
    scenario = {"duration_s": 1, "links": [{"service": {"type": "constant", "rate_mbps": 24}}], "flows": [flow]}
    with pytest.raises((ScenarioError, PolicyError)) as error:
        execute(scenario, backend)
    return str(error.value)


@pytest.mark.parametrize(
    ("backend", "signal", "instead"),
    [
        ("bridge", "ack_dispersion", "the simulator, or on QUIC"),
        ("kernel", "ack_dispersion", "the simulator, or on QUIC"),
    ],
)
def test_what_a_backend_does_not_measure_is_refused(backend: str, signal: str, instead: str, tmp_path: Path) -> None:
    document = {
        **DOCUMENT,
        "clock": {"kind": "fixed", "period_ms": 20},
        "base": "acct",
        "observe": {"signals": [signal]},
    }
    error = refused(document, backend, tmp_path / "policy.safetensors")
    assert f'signal "{signal}" is not measured by kernel TCP with the' in error and instead in error
