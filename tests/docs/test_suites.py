"""docs/suites.md and docs/reproduction.md: generated parts are the code's, and the example is a suite."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ccarena.eval.reproduce import pages, runs, suite
from ccarena.scenarios.backends import KERNEL, SIM
from docs.generate import suites as docs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "suites.md"


def test_the_reference_is_what_the_code_says() -> None:
    assert PAGE.read_text("utf-8").endswith(docs.markdown()), "run `make docs`"


def test_the_example_is_a_suite() -> None:
    core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: a suite not checked (run make)")
    (text,) = re.findall(r"^```yml\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.S | re.M)
    for backend in (SIM, KERNEL):
        for run in runs.expand(suite.parse(text.encode(), "own/example", "docs/suites.md", backend)):
            core.validate_scenario(json.dumps(run.spec["document"]))


def test_the_summary_is_written_from_the_results_in_git() -> None:
    path, names = ROOT / "docs" / "reproduction.md", suite.shipped()
    assert path.read_text("utf-8") == pages.summary(pages.with_kept(path, [], names), names, spent=pages.spent(path)), (
        "run `ccarena reproduce --write-docs docs/reproduction.md`"
    )
