"""docs/environment.md: its generated part is the code's, and each environment has its section."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path

import gymnasium
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: docs/environment.md not tested (make)")

from ccarena.configs import load_config
from ccarena.core.learned_schemes import LearnedScheme, learned_schemes
from ccarena.envs import described
from docs.generate import environments as docs

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"


def test_the_reference_is_what_the_environments_say() -> None:
    assert PAGE.read_text("utf-8").endswith(docs.markdown()), "docs/environment.md is stale: run `make docs`"


@pytest.mark.parametrize("scheme", learned_schemes().values(), ids=lambda scheme: scheme.name)
def test_every_environment_says_what_it_is(scheme: LearnedScheme) -> None:
    section = docs.markdown().partition(f"### `ccarena/{scheme.environment}-v0`")[2].partition("\n### ")[0]
    env = gymnasium.make(f"ccarena/{scheme.environment}-v0").unwrapped
    doc = env.__doc__ or ""
    sections = described.sections(doc)
    assert list(sections) == ["", *described.TITLES] and all(sections.values())
    kind = "Discrete" if isinstance(env.action_space, gymnasium.spaces.Discrete) else "Box"
    reward = load_config(scheme.name).reward.name
    for text in (doc, section):
        assert f"`{kind}(" in text and f"`Box` of {env.observation_space.shape[0]} numbers" in text
        assert f"`{reward}` with " in text
    numbers = [line.split("|")[2] for line in sections["Observation Space"].splitlines() if line.startswith("| `")]
    assert sum(map(int, numbers)) == env.observation_space.shape[0]
    arguments = inspect.signature(type(env).__init__).parameters.keys() - {"self"}
    assert {argument for argument in arguments if f"`{argument}`" not in sections["Arguments"]} == set()
    assert sections["Rewards"] in pydoc.render_doc(env, renderer=pydoc.plaintext).replace("\n |  ", "\n")
    env.close()


def test_all_three_kinds_of_a_scheme_are_described() -> None:
    for end in described.BASES:
        made = getattr(described, f"Hyvar{end}")
        assert made.__doc__.startswith("Hyvar") and getattr(described, f"Hyvar{end}") is made
    with pytest.raises(AttributeError, match="has no attribute 'NobodyEnv'"):
        _ = described.NobodyEnv
