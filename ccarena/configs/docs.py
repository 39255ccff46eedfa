"""The table of keys in docs/configuration.md: `python -m ccarena.configs.docs docs/configuration.md` rewrites it."""

from __future__ import annotations

import sys
from pathlib import Path

from ccarena.configs.keys import keys, plain

GENERATED = "<!-- Generated from ccarena/configs/schema.py by `make docs`; edit there. -->"


TITLES = {"a3c": "algorithm: a3c", "sb3": "algorithm: Stable-Baselines3", "own": "algorithm: your own"}
"""Of the sections of `algorithm`, by kind."""


def markdown() -> str:
    """The keys as Markdown tables, one per section, after the [`GENERATED`] mark."""
    lines, section = [GENERATED], None
    for key in keys():
        parent, _, name = key.path.rpartition(".")
        if (parent, key.kind) != section:
            section = parent, key.kind
            title = f"`{TITLES.get(key.kind, parent)}`" if parent else "The record"
            lines += ["", f"### {title}", "", "| key | default | meaning | takes |", "|---|---|---|---|"]
        # A bar would end the cell, even between backticks.
        cells = (f"`{name}`", f"`{plain(key.default)}`", " ".join(key.doc.split()), key.expected.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_reward_tables()]) + "\n"


def _reward_tables() -> list[str]:
    # Here, so that what says only how keys are called does without NumPy.
    from ccarena.envs.rewards import BUILT_IN, coefficients

    lines = ["", "### `reward`: built-in ones and their coefficients", "", "| reward | coefficient | default |"]
    lines.append("|---|---|---|")
    for reward in sorted(BUILT_IN):
        lines += [f"| `{reward}` | `{name}` | `{plain(p.default)}` |" for name, p in coefficients(reward).items()]
    return lines


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(page.read_text(encoding="utf-8").partition(GENERATED)[0] + markdown(), encoding="utf-8")
