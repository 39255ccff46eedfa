"""docs/environment.md: its generated part is the code's, and each environment has its section."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: docs/environment.md not tested (make)")

from ccarena.envs.rewards import built_in
from docs.generate import environments as docs

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"


def test_the_reference_is_what_the_environments_say() -> None:
    assert PAGE.read_text("utf-8").endswith(docs.markdown()), "docs/environment.md is stale: run `make docs`"


def test_every_environment_has_its_actions_observation_and_reward() -> None:
    assert docs.shipped()
    for name in docs.shipped():
        section = docs.markdown().partition(f"### `{name}`")[2].partition("\n### ")[0]
        env = gymnasium.make(name)
        kind = "Discrete" if isinstance(env.action_space, gymnasium.spaces.Discrete) else "Box"
        assert f"| an action | `{kind}(" in section
        assert f"Observation, {env.observation_space.shape[0]} numbers:" in section
        assert any(f"| reward | `{reward}` with " in section for reward in built_in())
        env.close()
