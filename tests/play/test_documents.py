"""A page reads documents as the package does: the same data, and the same refusals."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ccarena.core import reader
from ccarena.errors import ConfigError

if TYPE_CHECKING:
    from tests.play.conftest import Node

ROOT = Path(__file__).parents[2]
SCALARS = """
0 -0 +0 7 -12 1_000 18446744073709551615 18446744073709551616 -9223372036854775808 -9223372036854775809
010 -07 0_1 00.5 1.5 .5 5. -.5e3
1e-4 1E5 1e400 0.1 0.30000000000000004 1.7976931348623157e308 4.9e-324 1__0.5 1._5 0x1F 0o17 0b11 0b2 1:30 -1:2:3.5
1:99 1:5x .inf -.Inf .nan +.NaN . .. - + ~ null Null nULL true True tRUE yes no on off 2024-01-01 12e 1e+ e5 "1" '2'
a:b <<: ? ! & * % @ ` | > !!int !x &a *a "\\u00e9" "\\x" é \u2028 [1,2] [1,,2] {a:1} {} [] # #x a#b !!str
!<tag:yaml.org,2002:str>
""".split()
FAULTS = """
# nothing;a: 1~---~b: 2;%YAML 1.2~---~a: 1;a: &x {b: 1}~c: *x;a: *x;a: &x [*x];\ta: 1;a:~\t- 1;? a~: 1;a: 1~a: 2
a: |~  two~  lines~b: >-~  folded~  text;a: |~  b;a: |+~  b~;a: >~  b~ # c;\ufeffa: 1;a: b: c;a: 'open;a: "\\q"
a: |+~  b~ ;a: >+~  b~~ ;a: |+~ ;a: |+~~ ;a: |~  b~
""".strip()
PIECES = ["", *"\n\t {}[],:-#&*!|>'\"%@`?~0x.é", "\n  ", ": ", "- "]


def documents() -> list[str]:
    """Returns texts: scalars in a mapping, shipped and example files, and these with faults drawn at random."""
    files = [*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / "ccarena").rglob("*.yaml"))][:60]
    whole = [file.read_text("utf-8") for file in files]
    texts = [f"a: {scalar}" for scalar in SCALARS] + [f"{scalar}: 1\nb: [{scalar}]" for scalar in SCALARS] + whole
    texts += ["", *(text.replace("~", "\n") for text in FAULTS.replace("\n", ";").split(";"))]
    texts += ["[" * 200, *(f"a: {'[' * depth}{']' * depth}" for depth in (126, 127)), f"{'k' * 1001}: 1"]
    texts += ['{"a": 12345678901234567890}', '{"a": 98765432109876543210}', '{"a": "12345678901234567890", "b": 1e30}']
    texts += ['{"a": ["\\\\", -12345678901234567890]}', '{"a": 18446744073709551615}']
    draw = random.Random(1)
    short = [text[:600] for text in whole if len(text) > 20]
    for _ in range(1500):
        text = draw.choice(short)
        for _ in range(draw.choice([1, 1, 2, 4])):
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice(PIECES) + text[at + draw.randrange(3) :]
        texts.append(text)
    return texts


def test_yaml(node: Node) -> None:
    texts = documents()
    answers = json.loads(node("read_documents.mjs", json.dumps(texts)))
    different = [
        (text, found, expected)
        for text, answer in zip(texts, answers, strict=True)
        if not _has_a_tag(found := _found(answer), text)
        and _placed(found, text) != _placed(expected := _natively(text), text)
        and not _is_ahead(found, expected)
    ]
    assert different == []


def _found(answer: dict[str, str]) -> Any:
    return json.loads(answer["json"]) if "json" in answer else _comparable(answer["message"].split(", found")[0])


def _has_a_tag(found: Any, text: str) -> bool:
    """Returns whether a page refused a tag right before a comma, which it does before it reads the rest."""
    return (
        isinstance(found, str) and "put a space before the comma" in found and re.search(r"![^\n ]*,", text) is not None
    )


def _is_ahead(found: Any, expected: Any) -> bool:
    """Returns whether a page tells of a key without a colon further on, while both refuse a text of several faults."""
    places = [re.search(r"line (\d+), .*not valid YAML", said) for said in (str(found), str(expected))]
    return "could not find expected ':'" in str(found) and all(places) and int(places[0][1]) > int(places[1][1])


def _placed(found: Any, text: str) -> Any:
    """Returns a message without its place if the text ends within a line, where the parsers differ; data as it is."""
    cut = isinstance(found, str) and not text.endswith("\n")
    return re.sub(r", line \d+, column \d+", "", found) if cut else found


def _comparable(message: str) -> str:
    """Returns a message without a key that is no text, which Python writes in its own way, and without its place."""
    return re.sub(r", line .* the key .* is not text", ": the key is not text", message)


def _natively(text: str) -> Any:
    try:
        data = reader.parse_yaml(text, "scenario")
    except ConfigError as error:
        return _comparable(str(error))
    return data if isinstance(data, dict) else "scenario: a scenario is a mapping with `links` and `flows`"


@pytest.mark.parametrize("text", ['{"a": 1, "b": [0.1, 1e5, -0.0, 9999999999999999999, null, "é"]}', ' {"links": []}'])
def test_json(node: Node, text: str) -> None:
    (answer,) = json.loads(node("read_documents.mjs", json.dumps([text])))
    assert json.loads(answer["json"]) == reader.parse_json(text, "scenario.json")
