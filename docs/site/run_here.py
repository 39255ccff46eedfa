"""Sphinx extension: a button under each YAML block of a page that is a scenario, which runs it in the reader's browser.

A block is a scenario if the simulator reads it; no page lists any. Scenarios with recorded traces get no button, as
the site passes none on.
"""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from ccarena.core.reader import parse_yaml
from ccarena.errors import CcarenaError
from ccarena.pages.runnable import Repeat, simulator
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.repeat import repeat_of
from ccarena.scenarios.scenario import resolve

__all__ = ["cell", "repeat_in", "setup", "write_scripts"]

SCRIPTS = {'class="runnable"': "runnable.js", "data-ccarena-scenario": "play/cell.js"}
"""Scripts of a page by the text that shows that it needs them."""
ROOT = Path(__file__).parents[2]


def repeat_in(text: str) -> Repeat | None:
    """Returns the run of a scenario in YAML; None if it is none, or one that a page cannot carry."""
    try:
        document = parse_yaml(text, "block")
        if not isinstance(document, dict) or not {"links", "flows"} <= document.keys():
            return None
        document = enter(resolve(document, ROOT))
        checked(document)
        found = repeat_of(document, {})
    except CcarenaError:
        return None
    return None if found.licences else found


def cell(run: Repeat) -> str:
    """Returns the element that `cell.js` fills (crates/ccarena-web/page/src/cell.ts)."""
    files = {name: base64.b64encode(data).decode() for name, data in run.files.items()}
    about = {"scenario": json.dumps(run.scenario), "files": json.dumps(files) if files else ""}
    return "<div " + " ".join(f'data-ccarena-{k}="{html.escape(v)}"' for k, v in about.items() if v) + "></div>"


def write_scripts(folder: Path) -> None:
    """Writes the scripts that the pages share to `folder`."""
    from ccarena.pages.page import assets

    for name, text in {**simulator(), "runnable.js": assets()["runnable.js"]}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "run-here.css").write_text(_STYLE, "utf-8")


_STYLE = """\
body[data-theme="light"] .ccarena-cell { color-scheme: light; }
body[data-theme="dark"] .ccarena-cell { color-scheme: dark; }
body[data-theme="auto"] .ccarena-cell { color-scheme: light dark; }
.choices { display: flex; flex-wrap: wrap; gap: 6px 18px; }
.choices select { font: inherit; max-width: 100%; }
.run-note { font-size: .88rem; }
@media print { .ccarena-cell { display: none; } }
"""


def _add_buttons(_: Sphinx, doctree: nodes.document) -> None:
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "yaml" and (run := repeat_in(block.astext())) is not None:
            place = block.parent if isinstance(block.parent, nodes.container) else block
            place.parent.insert(place.parent.index(place) + 1, nodes.raw("", cell(run), format="html"))


def _add_scripts(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    needed = [name for mark, name in SCRIPTS.items() if mark in context.get("body", "")]
    if not needed:
        return
    app.add_css_file("run-here.css")
    app.add_js_file("play/cell.js", loading_method="defer")
    if "runnable.js" in needed:
        app.add_js_file("runnable.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the buttons, if the simulator for browsers is built."""
    if simulator():
        app.connect("doctree-read", _add_buttons)
        app.connect("html-page-context", _add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
