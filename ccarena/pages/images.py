"""Figures as .svg, .png or .pdf, drawn as in a page by an installed Chrome or Chromium."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

from ccarena.core.files import replacing, scratch
from ccarena.errors import ConfigError, cannot_write
from ccarena.pages.blocks import Figure
from ccarena.pages.browser import Browser
from ccarena.pages.page import Page, Section, write

__all__ = ["check_suffix", "save"]

IMAGES = (".svg", ".png", ".pdf")
WIDTH = 1100
"""Width in pixels, 96 of which are an inch; a .png has twice as many in each direction."""


def check_suffix(path: Path) -> str:
    """Returns the format of `path`, such as ".png". Raises ConfigError if it cannot be written."""
    suffix = path.suffix.lower()
    if suffix != ".html" and suffix not in IMAGES:
        raise ConfigError(f'{path}: cannot draw as "{suffix}"; expected .html, .svg, .png or .pdf')
    return suffix


def save(path: Path, page: Page, figures: Sequence[Figure]) -> Path:
    """Writes `page` to `path` if that ends in .html, else an image of `figures` one below the other.

    Raises ConfigError for another suffix or if the file cannot be written. Raises MissingDependencyError if an image
    needs a browser that is missing or does not answer.
    """
    suffix = check_suffix(path)
    if suffix == ".html":
        write(path, page)
        return path
    with scratch() as folder, Browser() as browser:
        source = folder / "figures.html"
        write(source, Page("", "", "", sections=[Section("", "", figures)]))
        browser.open(source)
        parts = [browser.evaluate(f"window.ccarena.image({number}, {WIDTH})") for number in range(len(figures))]
        svg, height = _stacked(parts)
        data = svg.encode()
        if suffix != ".svg":
            source.write_text(f'<meta charset="utf-8"><style>@page {{ margin: 0 }} body {{ margin: 0 }}</style>{svg}')
            browser.open(source)
            if suffix == ".png":
                clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 2}
                drawn = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            else:
                # One page, a little higher than what it holds, or an empty one would follow.
                inches = {"paperWidth": WIDTH / 96, "paperHeight": (height + 2) / 96}
                drawn = browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=False, **inches)
            data = base64.b64decode(drawn["data"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def _stacked(parts: Sequence[str]) -> tuple[str, int]:
    """Returns SVGs stacked into one, and its height."""
    placed, height = [], 0
    for part in parts:
        found = re.match(r'<svg [^>]*?height="(\d+)"', part)
        assert found is not None, "page.js gives every image a height"
        placed.append(part.replace("<svg ", f'<svg y="{height}" ', 1))
        height += int(found[1])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    return f"{head}{''.join(placed)}</svg>\n", height
