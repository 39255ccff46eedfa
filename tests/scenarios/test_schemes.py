"""`ccarena schemes`: everything that is registered, with what can be set."""

from __future__ import annotations

import json

import pytest

from ccarena import cli

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: `ccarena schemes` not tested")
from ccarena.scenarios.schemes import kind_of, limit_of  # noqa: E402


def show(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["schemes", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--queues",)])
def test_the_list_names_everything(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = show(*words, capsys=capsys)
    for entry in _core.queue_disciplines() if words else _core.schemes():
        assert f"\n{entry['name']} " in text
        assert all(f"{param['name']} = {param['default']:g}" in text for param in entry["params"])


def test_json_is_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(show("--json", capsys=capsys)) == _core.schemes()
    assert json.loads(show("--queues", "--json", capsys=capsys)) == _core.queue_disciplines()
    assert json.loads(show("cubic", "--json", capsys=capsys))["name"] == "cubic"


def test_one_scheme_has_ranges_and_explanations(capsys: pytest.CaptureFixture[str]) -> None:
    text = show("acct", capsys=capsys)
    assert text.startswith("acct: ") and "kind: learned" in text
    assert "budget_ms" in text and "0.1 to 1000" in text and "paper" in text
    assert "no parameters" in show("multcp", capsys=capsys)


def test_kinds() -> None:
    schemes = {entry["name"]: entry for entry in _core.schemes()}
    assert kind_of(schemes["reno"]) == []
    assert kind_of(schemes["wcc-ai"]) == ["weight > 0", "as reno at weight 1"]
    assert kind_of(schemes["hercules"]) == ["requirement"]
    queues = {entry["name"]: entry for entry in _core.queue_disciplines()}
    assert limit_of(queues["infinite"]) == "none" and "bdp" in limit_of(queues["droptail"])


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schemes", "cubci"]) == 2
    assert capsys.readouterr().err == 'error: unknown scheme "cubci"; did you mean "cubic"?\n'
    assert cli.main(["schemes", "--queues", "droptial"]) == 2
    assert 'unknown queue discipline "droptial"; did you mean "droptail"?' in capsys.readouterr().err
