"""Tuning a scheme: it finds a planted optimum, keeps what was scored and goes on exactly; what cannot be is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena.cli import main
from ccarena.envs.trials import SchemeTrials
from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import parse, with_params
from ccarena.tune.scheme import BEST, CANDIDATES, PLAN, TunedScheme, tune_scheme

LINK = {"kinds": {"constant": 1}, "rate_mbps": [24, 24], "rtt_ms": [40, 40], "buffer_bdp": [4, 4], "loss": [0, 0]}
PIPE = 24e6 * 0.04 / 8 / 1500
"""Packets that fill it."""
SMALL: dict[str, Any] = {"links": 1, "test_links": 3, "objective": "known_power"}
SHORT = {"link": {**LINK, "kinds": {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0}}, "episode_s": [3, 3]}


def tuned(scheme: str = "fixed", space: Any = None, **changes: Any) -> TunedScheme:
    return tune_scheme(scheme, space or {"window": [4, 400]}, SHORT, **(SMALL | {"candidates": 16} | changes))


def test_the_window_that_fills_a_link_is_found() -> None:
    found = tuned(candidates=24)
    assert found.params["window"] == pytest.approx(PIPE, rel=0.1) and found.entrant == (
        f"fixed@window={found.params['window']:g}"
    )
    assert found.tuned > 0.9 > 0.2 > found.given and found.gain.mean == pytest.approx(found.tuned - found.given)
    assert parse(found.entrant).flow["params"] == found.params


def test_threads_change_nothing_and_others_of_the_same_scheme_are_not_tuned() -> None:
    beside = {**SHORT, "cross_traffic": {"probability": 1, "schemes": ["fixed"], "flows": [1, 1]}}
    one, two = (tune_scheme("fixed", {"window": [60, 100]}, beside, candidates=6, threads=n, **SMALL) for n in (1, 2))
    assert one == two
    # A competitor with its ten packets leaves most of the link to the tuned flow.
    assert one.tuned > 0.6


def test_a_learned_scheme_and_its_action_are_tuned_with_what_they_have(tmp_path: Path) -> None:
    found = tuned("acct=100@budget_ms=8", {"slack": None}, candidates=4)
    assert found.entrant.startswith("acct=100@budget_ms=8,slack=") and 0 < found.tuned < 1
    assert ccarena.tune_scheme is tune_scheme


def test_a_search_that_was_interrupted_keeps_its_best_and_goes_on_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("window: [4, 400]\n")
    env = f"--env.link {LINK} --env.episode_s [3,3] --links 1 --test-links 3 --objective known_power --candidates 12"
    words = [*f"tune-scheme fixed --space {space}".split(), *env.replace(": ", ":").replace(", ", ",").split()]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    assert "fixed@window=" in capsys.readouterr().out

    runs: list[int] = []
    inner = SchemeTrials.run

    def interrupted(self: SchemeTrials, candidates: Any, seed: int, count: int, first: int = 0) -> Any:
        runs.append(len(candidates))
        if len(runs) == 3:
            raise KeyboardInterrupt
        return inner(self, candidates, seed, count, first)

    monkeypatch.setattr(SchemeTrials, "run", interrupted)
    out = tmp_path / "cut"
    assert main([*words, "--out", str(out)]) == 130
    assert f"go on with: ccarena tune-scheme --out {out} --resume" in capsys.readouterr().err
    assert "complete: false" in (out / BEST).read_text()
    assert main([*words, "--out", str(out)]) == 2 and "holds a search already" in capsys.readouterr().err
    scored = sum(runs[:2])
    runs[:] = [0] * 4
    assert main(["tune-scheme", "--out", str(out), "--resume"]) == 0
    for file in (PLAN, CANDIDATES, BEST):
        assert (out / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    assert sum(runs[4:]) == len((out / CANDIDATES).read_text().splitlines()) - 1 - scored + 2, "the rest, and two"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tune-scheme", "name the scheme"),
        ("tune-scheme copa", "--space: give a YAML file"),
        ("tune-scheme copa --space absent.yaml", "absent.yaml: cannot be read"),
        ("tune-scheme copa --space s.yaml", 'space: unknown parameter "detla"; did you mean "delta"?'),
        ("tune-scheme cubic --space pair.yaml", "pair.yaml: beta = [1]: expected [low, high], or null"),
        ("tune-scheme xcp --space s.yaml", "needs routers of its own"),
        ("tune-scheme wcc-ai@weight=2 --space s.yaml", "weight is a setting of a flow"),
        ("tune-scheme copa --space good.yaml --objective powr", "objective = powr: unknown objective"),
        ("tune-scheme copa --space good.yaml --candidates 0", "candidates = 0: expected at least 1"),
        ("tune-scheme copa --space good.yaml --algorithm.gamma 0.9", "--algorithm.gamma: expected a key of env"),
        ("tune-scheme --resume", "--resume: which search?"),
        ("tune-scheme --resume --out absent", "absent: holds no search"),
        ("tune-scheme --resume --out absent --seed 3", "--seed has no effect beside --resume"),
    ],
)
def test_what_cannot_be_tuned_is_said_before_anything_runs(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("s", "detla: [0.1, 1]"), ("pair", "beta: [1]"), ("good", "delta: [0.1, 1]")):
        Path(f"{name}.yaml").write_text(f"{text}\n")
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


def test_the_text_of_an_entrant_keeps_its_other_parameters() -> None:
    assert with_params(parse("copa"), {"delta": 0.4}) == "copa@delta=0.4"
    assert with_params(parse("mine=cubic@hystart=0,reno_friendly=1"), {"reno_friendly": 0}) == (
        "mine=cubic@hystart=0,reno_friendly=0"
    )
    with pytest.raises(ConfigError):
        tuned(space={"window": [5, 5]})
