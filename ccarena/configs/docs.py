"""The table of keys in docs/configuration.md: `python -m ccarena.configs.docs docs/configuration.md` rewrites it."""

from __future__ import annotations

import sys
from pathlib import Path

from ccarena.configs.keys import keys, plain

GENERATED = "<!-- Generated from ccarena/configs/schema.py by `make docs`; edit there. -->"


def markdown() -> str:
    """The keys as Markdown tables, one per section, after the [`GENERATED`] mark."""
    lines, section = [GENERATED], None
    for key in keys():
        parent, _, name = key.path.rpartition(".")
        if parent != section:
            section = parent
            lines += ["", f"### `{section}`" if section else "### The run", "", "| key | default | meaning | takes |"]
            lines.append("|---|---|---|---|")
        # A bar would end the cell, even between backticks.
        cells = (f"`{name}`", f"`{plain(key.default)}`", " ".join(key.doc.split()), key.expected.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(page.read_text(encoding="utf-8").partition(GENERATED)[0] + markdown(), encoding="utf-8")
