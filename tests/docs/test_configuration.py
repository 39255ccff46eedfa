"""docs/configuration.md and the help cannot go stale, and every key explains itself."""

from pathlib import Path

from ccarena.configs.keys import keys
from docs.generate.configuration import GENERATED, markdown

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_schema_says() -> None:
    _, mark, rest = PAGE.read_text(encoding="utf-8").partition(GENERATED)
    assert mark + rest == markdown(), "docs/configuration.md is stale: run `make docs`"


def test_every_key_is_documented() -> None:
    assert len(keys()) > 40
    assert [key.path for key in keys() if not key.doc.endswith(".")] == []
