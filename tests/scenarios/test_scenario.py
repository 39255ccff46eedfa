"""Scenario files."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: scenarios not tested (run make)")

import ccarena
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import ScenarioError
from ccarena.policies import artifact
from ccarena.scenarios.scenario import read_scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"links: [", r"one\.yaml, line \d, column \d: not valid YAML"),
        (
            b"links:\n\t- a: 1\n",
            r"one\.yaml, line 2, column 1: not valid YAML: a tab indents the line; indent with spaces",
        ),
        (b"", r"found nothing"),
        (b"- 1\n", r"found list"),
        (b"\xff\xfe\x00", r"line 1: not a text file"),
    ],
)
def test_a_broken_scenario_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_bytes(text)
    with pytest.raises(ScenarioError, match=message):
        read_scenario(path)
    with pytest.raises(ScenarioError, match=r'cannot read the scenario: No such file .*; did you mean "one\.yaml"\?'):
        read_scenario(tmp_path / "on.yaml")
    with pytest.raises(ScenarioError, match=r"No such file .*; expected a scenario in YAML \(docs/scenario\.md\)"):
        read_scenario(tmp_path / "nowhere" / "absent.yaml")


@pytest.mark.parametrize("name", ["hyvar", "hyvar-packets"])
@pytest.mark.parametrize("integer", [False, True])
def test_a_policy_brings_the_parameters_that_it_was_trained_with(name: str, integer: bool) -> None:
    link = {"service": {"type": "random_steps", "min_mbps": 2, "max_mbps": 20, "period_s": 1}, "delay_ms": 20}

    def reached(**fields: object) -> float:
        flow = {"scheme": "hyvar", "policy": {"integer": name} if integer else name, **fields}
        run = ccarena.run({"duration_s": 10, "links": [link], "flows": [flow]})
        return float(run.flows()["rtt_mean_ms"].item())

    trained = dict(artifact.load(shipped_policies()[name]).params)
    assert reached() == reached(params=trained)
    assert reached() != reached(params={"alpha": 2.0}) == reached(params={**trained, "alpha": 2.0})
