"""More seeds for claims that are undecided, and for no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena import cli
from ccarena.eval.reproduce.adaptive import Outcome, until_certain
from ccarena.eval.reproduce.checks import ClaimModel, cells, parse_claim
from ccarena.eval.reproduce.runs import Run
from ccarena.eval.reproduce.values import CellKey, Names, Row

NAMES = Names({"scheme": ["a", "b", "c"]}, {"x": "run"})
SCHEMES = NAMES.axes["scheme"]
Write = Callable[..., Path]


def measured(scheme: str, seed: int) -> float:
    """Scheme a is 2 whatever the seed, b scatters about 1.1, and c about 1."""
    scatter = np.random.default_rng(seed).normal(0, 0.5)
    return {"a": 2.0, "b": 1.1 + scatter, "c": 1.0 + 0.02 * (-1) ** seed}[scheme]


def claim(scheme: str, limit: Any = 1.0, **more: Any) -> Any:
    value = {"value": "x", "where": {"scheme": scheme}, "over": "mean"}
    model = ClaimModel(claim=scheme, paper="t", measured=value, holds={"at_least": limit}, **more)
    return parse_claim(model, NAMES, "c")[0]


def run(scheme: str, seed: int) -> Run:
    return Run(f"{scheme}{seed}", "own/s", {"scheme": scheme}, seed, {}, 1.0)


def judged(claims: Sequence[Any], most: int, said: list[str] | None = None) -> Outcome:
    def perform(runs: Sequence[Run]) -> Sequence[Row]:
        return [
            {"cell": r.cell, "seed": r.seed, "run": {"x": measured(r.cell["scheme"], r.seed)}, "flows": []}
            for r in runs
        ]

    def more(wanted: Collection[CellKey], after: int, count: int) -> Sequence[Run]:
        return [run(s, k) for s in SCHEMES if (("scheme", s),) in wanted for k in range(after + 1, count + 1)]

    first = [run(s, k) for s in SCHEMES for k in range(1, 6)]
    return until_certain(claims, first, perform, more, most, (said if said is not None else []).append)


def test_only_cells_of_undecided_claims_get_more_seeds_in_order() -> None:
    said: list[str] = []
    outcome = judged([claim("a"), claim("b"), claim("c", aside=True)], 400, said)
    decided, scattered, aside = outcome.judged
    assert (decided.state, decided.seeds) == ("holds", 5)
    assert scattered.state == "holds" and scattered.seeds in (40, 80, 160, 320)
    assert (aside.state, aside.seeds) == ("undecided", 5), "what the paper did not measure asks for no seeds"
    of = {scheme: [r.seed for r in outcome.runs if r.cell["scheme"] == scheme] for scheme in SCHEMES}
    assert of == {"a": [1, 2, 3, 4, 5], "b": list(range(1, scattered.seeds + 1)), "c": [1, 2, 3, 4, 5]}
    assert said[0] == "1 undecided, so seeds 6 to 10 of 1 cells"


def test_seeds_end_at_the_most_and_the_others_do_not_matter() -> None:
    (alone,) = judged([claim("c")], 30).judged
    assert (alone.state, alone.seeds) == ("undecided", 30)
    both = judged([claim("a"), claim("b"), claim("c")], 30).judged
    assert both[2] == alone
    assert judged([claim("c")], 0).judged[0].seeds == 5, "a number that is given stays"


def test_a_claim_at_its_bound_with_its_last_seed_differs_if_its_direction_is_certain() -> None:
    (bound,) = judged([claim("c", direction={"at_least": 0.5})], 30).judged
    assert (bound.state, bound.direction, bound.seeds, bound.at_bound) == ("differs", False, 30, "0.99 to 1.01")
    (uncertain,) = judged([claim("c", direction={"at_least": 0.999})], 30).judged
    assert (uncertain.state, uncertain.at_bound) == ("undecided", "")
    assert judged([claim("c", direction={"at_least": 0.5})], 0).judged[0].direction, (
        "seeds that are given decide nothing"
    )


def test_a_claim_depends_on_the_cells_of_its_value_its_limits_and_its_other_condition() -> None:
    rows = [{"cell": {"scheme": s}, "seed": 1, "run": {"x": 1.0}, "flows": []} for s in SCHEMES]

    def of(**more: Any) -> set[str]:
        return {dict(key)["scheme"] for key in cells(claim("a", **more), rows)}

    assert of() == {"a"}
    assert of(limit={"value": "x", "where": {"scheme": "b"}}) == {"a", "b"}
    assert of(direction={"any": [{"at_least": 0}, {"at_most": {"value": "x", "where": {"scheme": "c"}}}]}) == {"a", "c"}
    assert of(under={"scheme": {"a": "c"}}) == {"a", "c"}


def test_a_suite_asks_for_seeds_and_goes_on_where_it_was(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")
    # The share of the first of two equal flows is about a half: who has more is a matter of the seed.
    path = write(
        {
            "seeds: {full: 2, quick: 1}": "seeds: {full: 2, quick: 1, most: 7}",
            "{value: utilisation, along: scheme}": "{value: received_share, flow: w1, where: {scheme: reno}}",
            "{within: 40 %}\n    read: printed\n    why: Seconds are mostly slow start.": "{at_least: 0.5}",
        }
    )
    words = ["reproduce", str(path), "--jobs", "1", "--json", "--out"]
    assert cli.main([*words, str(tmp_path / "a")]) == 0
    shown = capsys.readouterr()
    (digest,) = json.loads(shown.out)
    assert "own/mine: 2 undecided, so seeds 3 to 4 of 2 cells" in shown.err, digest["claims"]
    rows = tmp_path / "a/own/mine/rows.jsonl"
    seen = [(row["cell"]["scheme"], row["seed"]) for row in map(json.loads, rows.read_text().splitlines())]
    assert {seed for scheme, seed in seen if scheme == "cubic"} == {1, 2}
    assert digest["seeds"] == max(seed for _, seed in seen) in (4, 7)
    # Without its last runs, as after a stop, it ends with the same files.
    before = {name: (rows.parent / name).read_text() for name in ("rows.jsonl", "claims.json", "claims.md")}
    rows.write_text("".join(line + "\n" for line in rows.read_text().splitlines()[:-3]))
    assert cli.main([*words, str(tmp_path / "a")]) == 0
    assert {name: (rows.parent / name).read_text() for name in before} == before
    capsys.readouterr()
    assert cli.main([*words, str(tmp_path / "b"), "--seeds", "2"]) == 0
    (fixed,) = json.loads(capsys.readouterr().out)
    assert fixed["seeds"] == 2 and fixed["claims"][0]["state"] == "undecided"
