"""The simulator for web pages, run by Node; and the page in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena.errors import MissingDependencyError
from ccarena.pages.browser import Browser, find_browser
from ccarena.play import assets
from tests.play.player import Player

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "crates/ccarena-web/page/build/engine.js"
MODULE = Path(ccarena.__file__).parent / "play/assets/engine.wasm"

Engine = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
Node = Callable[[str, str], str]


@pytest.fixture(scope="session")
def node() -> Node:
    """Returns a function that runs a script of this folder, with an input, and returns its output."""
    if shutil.which("node") is None:
        pytest.skip("no Node on PATH")
    if not (SCRIPT.is_file() and MODULE.is_file()):
        pytest.skip("the simulator for web pages is not built: make web")

    def run(script: str, given: str) -> str:
        command = ["node", ROOT / "tests/play" / script, SCRIPT, MODULE]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    """Page in a browser; skips without a browser, and if the page is not built."""
    if find_browser() is None:
        pytest.skip("needs Chrome or Chromium (apt-get install chromium)")
    try:
        assets()
    except MissingDependencyError:
        pytest.skip("needs the built web page: make web")
    with Browser() as browser:
        yield Player(browser)


@pytest.fixture(scope="session")
def engine(node: Node) -> Engine:
    """Returns a function that runs scenarios in one process of Node, and answers as `run_engine.mjs` does."""
    return lambda cases: list(json.loads(node("run_engine.mjs", json.dumps(list(cases)))))
