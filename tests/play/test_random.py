"""Scenarios drawn at random, all schemes and all shipped policies: equal digests natively and in a page."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from ccarena import _core
from ccarena.core.learned_schemes import shipped_policies
from ccarena.policies import artifact
from ccarena.policies.trained_by import scheme_of
from tests.play import random_scenarios

if TYPE_CHECKING:
    from tests.play.conftest import Engine


def assert_equal(engine: Engine, cases: dict[str, tuple[dict[str, Any], dict[str, bytes]]]) -> None:
    """Asserts that each scenario, with its files, has the same digest natively and in a page."""
    asked = [
        {
            "scenario": json.dumps(document),
            "files": {name: base64.b64encode(contents).decode() for name, contents in files.items()},
        }
        for document, files in cases.values()
    ]
    found = {
        name: answer.get("digest", answer.get("message")) for name, answer in zip(cases, engine(asked), strict=True)
    }
    natively = {name: _core.result_digest(json.dumps(document)) for name, (document, _) in cases.items()}
    assert found == natively


def test_schemes(engine: Engine) -> None:
    assert_equal(engine, {name: (random_scenarios.of_scheme(name), {}) for name in random_scenarios.SCHEMES})


def test_shipped_policies(engine: Engine) -> None:
    cases = {}
    for name, file in shipped_policies().items():
        scheme = scheme_of(artifact.load(file))
        for kind, policy in (("", str(file)), (" in integers", {"integer": str(file)})):
            document = random_scenarios.on_varying_link({"scheme": scheme, "policy": policy})
            cases[name + kind] = (document, {str(file): file.read_bytes()})
    assert len(cases) >= 10
    assert_equal(engine, cases)


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(1000, 7000), marks=pytest.mark.slow)])
def test_scenarios(engine: Engine, seeds: range) -> None:
    assert_equal(engine, {str(seed): (random_scenarios.scenario(seed), {}) for seed in seeds})
