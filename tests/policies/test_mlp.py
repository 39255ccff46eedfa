"""Artifacts with continuous actions: saved, loaded, and every fault refused by name, in Python and in Rust alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.errors import PolicyError
from ccarena.hyvar.spec import AURORA, HYBRID, LAYOUTS, Layout
from ccarena.policies import tensorfile
from ccarena.policies.artifact import load
from ccarena.policies.mlp import MlpArtifact, expected_shapes, normalisation

core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: inference not compared (run make)")


def make(layout: Layout = HYBRID, hidden: tuple[int, ...] = (12, 7), output: str = "tanh") -> MlpArtifact:
    rng = np.random.default_rng(5)
    tensors = {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in expected_shapes(layout, hidden).items()}
    tensors |= {f"normalisation.{name}": value for name, value in normalisation(layout).items()}
    return MlpArtifact(tensors, layout.id, hidden, output, {"env": {"hyvar": {"alpha": 1.5}}}, 3, {"python": "3"}, {})


@pytest.mark.parametrize("layout", [HYBRID, AURORA], ids=lambda layout: layout.id)
@pytest.mark.parametrize("output", ["tanh", "linear"])
@pytest.mark.parametrize("hidden", [(9,), (12, 7), (32, 16, 8)], ids=str)
def test_rust_acts_as_numpy(layout: Layout, output: str, hidden: tuple[int, ...], tmp_path: Path) -> None:
    artifact = make(layout, hidden, output)
    path = tmp_path / "policy.safetensors"
    artifact.save(path)
    again = load(path)
    assert isinstance(again, MlpArtifact) and again.training == artifact.training and again.seed == 3
    observations = np.random.default_rng(1).normal(1, 3, (2000, layout.observation_size)).astype(np.float32)
    expected = again.act(observations)
    indices, actions = core.Policy(str(path)).act(observations)
    assert actions.shape == (2000, 1) and not np.asarray(indices).any()
    np.testing.assert_allclose(actions[:, 0], expected, atol=1e-4)
    assert expected.min() >= layout.bounds[0] and expected.max() <= layout.bounds[1] and expected.std() > 0.01


def test_the_normalisation_covers_every_entry() -> None:
    for layout in LAYOUTS.values():
        for values in normalisation(layout).values():
            assert values.shape == (layout.observation_size,) and values.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": {"kind": "acct-conv"}}, "mlp"),
        ({"architecture": {"kind": "mlp", "hidden": [], "output": "tanh"}}, "hidden"),
        ({"architecture": {"kind": "mlp", "hidden": [0], "output": "tanh"}}, "hidden"),
        ({"architecture": {"kind": "mlp", "hidden": [4] * 9, "output": "tanh"}}, "hidden"),
        ({"architecture": {"kind": "mlp", "hidden": [12, 7], "output": "relu"}}, "output"),
        ({"architecture": {"kind": "mlp", "hidden": [12, 8], "output": "tanh"}}, "shape"),
        ({"architecture": {"kind": "mlp", "hidden": [12, 7, 3], "output": "tanh"}}, "missing"),
        ({"actions": [-1, 1]}, "actions"),
        ({"observation": "aurora-1"}, "actions"),
        ({"observation": "hyvar-9"}, '"hyvar-9"'),
    ],
)
def test_faults_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    make().save(path)
    tensors, metadata = tensorfile.read(path)
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in change.items()}
    tensorfile.write(path, tensors, metadata | given)
    for reader in (load, lambda p: core.Policy(str(p))):
        with pytest.raises(PolicyError, match=message):
            reader(path)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    artifact = make()
    artifact.tensors["actor.1.bias"][2] = np.nan
    with pytest.raises(PolicyError, match=r"actor\.1\.bias"):
        artifact.save(tmp_path / "policy.safetensors")


def test_it_decides_for_flows_of_its_schemes_alone(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    make().save(path)
    document: dict[str, Any] = {
        "duration_s": 2,
        "links": [{"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}],
        "flows": [{"scheme": scheme, "policy": str(path), "base_rtt_ms": 20} for scheme in ("hyvar", "orca")],
        "record": {"reports": True},
    }
    for flow in core.simulate(json.dumps(document))["flows"]:
        reports = np.asarray(flow["reports"])
        assert len(reports) > 10 and reports[:, HYBRID.report.action].std() > 0
    document["flows"][0]["scheme"] = "aurora"
    with pytest.raises(PolicyError, match='observes "hyvar-1"; the scheme gives "aurora-1"'):
        core.simulate(json.dumps(document))
