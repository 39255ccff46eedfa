"""The pages of all commands as a browser shows them: both themes, a desktop and a phone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.pages.browser import Browser

sys.path.insert(0, str(Path(__file__).parent))

from looked_at import faults

LINK = "rate=24,rtt=20,buffer=1bdp"


def run(*words: str) -> None:
    assert cli.main(list(words)) == 0


def test_the_evaluation(browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "eval"
    run(
        "eval",
        "--link-sets",
        "slides",
        "steps",
        "--schemes",
        "cubic",
        "--seeds",
        "1",
        "--duration-s",
        "3",
        "--out",
        str(out),
    )
    assert faults(browser, out / "report.html", charts=2 + 2 + 2) == []
    page = browser.evaluate("document.body.innerText")
    assert "ccarena eval" in page and "CUBIC" in page
