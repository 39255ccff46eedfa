"""The table of keys in docs/configuration.md."""

from __future__ import annotations

from ccarena.configs.keys import TITLES, keys, plain
from ccarena.envs import objectives, rewards

GENERATED = "<!-- Generated from ccarena/configs/schema.py by `make docs`; edit there. -->"


def markdown() -> str:
    """The keys as Markdown tables, one per section, after the [`GENERATED`] mark."""
    lines, section = [GENERATED], None
    for key in keys():
        parent, _, name = key.path.rpartition(".")
        if (parent, key.kind) != section:
            section = parent, key.kind
            title = f"`{TITLES.get(key.kind, parent)}`" if parent else "Top level"
            lines += ["", f"### {title}", "", "| key | default | meaning | takes |", "|---|---|---|---|"]
        # A bar would end the cell, even between backticks.
        cells = (f"`{name}`", f"`{plain(key.default)}`", " ".join(key.doc.split()), key.expected.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_reward_tables()]) + "\n"


def _reward_tables() -> list[str]:
    lines = []
    for key, module, known in (("reward", rewards, rewards.built_in()), ("objective", objectives, objectives.BUILT_IN)):
        lines += [
            "",
            f"### `{key}`: built-in functions and their coefficients",
            "",
            f"| {key} | coefficient | default |",
        ]
        lines.append("|---|---|---|")
        for name in sorted(known):
            found = module.coefficients(name)
            lines += [f"| `{name}` | `{each}` | `{plain(p.default)}` |" for each, p in found.items()]
            lines += [] if found else [f"| `{name}` | – | – |"]
    return lines
