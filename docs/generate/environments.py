"""The reference of the registered environments in docs/environment.md: the text of their docstrings."""

from __future__ import annotations

from ccarena.configs import load_config
from ccarena.core.learned_schemes import learned_schemes
from ccarena.envs import described
from ccarena.envs.kernel import LearnedKernelEnv
from ccarena.envs.learned import LearnedEnv

__all__ = ["GENERATED", "markdown"]

GENERATED = "<!-- Generated from specs, rewards and docstrings by `make docs`; edit them. -->"
COMMON = ("Starting State", "Episode End", "Arguments")


def markdown() -> str:
    """Returns a section per environment, and what they share, as Markdown, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## What does each environment observe, and what are its actions and rewards?"]
    lines += ["", "`help(gymnasium.make(ID).unwrapped)` shows the same text."]
    for scheme in learned_schemes().values():
        lines += ["", f"### `ccarena/{scheme.environment}-v0`", "", _titled(described.parts(load_config(scheme.name)))]
    lines += ["", "## When does an episode start and end, and which arguments are there?"]
    for name, env in (("In the simulator", LearnedEnv), ("On Linux TCP", LearnedKernelEnv)):
        found = described.sections(env.__doc__ or "")
        lines += ["", f"### {name}", "", _titled({title: found[title] for title in COMMON})]
    return "\n".join(lines) + "\n"


def _titled(parts: dict[str, str]) -> str:
    return "\n\n".join(f"**{title}**\n\n{text}" for title, text in parts.items())
