"""The table of keys in docs/configuration.md: `python -m ccarena.configs.docs docs/configuration.md` rewrites it."""

from __future__ import annotations

import sys
from pathlib import Path

from ccarena.configs.keys import Key, keys, plain
from ccarena.configs.schema import HyvarTrainConfig

GENERATED = "<!-- Generated from ccarena/configs/schema.py by `make docs`; edit there. -->"


def markdown() -> str:
    """The keys as Markdown tables, one per section, after the [`GENERATED`] mark."""
    lines = [GENERATED, *_tables(keys(), "")]
    # Orca's and Aurora's differ in the name of the scheme alone.
    lines += ["", "## Keys for Hyvar, Orca and Aurora", "", "`env.id` says whose configuration a file is."]
    return "\n".join(lines + _tables(keys(HyvarTrainConfig), "Hyvar: ")) + "\n"


def _tables(all_keys: list[Key], prefix: str) -> list[str]:
    lines: list[str] = []
    section = None
    for key in all_keys:
        parent, _, name = key.path.rpartition(".")
        if parent != section:
            section = parent
            title = f"`{section}`" if section else "the run" if prefix else "The run"
            lines += ["", f"### {prefix}{title}", "", "| key | default | meaning | takes |", "|---|---|---|---|"]
        # A bar would end the cell, even between backticks.
        cells = (f"`{name}`", f"`{plain(key.default)}`", " ".join(key.doc.split()), key.expected.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(page.read_text(encoding="utf-8").partition(GENERATED)[0] + markdown(), encoding="utf-8")
