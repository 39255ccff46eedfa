"""Page of one HTML file: what was run, how to repeat it, what was found, and sections."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from ccarena.core.files import write_atomically
from ccarena.pages import runnable
from ccarena.pages.blocks import Block, Code, Details, Drawn, escape, prose, together

__all__ = ["Page", "Section", "anchor", "assets", "render", "write"]


PLOTLY = "plotly-basic.min.js"


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    title: str
    lead: str
    """Introduction: what the section shows and how to read it; may be empty."""
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """Page; its parts appear in the order of the fields."""

    title: str
    kind: str
    """Kind of page, such as "evaluation"."""
    lead: str
    """Description of the run for a reader who knows nothing of it."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of the run: backend, seeds, duration and the like."""
    findings: Sequence[Block] = ()
    repeat: Sequence[str] = ()
    """Commands that produce the same page again."""
    sections: Sequence[Section] = ()
    shared: str = ""
    """Folder of the files that `assets` gives, relative to the page; if empty, the page contains them."""
    scripts: Sequence[str] = ()
    """Scripts in the page's folder: rows of grids first, which the page's own script reads."""
    home: str = ""
    """Target and name of the link in the page's head."""

    def _repr_html_(self) -> str:
        """Returns the page in an HTML frame of its own for a notebook, so that their styles do not mix."""
        fit = "this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'"
        return (
            f'<iframe srcdoc="{escape(render(self))}" onload="{fit}" style="width:100%;height:720px;border:0"></iframe>'
        )


def write(path: Path, page: Page) -> None:
    """Writes the page atomically. Raises ConfigError if it cannot be written."""
    write_atomically(path, render(page))


def render(page: Page) -> str:
    """Returns the page as HTML that needs no other file. The same page gives the same text."""
    drawn = Drawn()
    facts = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in page.facts.items())
    brand = f'<a href="{escape(page.home)}">ccarena</a>' if page.home else "ccarena"
    parts = [
        f'<header><div class="bar"><span class="brand">{brand}</span><span class="kind">{escape(page.kind)}</span>'
        '<button type="button" id="theme" aria-label="switch between the light and the dark theme">◐</button></div>'
        f"<h1>{escape(page.title)}</h1>"
        f'<p class="lead">{escape(page.lead)}</p>' + (f"<dl>{facts}</dl>" if facts else "") + "</header>"
    ]
    if page.findings:
        parts.append(f'<section id="findings"><h2>Findings</h2>{together(page.findings, drawn)}</section>')
    if page.repeat:
        repeat = Details("How to repeat this", [Code("\n".join(page.repeat))], open=True)
        parts.append(f'<section class="repeat">{repeat.html(drawn)}</section>')
    parts += [_section(section, drawn) for section in page.sections]
    names = (["Findings"] if page.findings else []) + [section.title for section in page.sections]
    if len(names) > 2:
        links = "".join(f'<a href="#{anchor(name)}">{escape(name)}</a>' for name in names)
        parts.insert(1, f'<nav aria-label="sections">{links}</nav>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(page.title)} · ccarena</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="generator" content="ccarena">'
        f'<link rel="icon" href="data:,">{_style(page.shared)}</head>\n<body><main>'
        + "\n".join(parts)
        + "</main>\n"
        + (_scripts(drawn, page.shared) if drawn.charts or page.scripts else "")
        + "".join(f'<script src="{escape(script)}"></script>' for script in page.scripts)
        + _script("page.js", page.shared)
        + (runnable.scripts(drawn, page.shared) + _script("runnable.js", page.shared) if drawn.runnable else "")
        + (_script("grid.js", page.shared) if drawn.grids else "")
        + "</body></html>\n"
    )


def assets() -> dict[str, str]:
    """Returns the files that pages can share, by name."""
    own = {name: _asset(name) for name in ("page.css", "page.js", "grid.js", "runnable.js", PLOTLY)}
    return own | runnable.simulator()


def _style(shared: str) -> str:
    return f'<link rel="stylesheet" href="{shared}page.css">' if shared else f"<style>{_asset('page.css')}</style>"


def _script(name: str, shared: str) -> str:
    return f'<script src="{shared}{name}"></script>' if shared else f"<script>{_asset(name)}</script>"


def _section(section: Section, drawn: Drawn) -> str:
    lead = f"<p>{prose(section.lead)}</p>" if section.lead else ""
    body = together(section.blocks, drawn)
    return f'<section id="{anchor(section.title)}"><h2>{escape(section.title)}</h2>{lead}{body}</section>'


def anchor(title: str) -> str:
    """Returns the id of the section with this title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _scripts(drawn: Drawn, shared: str) -> str:
    """Returns the charts and the library that draws them, compressed; browsers have unpacked gzip since 2023.

    The page's script loads the library last, because a browser takes longer to parse it than all the rest.
    """
    charts = json.dumps(drawn.charts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        "<noscript><p>The figures of this page are drawn by a script, and scripts are switched off here.</p></noscript>"
        f'<script type="application/gzip" id="charts">{runnable.packed(charts.encode())}</script>\n'
        + (
            f'<script type="text/plain" id="plotly" data-file="{shared}{PLOTLY}"></script>'
            if shared
            else f'<script type="application/gzip" id="plotly">{_packed_library()}</script>'
        )
        + "\n"
    )


@cache
def _packed_library() -> str:
    return runnable.packed(_asset(PLOTLY).encode())


@cache
def _asset(name: str) -> str:
    return resources.files("ccarena.pages").joinpath("assets").joinpath(name).read_text("utf-8")
