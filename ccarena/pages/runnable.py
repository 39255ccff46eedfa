"""Runs that a reader repeats in the browser: a choice of one, a button, and its figures beside the stored ones.

`make web` builds the simulator for browsers into `ccarena/play/assets`. A page without it shows no button and says so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from ccarena.pages.blocks import Block, Details, Drawn, Items, prose

__all__ = ["Repeat", "RunLater", "Runnable", "data_of", "files_of", "packed", "scripts", "simulator", "unbuilt"]

SIMULATOR = ("cell.js", "engine.js")
"""Files that run a scenario in a page (crates/ccarena-web/page/src/cell.ts)."""
_PLACE = "play/"
"""Folder of these files among those that pages share."""
_UNBUILT = "The runs of this page cannot be repeated here: it was made without the simulator for browsers. `make web` "
_UNBUILT += "builds it; then make the page again."


@dataclass(frozen=True)
class Repeat:
    """Run that a browser can repeat."""

    axes: Mapping[str, str]
    """Name of the run by the choices that lead to it, such as link, entrant and seed; all runs of a page have the same
    keys.
    """
    scenario: Mapping[str, Any]
    """Document with the seed of the run; its files are keys of `files`."""
    stored: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Stored figures by flow."""
    version: str = ""
    """Version of the software that made the stored figures."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    licences: Sequence[str] = ()
    """Sentences on the licences of the files."""


@dataclass(frozen=True)
class Runnable:
    """Block of runs, of which the reader chooses one and runs it."""

    runs: Sequence[Repeat]
    refused: Sequence[str] = ()
    """Sentences on runs that a browser cannot repeat."""

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        if not self.runs:
            return _refused(self.refused, drawn)
        if (missing := unbuilt(drawn)) is not None:
            return missing
        drawn.runnable = True
        files = {name: data for run in self.runs for name, data in run.files.items()}
        drawn.files |= {name: packed(data) for name, data in files.items()}
        name = drawn.name()
        data = packed(_json(data_of(self.runs)).encode())
        script = f'<script type="application/gzip" id="{name}">{data}</script>'
        return f'<div class="runnable" data-runs="{name}"></div>{script}{_refused(self.refused, drawn)}'


@dataclass(frozen=True)
class RunLater:
    """Place for runs that a script of the page finds."""

    name: str

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        if (missing := unbuilt(drawn)) is not None:
            return missing
        drawn.runnable = True
        return f'<div id="{self.name}"></div>'


def data_of(runs: Sequence[Repeat]) -> dict[str, Any]:
    """Returns the runs as `runnable.js` reads them, without their files."""
    return {
        "axes": list(runs[0].axes) if runs else [],
        "runs": [
            {
                "at": list(run.axes.values()),
                "scenario": _json(run.scenario),
                "stored": run.stored,
                "version": run.version,
                "files": list(run.files),
                "licences": list(run.licences),
            }
            for run in runs
        ],
    }


@cache
def simulator() -> dict[str, str]:
    """Returns the simulator's files by the names under which pages share them; none if they are not built."""
    folder = resources.files("ccarena").joinpath("play").joinpath("assets")
    found = {name: folder.joinpath(name) for name in SIMULATOR}
    if not all(file.is_file() for file in found.values()):
        return {}
    return {_PLACE + name: file.read_text("utf-8") for name, file in found.items()}


def unbuilt(drawn: Drawn) -> str | None:
    """Returns the reason why the page has no button, once per page; None if the simulator is there."""
    if simulator():
        return None
    first, drawn.said_unbuilt = not drawn.said_unbuilt, True
    return f'<p class="unbuilt">{prose(_UNBUILT)}</p>' if first else ""


def scripts(drawn: Drawn, shared: str) -> str:
    """Returns the script elements of a page with runs: the simulator, in the page itself unless `shared` names a
    folder, and the files of the runs.
    """
    if not drawn.runnable:
        return ""
    whole = simulator()
    files = files_of(drawn)
    if shared:
        return f'<script src="{shared}{_PLACE}cell.js"></script>{files}'
    return "".join(f"<script>{_inside(whole[_PLACE + name])}</script>" for name in SIMULATOR) + files


def files_of(drawn: Drawn) -> str:
    """Returns script elements with the files of a page's runs."""
    return "".join(
        f"<script>(window.ccarenaFiles ??= {{}})[{_text(name)}]={_text(data)};</script>"
        for name, data in drawn.files.items()
    )


def packed(data: bytes) -> str:
    """Returns data for a page: gzip without a time of day, so that the same data give the same text, in base64.

    On recorded traces, level 9 takes 13 times the time of level 5 and saves no byte.
    """
    return base64.b64encode(gzip.compress(data, 5, mtime=0)).decode()


def _text(text: str) -> str:
    """Returns a text of JavaScript that ends no script element."""
    return json.dumps(text).replace("<", "\\u003c")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _inside(script: str) -> str:
    # The text of a script element ends at "</script", whatever is around it.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _refused(sentences: Sequence[str], drawn: Drawn) -> str:
    if not sentences:
        return ""
    blocks: list[Block] = [Items(list(dict.fromkeys(sentences)))]
    return Details("runs that a browser cannot repeat", blocks).html(drawn)
