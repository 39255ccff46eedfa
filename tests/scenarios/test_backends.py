"""What runs a scenario: every entry of the table keeps its promises, and an entry is all that a backend needs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena import cli
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.scenarios import backends
from ccarena.scenarios.backends import BACKENDS, SIM

SCENARIO: dict[str, Any] = {
    "duration_s": 1,
    "links": [{"service": {"type": "constant", "rate_mbps": 8}, "queue": {"type": "droptail", "packets": 50}}],
    "flows": [{"scheme": "cubic"}],
}


def test_without_the_simulator_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccarena._core", None)
    with pytest.raises(MissingDependencyError, match="native extension"):
        backends.simulate({})


def test_what_is_recorded_of_a_backend() -> None:
    assert backends.about("sim") == {"backend": "sim"}
    assert backends.about("kernel")["kernel"] and backends.about("quic")["kernel"]
    with pytest.raises(ConfigError, match='did you mean "kernel"'):
        backends.about("kernle")
    assert backends.validity({}) == {}


@pytest.mark.parametrize("name", BACKENDS)
def test_an_entry_keeps_its_promises(name: str) -> None:
    """`tests/privileged/test_backends.py` holds the results of those in real time against the simulator's."""
    entry = BACKENDS[name]
    assert entry.name == name and backends.find(name) is entry
    assert all([entry.title, entry.where]) and [each.title for each in BACKENDS.values()].count(entry.title) == 1
    module, _, function = entry.run.partition(":")
    run = getattr(import_module(module), function)
    document, *options = inspect.signature(run).parameters
    assert document == "document" and (options != ["make"]) == entry.real_time
    assert all(path.is_file() for path in dataclasses.replace(entry, program="").files())
    assert entry.at_once(7) == (1 if entry.real_time else 7) and bool(entry.program) == entry.real_time
    assert ("kernel" in backends.about(name)) == entry.real_time
    if not entry.real_time:
        assert backends.execute(SCENARIO, name).keys() == backends.simulate(SCENARIO).keys()


def test_a_backend_is_one_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second simulator by its entry alone: from Python, on the command line, and for suites."""
    twin = backends.Backend("twin", "a second simulator", "in the twin", BACKENDS[SIM].run, real_time=False, code=())
    monkeypatch.setitem(BACKENDS, "twin", twin)
    (one,), (other,) = (ccarena.run(SCENARIO, backend=name).runs for name in (SIM, "twin"))
    assert (
        other.backend == "twin"
        and other.result["flows"][0]["delivered_bytes"] == one.result["flows"][0]["delivered_bytes"]
    )

    file = tmp_path / "one.json"
    file.write_text(json.dumps(SCENARIO), "utf-8")
    assert cli.main(["eval", "--scenario", str(file), "--backend", "twin", "--out", str(tmp_path / "out")]) == 0
    assert "a second simulator" in (tmp_path / "out" / "page.html").read_text("utf-8")

    suite = {
        **{"title": "One", "paper": "none", "summary": "Of a test.", "seeds": {"full": 1, "quick": 1}},
        **{"scenario": SCENARIO, "twin": {"conditions": ["shorter"], "scenario": {"duration_s": 0.5}}},
        "claims": [{"claim": "Busy", "paper": 1, "measured": {"value": "utilisation"}, "holds": {"at_least": 0.1}}],
    }
    mine = tmp_path / "mine.yaml"
    mine.write_text(json.dumps(suite), "utf-8")
    assert (
        cli.main(["reproduce", str(mine), "--backend", "twin", "--out", str(tmp_path / "suites"), "--jobs", "1"]) == 0
    )
    assert "shorter" in (tmp_path / "suites" / "own" / "mine" / "twin" / "claims.md").read_text("utf-8")
    assert cli.main(["eval", "--scenario", str(file), "--backend", "twim"]) == 2
    assert 'did you mean "twin"' in capsys.readouterr().err
