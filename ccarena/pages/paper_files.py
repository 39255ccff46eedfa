"""Widths, formats and colours of plots for papers: what is checked before a run, without matplotlib."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Literal

from ccarena.errors import ConfigError, MissingDependencyError

__all__ = ["CAPACITY", "FORMATS", "INKS", "WIDTHS", "Width", "check", "check_path"]

Width = Literal["column", "page"]
WIDTHS: dict[str, float] = {"column": 3.33, "page": 7.0}
"""Widths in inches: one column, and the text, of ACM's and IEEE's two-column formats."""
FORMATS = (".pdf", ".svg", ".png")
INKS = {
    **{"blue": "#0072b2", "vermilion": "#d55e00", "green": "#009e73", "purple": "#c0568f", "orange": "#bd7700"},
    **{"sky": "#2a8fc9", "wine": "#882255", "teal": "#2b9485", "olive": "#5d6b12"},
}
"""Colours of the light theme of pages."""
CAPACITY = "#dcdcdc"


def check(path: str | os.PathLike[str] | None, width: str = "column") -> Path | None:
    """Returns the path of a plot. Raises ConfigError for a path or width that it cannot have, and
    MissingDependencyError without matplotlib.
    """
    if width not in WIDTHS:
        raise ConfigError(f'width = "{width}"; expected "column" or "page"')
    target = None if path is None else Path(path)
    if target is not None:
        check_path(target)
    try:
        found = importlib.util.find_spec("matplotlib")
    except ValueError:  # of a module that is None in sys.modules
        found = None
    if found is None:
        raise MissingDependencyError.for_extra("matplotlib", "render", "a plot")
    return target


def check_path(path: Path) -> str:
    """Returns the format of `path`, such as ".pdf". Raises ConfigError for another."""
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        return suffix
    hint = "; page() gives pages" if suffix == ".html" else ""
    raise ConfigError(f'{path}: cannot draw as "{suffix}"; expected .pdf, .svg or .png{hint}')
