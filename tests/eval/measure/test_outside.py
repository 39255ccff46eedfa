"""Observations outside of what a policy saw in training: counted by the run, told by command and page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: results are not tested (run make)")

import ccarena
from ccarena import cli
from ccarena.agents.observed import observed_range
from ccarena.configs import load_config
from ccarena.errors import PolicyError
from ccarena.eval.measure.outside import outside_notes
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.spec import spec_of
from ccarena.scenarios.backends import simulate
from tests.policies.made import DOCUMENT, constant

SPEC = {**DOCUMENT, "observe": {"history": 2, "signals": ["throughput_mbps", "rtt_ms"]}}


@pytest.fixture(scope="module")
def policy() -> Artifact:
    config = load_config({"spec": SPEC, "threads": 2})
    made = Artifact.of(constant(spec_of(config).interface, 20.0), spec_of(config).interface)
    return replace(made, observed=observed_range(config, made))


def document(file: Path, rate_mbps: float = 24.0, delay_ms: float = 10.0) -> dict[str, Any]:
    link = {"service": {"type": "constant", "rate_mbps": rate_mbps}, "delay_ms": delay_ms}
    flow = {"scheme": SPEC, "policy": str(file)}
    return {"duration_s": 3, "links": [{**link, "queue": {"type": "droptail", "packets": 100}}], "flows": [flow]}


def test_links_of_the_training_are_inside_and_others_are_not(policy: Artifact, tmp_path: Path) -> None:
    file = tmp_path / "policy.safetensors"
    policy.save(file)
    assert load(file).observed == policy.observed
    inside = simulate(document(file))["flows"][0]["observations_outside"]
    far = simulate(document(file, rate_mbps=100.0, delay_ms=1.0))["flows"][0]["observations_outside"]
    assert 0 <= inside < 0.05 < far <= 1


def test_a_policy_that_does_not_say_what_it_saw_has_no_share(policy: Artifact, tmp_path: Path) -> None:
    old = tmp_path / "old.safetensors"
    replace(policy, observed={}).save(old)
    assert load(old).observed == {}
    assert simulate(document(old))["flows"][0]["observations_outside"] is None
    constant = {**document(old), "flows": [{"scheme": SPEC, "policy": {"constant": 20.0}}]}
    assert simulate(constant)["flows"][0]["observations_outside"] is None


def test_a_narrow_range_is_told_by_the_command_and_its_page(
    policy: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    middle = [float(np.mean(each)) for each in zip(*policy.observed.values(), strict=True)]
    narrow = {"low": middle, "high": middle}
    file, scenario = tmp_path / "policy.safetensors", tmp_path / "scenario.json"
    replace(policy, observed=narrow).save(file)
    scenario.write_text(ccarena.scenarios.scenario.scenario_json(document(file)), encoding="utf-8")
    out = tmp_path / "out"
    assert cli.main(["eval", "--scenario", str(scenario), "--out", str(out)]) == 0
    warning = "decisions rest on observations outside of the range that it saw in training"
    assert warning in capsys.readouterr().out.replace("\n", " ")
    assert warning in (out / "page.html").read_text(encoding="utf-8")
    assert "observations_outside" in (out / "flows.csv").read_text(encoding="utf-8").splitlines()[0]


def test_shares_are_averaged_over_runs_and_unknown_ones_are_left_out() -> None:
    notes = outside_notes([("a", 0.2), ("a", 0.4), ("b", 0.01), ("c", None), ("d", 0.05)])
    assert [note.split(" of the policy's")[0] for note in notes] == ["a: 30%", "d: 5%"]


def test_a_range_of_another_length_is_refused(policy: Artifact) -> None:
    with pytest.raises(PolicyError, match=r"observed.*expected a JSON object with `low` and `high`"):
        replace(policy, observed={"low": [0.0], "high": [1.0]}).encode()
