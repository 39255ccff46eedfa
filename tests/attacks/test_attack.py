"""Attacks: they find what is broken and what is known to be weak, go on exactly, and refuse what has no limit."""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: attacks not run (run make)")

import ccarena
from ccarena.attacks.api import PLAN, Attacked, Plan, replay
from ccarena.attacks.case import Case
from ccarena.attacks.finds import FILE, read_finds
from ccarena.attacks.harms import HARMS
from ccarena.attacks.simplify import simplify
from ccarena.attacks.space import read_space
from ccarena.attacks.trial import measure
from ccarena.cli import main
from ccarena.commands.attack import add_parser
from ccarena.errors import ConfigError
from ccarena.runs.journal import FILE as ROWS
from ccarena.scenarios.entrants import parse

ROOT = Path(__file__).parents[2]
BROKEN = f"{ROOT / 'tests' / 'attacks' / 'broken.py'}:Model"
SMALL: dict[str, Any] = {"candidates": 40, "finds": 2, "seeds": 1}
STEADY = {name: {"steps": [0, 0], "level": [0.5], "change": 1} for name in ("capacity", "delay_ms", "loss")}
CRASHING = """\
import ccarena


class Crashing(ccarena.Controller):
    def on_ack(self, ack):
        self.window = 20

    def on_loss(self, loss):
        raise RuntimeError("not prepared for losses")
"""


def small(entrant: str, harm: str, **changes: Any) -> Attacked:
    return ccarena.attack(entrant, **{**SMALL, "harms": [harm], **changes})


def link(shapes: dict[str, Any] | None = None, duration_s: float = 20.0, **values: Any) -> Case:
    data = {"duration_s": duration_s, "values": {**read_space().plain, **values}, "shapes": shapes or {}}
    return Case.of(data)


def of(entrant: str, case: Case) -> dict[str, float]:
    return measure(case, parse(entrant), 1)[1]


# Definitions.


def test_a_fixed_window_has_the_harms_that_arithmetic_gives() -> None:
    pipe = 12e6 * 0.04 / 8 / 1500
    full, half = (of(f"fixed@window={round(window)}", link(buffer_bdp=4.0)) for window in (3 * pipe, pipe / 2))
    # Two BDPs wait, which is two base RTTs; the time of four packets is added to the base RTT.
    assert full["standing_queue"] == pytest.approx(2 * 40 / (40 + 4), rel=0.05)
    assert full["regret"] == pytest.approx(2 / 3, abs=0.02) and full["idle_link"] == full["loss"] == 0
    assert half["idle_link"] == pytest.approx(0.5, abs=0.03) and half["standing_queue"] == 0
    assert half["oscillation"] == pytest.approx(0, abs=0.05)


def test_starvation_is_measured_by_what_a_flow_gets_without_the_others() -> None:
    beside = link(beside="fixed@window=120", competitors=1, buffer_bdp=8.0)
    found = of("fixed@window=30", beside)
    # Shares are those of the windows, 30 and 120 packets: a fifth in place of a half.
    assert found["starved"] == pytest.approx(1 - 0.2 / 0.5, abs=0.05) and found["starves_others"] == 0
    alone = of("fixed@window=4", beside)
    # Alone it would get a tenth of the link, which is its due, and beside the others 4 of 124 packets.
    assert alone["starved"] == pytest.approx(1 - (4 / 124) / 0.1, abs=0.08)
    assert of("fixed@window=60", link(beside="itself", competitors=3, buffer_bdp=8.0))["unfair"] < 0.2


def test_a_queue_stands_only_if_it_stays_after_the_link_has_changed() -> None:
    right, broken = (f"{BROKEN}@forgets={number}" for number in (1, 0))
    course = link({"capacity": [[5, 0.05], [10, 0.2]]}, 24.0, rate_mbps=20.0, buffer_bdp=2.0)
    assert of(broken, course)["standing_queue"] > 4 * HARMS["standing_queue"].threshold
    assert of(right, course)["standing_queue"] < HARMS["standing_queue"].threshold
    assert of("bbr3", course)["standing_queue"] < HARMS["standing_queue"].threshold


# Searches.


def test_a_maximum_that_is_never_forgotten_is_found_out(tmp_path: Path) -> None:
    found = small(BROKEN, "standing_queue", out=tmp_path / "out", finds=1)
    worst = found.finds[0]
    assert worst.severity > 2 and worst.share == 1
    assert worst.case.shapes["capacity"] and "capacity steps" in worst.kind
    # The finds are a regression suite: they hold for the broken model, and are gone for the right one.
    assert main(["attack", BROKEN, "--replay", str(tmp_path / "out")]) == 1
    assert replay(tmp_path / "out", f"{BROKEN}@forgets=1").finds[0].value < worst.value / 4


@pytest.mark.parametrize(
    ("entrant", "harm", "word"),
    [
        ("cubic", "standing_queue", "alone"),
        ("vegas", "starved", "beside cubic"),
        ("copa", "idle_link", "jitter"),
        ("bbr", "regret", "jitter"),
        ("bbr", "loss", "shallow buffer"),
    ],
)
def test_known_weaknesses_are_found_again(entrant: str, harm: str, word: str) -> None:
    beside = ["cubic"] if "cubic" in word else ["nobody"]
    found = small(entrant, harm, space={"parameters": {"beside": beside}, "shapes": STEADY}, finds=4)
    assert found.finds and any(word in find.kind for find in found.finds), found


def test_a_failure_is_found_and_said(tmp_path: Path) -> None:
    (tmp_path / "cc.py").write_text(CRASHING)
    found = small(f"{tmp_path / 'cc.py'}:Crashing", "crash", candidates=16, out=tmp_path / "out")
    assert found.finds and "not prepared for losses" in found.finds[0].error
    assert "not prepared for losses" in (tmp_path / "out" / "page.html").read_text()


def test_an_attack_goes_on_exactly_and_keeps_its_finds(tmp_path: Path) -> None:
    class Enough(KeyboardInterrupt):
        pass

    def stop(done: int, total: int) -> None:
        if done >= 24:
            raise Enough

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    small("cubic", "loss", out=whole, workers=2)
    with pytest.raises(KeyboardInterrupt, match="counterexamples so far are in"):
        small("cubic", "loss", out=cut, workers=1, progress=stop)
    assert not any(find.simplified for find in read_finds(cut)[1])
    with pytest.raises(ConfigError, match="holds an attack already"):
        small("cubic", "loss", out=cut)
    with pytest.raises(ConfigError, match="other arguments"):
        small("cubic", "loss", out=cut, seed=2, resume=True)
    small("cubic", "loss", out=cut, workers=1, resume=True)
    for name in (FILE, ROWS, PLAN, "cases.csv", "page.html"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


def test_simplifying_removes_what_the_harm_does_not_need() -> None:
    plain = read_space().plain
    noisy = link(
        {"loss": [[3, 0.01]], "delay_ms": [[4, 10.0], [9, 20.0]]},
        rtt_ms=33.3,
        buffer_bdp=6.57,
        jitter_ms=0.7,
        queue="droptail",
    )
    harm = HARMS["standing_queue"]

    def run(case: Case) -> float:
        return case.values["buffer_bdp"] - 1.0  # a queue that depends on the buffer alone

    simple, value = simplify(noisy, run(noisy), harm, plain, run)
    assert not any(simple.shapes.values()) and simple.duration_s == 10.0
    assert {name: each for name, each in simple.values.items() if each != plain[name]} == {
        "buffer_bdp": simple.values["buffer_bdp"]
    }
    assert value >= harm.threshold and simple.values["buffer_bdp"] < 6.57


def test_steps_that_come_to_one_time_are_merged() -> None:
    close = link({"capacity": [[20.4, 0.3], [21.0, 0.5], [23.0, 0.2]]}, 24.0, buffer_bdp=4.0)
    tried: list[Case] = []

    def run(case: Case) -> float:
        tried.append(case)
        return 5.0 if len(case.shapes["capacity"]) == 3 else 0.0

    simplify(close, 5.0, HARMS["standing_queue"], read_space().plain, run)
    assert any(len(each.shapes["capacity"]) == 2 for each in tried)
    for each in tried:
        times = [at for at, _ in each.shapes["capacity"]]
        assert times == sorted(set(times)) and min(times, default=1.0) >= 0.5


def test_a_lossy_link_is_steady_and_not_a_step_at_its_start() -> None:
    stepped = link({"loss": [[3.0, 0.1]]})
    harm = HARMS["idle_link"]

    def run(case: Case) -> float:
        return of("cubic", case)["idle_link"]

    simple, value = simplify(stepped, run(stepped), harm, read_space().plain, run)
    assert not any(simple.shapes.values()) and simple.values["loss"] > 0 and value >= harm.threshold


FAILING = """\
import ccarena


class Failing(ccarena.Controller):
    def on_ack(self, ack):
        raise RuntimeError("of no use")
"""


def test_a_competitor_that_fails_is_no_harm_of_the_entrant(tmp_path: Path) -> None:
    (tmp_path / "cc.py").write_text(FAILING)
    other = f"{tmp_path / 'cc.py'}:Failing"
    space = {"parameters": {"beside": [other]}}
    assert not small("cubic", "crash", candidates=4, space=space, out=tmp_path / "out").finds
    assert "a competitor: " in (tmp_path / "out" / "cases.csv").read_text()
    assert small(other, "crash", candidates=4).finds


# Files.


def test_an_attack_goes_on_with_the_same_program_alone(tmp_path: Path) -> None:
    (tmp_path / "cc.py").write_text(FAILING)
    entrant, out = f"{tmp_path / 'cc.py'}:Failing", tmp_path / "out"
    small(entrant, "crash", candidates=2, out=out)
    small(entrant, "crash", candidates=2, out=out, resume=True)
    (tmp_path / "cc.py").write_text(FAILING.replace("no use", "some use"))
    with pytest.raises(ConfigError, match="the entrant or ccarena has changed"):
        small(entrant, "crash", candidates=2, out=out, resume=True)
    (out / PLAN).write_text((out / PLAN).read_text().replace("- crash", "- 3"))
    with pytest.raises(ConfigError, match="expected texts"):
        small(entrant, "crash", candidates=2, out=out, resume=True)


def test_files_of_the_user_are_kept(tmp_path: Path) -> None:
    (tmp_path / "10-mine.yaml").write_text("mine")
    for harm in ("loss", "standing_queue"):
        assert small("reno", harm, out=tmp_path).finds
        (tmp_path / PLAN).unlink()
    kept = {path.name for path in tmp_path.glob("[0-9]*.yaml")}
    assert kept == {"10-mine.yaml", *(find.file for find in read_finds(tmp_path)[1])}


def test_a_find_is_judged_by_other_seeds_than_it_was_chosen_by(tmp_path: Path) -> None:
    finds = small("bbr", "regret", candidates=24, seeds=3, out=tmp_path / "out").finds
    assert finds
    for find in finds:
        values = [measure(find.case, parse("bbr"), seed)[1]["regret"] for seed in (2, 3, 4)]
        assert find.value == sorted(values)[1] >= find.threshold
        assert (find.seeds, round(find.share * 3)) == (3, sum(value >= find.threshold for value in values))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("attack") / "out"
    space = {"parameters": {"beside": ["nobody", "itself"]}}
    ccarena.attack("reno", candidates=48, finds=1, seeds=1, space=space, out=out)
    return out


def test_each_find_is_a_scenario_that_shows_its_harm(attacked: Path, tmp_path: Path) -> None:
    text, finds = read_finds(attacked)
    assert text == "reno" and {"standing_queue", "idle_link"} <= {find.harm for find in finds}
    assert {path.name for path in attacked.glob("[0-9]*.yaml")} == {find.file for find in finds}
    for find in finds[:2]:
        document = yaml.safe_load((attacked / find.file).read_text())
        assert document["flows"][0]["scheme"] == "reno"
        again = ccarena.run(document)[0]
        other = measure(find.case, parse("reno"), 1)[0]
        assert again.result["links"][0]["delivered_bytes"] == other.result["links"][0]["delivered_bytes"]
    assert main(["eval", "--scenario", str(attacked / finds[0].file), "--out", str(tmp_path / "eval")]) == 0
    page = (attacked / "page.html").read_text()
    assert "Standing queue" in page and finds[0].file in page


def test_a_replay_judges_another_entrant(attacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attack", "reno", "--replay", str(attacked), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["finds"]
    assert all(row["value"] >= row["threshold"] for row in rows)
    shutil.copy(attacked / FILE, attacked.parent / "list.yaml")
    assert replay(attacked.parent / "list.yaml").finds == replay(attacked).finds
    assert len(replay(attacked, "bbr3", seeds=1).finds) == len(rows)


# Bad input.


@pytest.mark.parametrize(
    ("space", "error"),
    [
        ({"parameters": {"rate_mbps": None}}, "parameters.rate_mbps: has no limit"),
        ({"parameters": {"rtt_ms": {"uniform": [1, math.inf]}}}, "parameters.rtt_ms = inf: has no limit"),
        ({"parameters": {"rtt_ms": {"uniform": [1]}}}, "parameters.rtt_ms: uniform"),
        ({"parameters": {"rate_mbps": [1e9]}}, "parameters.rate_mbps = 1e\\+09: expected 0.05 to 1000"),
        ({"parameters": {"rate": [1]}}, 'unknown key of parameters "rate"; did you mean "rate_mbps"'),
        ({"parameters": {"queue": ["cobalt"]}}, 'parameters.queue: unknown queue "cobalt"'),
        ({"parameters": {"beside": ["cubik"]}}, 'parameters.beside: entrant "cubik"'),
        ({"shapes": {"capacity": {"steps": [0, 4], "level": [0.5]}}}, 'shapes.capacity: has no limit "change"'),
        ({"shapes": {"loss": {"level": [0.5], "change": 1}}}, 'shapes.loss: has no limit "steps"'),
        ({"shapes": {"loss": {"steps": [0, 1e3], "level": [0.5], "change": 1}}}, "shapes.loss.steps"),
        ({"shapes": {"delay_ms": {"steps": [0, 2], "level": [0.5], "change": math.inf}}}, "change = inf: has no limit"),
        ({"parameters": {"competitors": {"uniform": [1, 3]}}}, "competitors = .*expected whole numbers, such as"),
        ({"parameters": {"competitors": [1, 2.5]}}, "competitors = .*expected whole numbers"),
        ({"shape": {}}, 'unknown key "shape"; did you mean "shapes"'),
        ({"duration_s": 1e9}, "duration_s = 1e\\+09: expected 2 to 600"),
    ],
)
def test_a_space_without_a_limit_is_refused_by_name(space: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=error):
        ccarena.attack("cubic", space=space, out=tmp_path / "out")
    assert not (tmp_path / "out").exists(), "it was refused before anything was written"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("attack cubic --harm starve", 'unknown harm "starve"; did you mean "starved"'),
        ("attack kernel:cubic", "which does not run in the simulator"),
        ("attack cubik", 'unknown "cubik"'),
        ("attack cubic --candidates 0", "candidates = 0"),
        ("attack cubic --space missing.yaml", "missing.yaml: cannot be read"),
        ("attack cubic --backend quic", "--backend has no effect without --replay"),
        ("attack --resume", "--resume: which attack"),
        ("attack", "name the entrant"),
        ("attack cubic --replay missing", "missing: cannot be read"),
    ],
)
def test_errors_name_what_is_wrong(
    words: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert error in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda find: find["case"]["values"].pop("late_s"), "case.values = .*expected a value of"),
        (lambda find: find["case"]["values"].update(rtt_ms=[10, 20]), "case.values.rtt_ms = .*expected a number"),
        (lambda find: find["case"]["values"].update(queue={"choice": ["pie"]}), "case.values.queue = "),
        (lambda find: find["case"]["values"].update(competitors=2.7), "competitors = 2.7: expected a whole number"),
        (lambda find: find["case"]["values"].update(rate_mbps=1e9), "rate_mbps = 1e\\+09: expected 0.05 to 1000"),
        (lambda find: find["case"]["shapes"].update(capacity=[[5, 0.5], [5, 0.4]]), "times above 0 that increase"),
        (lambda find: find["case"]["shapes"].update(loss=[[1 + n, 0.1] for n in range(51)]), "at most 50 steps"),
        (lambda find: find["case"]["shapes"].update(loss=3), "case.shapes.loss = 3: expected a list"),
        (lambda find: find["case"].update(duration_s="long"), "case.duration_s = .*expected a number"),
        (lambda find: find.update(threshold=0), "threshold = 0: expected 1e-09"),
        (lambda find: find.update(value="much"), "value = .*expected a number"),
        (lambda find: find.update(share=1.5), "share = 1.5: expected 0 to 1"),
        (lambda find: find.update(seeds=1.5), "seeds = 1.5: expected a whole number"),
        (lambda find: find.update(harm="hurt"), 'unknown harm "hurt"'),
        (lambda find: find.pop("kind"), "is damaged"),
    ],
)
def test_a_find_that_was_edited_badly_is_refused_by_its_key(
    attacked: Path, tmp_path: Path, change: Any, error: str
) -> None:
    data = yaml.safe_load((attacked / FILE).read_text())
    change(data["finds"][0])
    (tmp_path / FILE).write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match=rf"finds\[0\]: .*{error}"):
        read_finds(tmp_path)


def test_a_replay_checks_its_numbers_and_shows_what_is_judged(attacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="seeds = -1"):
        replay(attacked, seeds=-1)
    with pytest.raises(ConfigError, match="workers = 0"):
        replay(attacked, workers=0)
    finds = read_finds(attacked)[1]

    def stop(done: int, total: int) -> None:
        assert total == 2 * len(finds)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=f"1 of {len(finds)} finds are judged\n.*: (holds|gone)"):
        replay(attacked, seeds=2, workers=1, progress=stop)


def test_help_names_every_harm_and_the_defaults_of_a_plan() -> None:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    [commands] = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    options = {each.dest: each for each in commands.choices["attack"]._actions}
    assert all(name in str(options["harms"].help) for name in HARMS)
    for name in ("candidates", "finds", "seeds", "seed"):
        default = getattr(Plan, name)
        assert options[name].default == default and f"({default}" in str(options[name].help)


def test_finds_are_refused_where_the_entrant_cannot_run(attacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attack", BROKEN, "--replay", str(attacked), "--backend", "kernel"]) == 2
    assert "a Python class, which runs in the simulator only" in capsys.readouterr().err


def test_a_harm_that_no_case_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="harm starved: the space has no case of it; add an entrant"):
        small("cubic", "starved", space={"parameters": {"beside": "nobody"}})
