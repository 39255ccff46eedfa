"""Conversion of plain Markdown into blocks: headings, paragraphs, lists and tables; other lines stay text.

Marks within a line (`code`, **bold**) are left out. Tags are shown as text.
"""

from __future__ import annotations

import re

from ccarena.pages.blocks import Block, Items, Table, Text

__all__ = ["blocks_of"]


def blocks_of(text: str) -> list[Block]:
    """Returns the blocks in their order, without comments and without the first heading, the page's own title."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    out: list[Block] = []
    for number, part in enumerate(each for each in re.split(r"\n\s*\n", text.strip()) if each.strip()):
        lines = [line.strip() for line in part.strip().splitlines()]
        if lines[0].startswith("#"):
            if number:
                out.append(Text(_plain(lines[0].lstrip("# "))))
        elif all(line.startswith("- ") for line in lines):
            out.append(Items([_plain(line[2:]) for line in lines]))
        elif len(lines) > 1 and all(line.startswith("|") for line in lines):
            cells = [[_plain(cell) for cell in line.strip("|").split("|")] for line in lines]
            body = [row for row in cells[2:] if len(row) == len(cells[0])]
            out.append(Table(cells[0], body, words=2 if len(cells[0]) > 1 else 1))
        else:
            out.append(Text(_plain(" ".join(lines))))
    return out


def _plain(text: str) -> str:
    return re.sub(r"`([^`]*)`|\*\*([^*]*)\*\*", lambda found: found[1] or found[2] or "", text.strip())
