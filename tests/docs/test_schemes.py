"""docs/schemes.md cannot go stale, and every scheme and parameter has its row."""

from pathlib import Path

import pytest

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: docs/schemes.md not tested (make)")
docs = pytest.importorskip("docs.generate.schemes")

PAGE = Path(__file__).parents[2] / "docs" / "schemes.md"


def test_the_page_is_what_the_registry_says() -> None:
    _, mark, rest = PAGE.read_text(encoding="utf-8").partition(docs.GENERATED)
    assert mark + rest == docs.markdown(), "docs/schemes.md is stale: run `make docs`"


def test_every_scheme_and_parameter_has_its_row() -> None:
    rows = docs.markdown().splitlines()
    for scheme in _core.schemes():
        own = [row for row in rows if row.startswith(f"| `{scheme['name']}` |")]
        assert len(own) == 1 + len(scheme["params"])
        for param, row in zip(scheme["params"], own[1:], strict=True):
            assert row.startswith(f"| `{scheme['name']}` | `{param['name']}` | {param['default']:g} |")
            assert row.replace("\\|", "").count("|") == 6
