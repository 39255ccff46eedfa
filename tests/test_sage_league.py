"""The example `sage`: its two leagues count wins by the benchmark's rules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the example was not run (run make)")

from ccarena.eval.measure.record import Record
from ccarena.eval.measure.table import value
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.one_run import perform

FOLDER = Path(__file__).parents[1] / "examples" / "sage"


def loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("sage_league", FOLDER / "league.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


LEAGUE = loaded()


def test_the_links_are_those_of_the_benchmark() -> None:
    alone, beside = (every for every, _, _ in LEAGUE.LEAGUES.values())
    assert (len(alone), len(beside)) == (660, 125) and len(set(alone)) == 660
    assert {rate * factor for rate, factor, _, _ in alone} == {3, 6, 12, 24, 48, 96, 192}
    assert {factor for _, factor, _, _ in beside} == {1}
    rate, _, delay, packets = alone[0]
    assert packets == int(0.5 * rate * 1e6 * 2 * delay * 1e-3 / 12_000), "half a BDP of packets of 1500 bytes"


def test_winners_are_within_a_tenth_of_the_best() -> None:
    assert LEAGUE.best({"a": 10.0, "b": 9.0, "c": 8.9}) == {"a", "b"}
    assert LEAGUE.nearest({"a": 1.2, "b": 0.8, "c": 1.4, "d": 0.7}) == {"a", "b"}
    assert LEAGUE.nearest({"a": 1.0, "b": 1.09, "c": 0.5}) == {"a", "b"}


def test_games_are_won_by_figures_of_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    link = (12, 1, 20, 160)
    leagues = {name: ([link], *rules) for name, (_, *rules) in LEAGUE.LEAGUES.items()}
    monkeypatch.setattr(LEAGUE, "LEAGUES", leagues)
    won = LEAGUE.play(["vegas", "cubic"], games=3)
    assert won["single flow"] == {"vegas": 1.0, "cubic": 0.0}, "CUBIC fills the buffer of 4 BDP"
    assert won["beside CUBIC"] == {"vegas": 0.0, "cubic": 1.0}, "a delay-based scheme yields to CUBIC"

    run = perform(LEAGUE.scenario(*link, [parse("cubic").as_flow()], LEAGUE.ALONE[-1][1]), SIM)
    for piece, score in zip(LEAGUE.ALONE, LEAGUE.alone(parse("cubic"), link), strict=True):
        [flow] = Record(run.document, run.result, piece).flows
        assert score == pytest.approx(value(flow, "sage_score"), rel=1e-3)
    shares = list(LEAGUE.beside(parse("cubic"), link))
    assert len(shares) == 4 and all(0.3 < share < 1.7 for share in shares)
