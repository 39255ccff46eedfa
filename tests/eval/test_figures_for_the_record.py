"""What `ccarena eval --record` and `ccarena fidelity --record` put into docs/measurements.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ccarena.core.measurements import Source, Target, load, merge
from ccarena.eval.fidelity import figures as fidelity_figures
from ccarena.eval.heldout import figures as heldout_figures
from ccarena.eval.heldout.expectations import Expectation, Verdict
from ccarena.eval.heldout.gain import Beside, Gain

SOURCE = Source("a command", "0.1.0", "2026-01-02")


def test_an_evaluation_is_a_row_per_expectation_and_a_column_per_seed(tmp_path: Path) -> None:
    one = Expectation("constant", "The delay stays low.", "≥ 99 %", "99.4 %", True, "1 %", "98 %", "", "")
    path = tmp_path / "measurements.json"
    for seed, measured in ((1, "99.4 %"), (2, "99.5 %")):
        verdict = Verdict([Expectation(**{**vars(one), "measured": measured})], [], [])
        merge(path, heldout_figures.entries("acct", seed, verdict, SOURCE))
    entries = load(path)
    by_case = {entry.case: entry.value for entry in entries}
    assert by_case == {"seed 1": "99.4 %", "seed 2": "99.5 %", "CUBIC": "1 %", "without learning": "98 %"}
    assert {(entry.what, entry.target) for entry in entries} == {("The delay stays low.", "≥ 99 %")}


def test_the_best_rule_without_learning_is_a_row_for_each_training() -> None:
    rule = Beside("acct α=100", "constant", 0.9, 0.95, 0.07, 0.05, 0.09)
    verdict = Verdict([], [], [], gain=Gain(Beside("acct", "policy", score=1.0), [rule], "reward", 8, 5))
    (entry,) = heldout_figures.entries("acct", 2, verdict, SOURCE)
    assert (entry.name, entry.what) == ("learned/acct/gain/seed-2", "acct, training seed 2")
    assert (
        entry.value == "No: the network earns +7.0 % [5.0, 9.0] over the best rule (acct α=100) (8 links, 5 seeds each)"
    )


def case(name: str, within: bool, **fields: Any) -> dict[str, Any]:
    errors = {"throughput_rel_error": 0.02, "qdelay_mean_error_ms": 1.0, "qdelay_p95_error_ms": 2.0}
    about = {"up": "24mbps", "queue": "droptail", "queue_args": "packets=40", "cc": "cubic"}
    return {"name": name, **errors, "within": within, "chaotic": False, "strict_misses": [], **about, **fields}


def test_a_comparison_is_its_medians_and_a_row_per_kind_of_case() -> None:
    cases = [
        case("a", True),
        case("b", False),
        case("c", True, up="drive.down", queue_args="packets=400"),
        case("d", True, loss=0.01),
        case("e", True, queue="codel"),
        case("f", True, cc=["cubic", "reno"]),
    ]
    bounds = {"throughput_rel": 0.05, "delay_rel": 0.15, "delay_ms": 5.0}
    entries = {e.name: e for e in fidelity_figures.entries("recorded", {"cases": cases, "bounds": bounds}, SOURCE)}
    assert entries["fidelity/recorded/throughput"].value == 2.0 and entries["fidelity/recorded/throughput"].unit == "%"
    assert entries["fidelity/recorded/within"].value == 5
    assert entries["fidelity/recorded/within"].target == Target(at_least=6)
    assert entries["fidelity/recorded/strict"].value == 6
    rows = {entry.what: entry.value for entry in entries.values() if entry.case == "within"}
    assert rows == {
        "constant, shallow buffer, cubic": "1 of 2",
        "cellular, deep buffer, cubic": "1 of 1",
        "random loss, cubic": "1 of 1",
        "codel, cubic": "1 of 1",
        "two flows": "1 of 1",
    }
    assert fidelity_figures.entries("live", {"cases": [], "bounds": bounds}, SOURCE) == []
    policy = {"reward_gap": 0.03, "within": True}
    live = {"cases": [case("g", True, policy=policy)], "bounds": bounds}
    names = {e.name: e.value for e in fidelity_figures.entries("live", live, SOURCE)}
    assert names["fidelity/live/reward"] == 3.0 and names["fidelity/live/policies-within"] == 1
