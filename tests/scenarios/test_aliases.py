"""Aliases: a scheme whose packets are those of another, with default parameters, says so; nobody else does."""

from __future__ import annotations

from typing import Any

import ccarena
from ccarena.eval.leaderboard.entrants import default_schemes
from ccarena.scenarios.schemes import heuristics, registered
from tests.locks.measured import _raw, digest


def scenario(scheme: str) -> dict[str, Any]:
    """Returns a run with slow start, losses of the queue and at random, and a competitor."""
    service = {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 12}, {"at_s": 4, "rate_mbps": 5}]}
    link = {"service": service, "delay_ms": 15, "queue": {"type": "droptail", "packets": 60}, "loss": 0.001}
    record = {"packets": True, "series": True}
    return {"duration_s": 8, "links": [link], "flows": [{"scheme": scheme}, {"scheme": "cubic"}], "record": record}


def test_the_registry_knows_which_schemes_do_the_same() -> None:
    names = heuristics()
    results = ccarena.run([scenario(name) for name in names], names=list(names), progress=False)
    alike: dict[str, set[str]] = {}
    for run in results:
        alike.setdefault(digest(_raw(run.result)), set()).add(run.scenario)
    declared = {name: registered()[name]["alias_of"] for name in names}
    for same in alike.values():
        own = [name for name in same if declared[name] is None]
        assert len(own) == 1, f"{', '.join(sorted(same))} do the same: all but one are aliases of it"
        assert all(declared[name] == own[0] for name in same - set(own))


def test_boards_have_each_once() -> None:
    assert "reno" in default_schemes()
    assert not {"multcp", "ewtcp", "wcc-ai", "wcc-md", "fixed"} & set(default_schemes())
