"""Population-based training: who copies whom, what may change, copies of trainings, and a population on Ray Tune."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PYTORCH NOT INSTALLED: populations are not tested (ccarena[train])")
pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training on it not tested (run make)")

from bench import nodes
from ccarena import cli
from ccarena.agents import checkpoint
from ccarena.agents.api import train
from ccarena.configs import load_config
from ccarena.core.dimensions import Dimension
from ccarena.runs.run_folder import LOCK, is_in_use, read_progress
from ccarena.tune import population
from ccarena.tune.copying import complete
from ccarena.tune.population import Comparison, Copy, compare, read, settings
from ccarena.tune.space import Space
from ccarena.tune.trial import Trials
from tests.tune.test_tune import NO_TUNE, SMALL, space

SPACE = Space(
    {
        "algorithm.actor_lr": Dimension("log_uniform", (1e-4, 1e-2)),
        "algorithm.gamma": Dimension("choice", (0.5, 0.9, 0.99)),
        "algorithm.n": Dimension("int", (1, 9)),
    }
)
MIDDLE = {"algorithm.actor_lr": 1e-3, "algorithm.gamma": 0.9, "algorithm.n": 5}


def test_the_worst_quarter_copies_the_best_quarter_and_perturbs() -> None:
    scores = {f"m{at}": float(at) for at in range(8)} | {"m7": float("nan")}
    now = {name: {**MIDDLE, "algorithm.n": at + 1} for at, name in enumerate(scores)}
    found = compare(3, scores, now, SPACE)
    assert [copy.member for copy in found.copies] == ["m7", "m0"], "a score that is no number is the worst"
    assert {copy.source for copy in found.copies} <= {"m5", "m6"}
    backwards = dict(reversed(scores.items()))
    assert compare(3, backwards, now, SPACE).copies == found.copies, "whichever trial reported first"
    assert compare(1, {"a": 1.0}, {"a": MIDDLE}, SPACE).copies == []


def test_every_value_stays_in_its_dimension_and_moves() -> None:
    seen: dict[str, set[Any]] = {key: set() for key in SPACE.dimensions}
    setting: dict[str, Any] = {"algorithm.actor_lr": 9.9e-3, "algorithm.gamma": 0.99, "algorithm.n": 2}
    for validation in range(1, 300):
        (copy,) = compare(validation, {"a": 0.0, "b": 1.0}, {"a": setting, "b": setting}, SPACE).copies
        assert copy.setting.keys() == SPACE.dimensions.keys() and 1e-4 <= copy.setting["algorithm.actor_lr"] <= 1e-2
        for key, value in copy.setting.items():
            seen[key].add(value)
    assert seen["algorithm.gamma"] == {0.5, 0.9, 0.99} and seen["algorithm.n"] == set(range(1, 10))
    rates = seen["algorithm.actor_lr"]
    assert 1e-2 in rates and pytest.approx(0.8 * 9.9e-3) in list(rates) and len(rates) > 40


def test_a_setting_is_that_of_the_last_copy(tmp_path: Path) -> None:
    first, second = ({**MIDDLE, "algorithm.n": n} for n in (6, 7))
    for at, setting in enumerate((first, second), start=1):
        population.add(tmp_path, Comparison(at, {"a": 0.0, "b": 1.0}, [Copy("a", "b", setting)]))
    assert [each.validation for each in read(tmp_path)] == [1, 2]
    assert settings(read(tmp_path), "a", MIDDLE) == second and settings(read(tmp_path), "b", MIDDLE) == MIDDLE


OWN = """
class Bare:
    def learn(self, run): ...

class Fixed(Bare):
    def state(self): ...
    def restore(self, arrays, rest): ...

class Free(Fixed):
    in_flight = ("rate",)
"""


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("env.worlds: [4, 8]", "", "env.worlds cannot change while a3c trains, and members of a population copy"),
        ("algorithm.workers: [1, 2]", "", "expected algorithm.KEY with KEY one of actor_lr, critic_lr, entropy,"),
        ("network.hidden: [4, 8]", "", "network.hidden cannot change while a3c trains"),
        ("algorithm.sigma: [0.1, 0.2]", "--algorithm cma_es", "algorithm = cma_es: none of its keys can change"),
        ("algorithm.buffer_size: [64, 128]", "--algorithm.name TD3 --config hyvar", "cannot change while TD3 trains"),
        ("algorithm.rate: [0.1, 0.2]", "--algorithm own.py:Bare", "own.py:Bare: it has no state, restore, and a"),
        ("algorithm.rate: [0.1, 0.2]", "--algorithm own.py:Fixed", "an attribute `in_flight` of its class names"),
        ("algorithm.size: [1, 2]", "--algorithm own.py:Free", "with KEY one of rate, or --scheduler asha"),
        ("algorithm.gamma: [0.5, 0.9]", "--search optuna", "--search optuna has no effect with --scheduler pbt"),
        ("algorithm.gamma: [0.5, 0.9]", "--samples 1", "--samples 1: expected at least 2 with --scheduler pbt"),
        ("algorithm.gamma: [0.5, 0.9]", "--validations 1", "--validations 1: expected at least 2"),
        ("algorithm.gamma: [0.5, 0.9]", "--validation.patience 3", "validation.patience = 3: it ends a training early"),
        ("algorithm.gamma: [0.5, 0.9]", "--validation.every_decisions 7", "it follows from --validations; leave it"),
    ],
)
def test_a_population_that_cannot_be_is_refused_by_name(
    text: str,
    words: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ccarena.commands.tune.prepare", None)
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    plain = [] if "--algorithm" in words else SMALL[2:4]
    command = ["tune", "--scheduler", "pbt", "--space", str(space(tmp_path, text)), *words.split(), *plain]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


def trained(run: str, **changes: Any) -> bool:
    given = dict(
        zip(
            (word.removeprefix("--").replace("-", "_") for word in SMALL[::2]),
            map(json.loads, SMALL[1::2]),
            strict=True,
        )
    )
    more = {"validation.every_decisions": 300, "eval.link_sets": [], "rules.links": 0, "seed": 1}
    return train("acct", {**given, **more, **changes}, out=run, until=300).finished


@pytest.mark.parametrize("at_url", [False, True])
def test_a_copy_has_the_weights_and_goes_on_with_the_other_setting(
    at_url: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if at_url:
        pytest.importorskip("fsspec", reason="FSSPEC IS NOT INSTALLED: populations at a URL are not tested")
    trials = Trials(f"file://{tmp_path}" if at_url else str(tmp_path))
    here = {name: tmp_path / "trials" / name / "seed-1" for name in "ab"}
    assert not trained(trials.run("a", 1), **{"algorithm.gamma": 0.5})
    assert not trained(trials.run("b", 1), **{"algorithm.gamma": 0.9, "algorithm.actor_lr": 0.01})
    before = {name: checkpoint.load(folder) for name, folder in here.items()}
    assert all(300 <= each.rest["validation"]["validated"] < 600 for each in before.values()), "as far as was asked"
    setting = {"algorithm.gamma": 0.99, "algorithm.actor_lr": 0.008}
    comparison = Comparison(1, {"a": 0.0, "b": 1.0}, [Copy("a", "b", setting)])
    complete(trials, comparison, [1])
    copied = checkpoint.load(here["a"])
    assert copied.arrays.keys() == before["b"].arrays.keys() != {}
    for name, array in before["b"].arrays.items():
        np.testing.assert_array_equal(copied.arrays[name], array)
    assert not np.array_equal(
        copied.arrays["algorithm.learner.weights"], before["a"].arrays["algorithm.learner.weights"]
    )
    assert (here["a"] / "validation.jsonl").read_bytes() == (here["b"] / "validation.jsonl").read_bytes()

    # Repeated after it was made, it does nothing, though the copied training has gone on.
    done = train(out=trials.run("a", 1), resume=True)
    assert done.finished and done.config.algorithm.gamma == 0.99  # type: ignore[union-attr]
    if not at_url:
        assert done.policy().training["algorithm"]["actor_lr"] == 0.008
    after = (here["a"] / "checkpoint.safetensors").read_bytes()
    complete(trials, comparison, [1])
    assert (here["a"] / "checkpoint.safetensors").read_bytes() == after
    assert [row["decisions"] >= 600 for row in read_progress(here["a"] / "validation.jsonl")] == [False, True]


class Controller:
    """Stand-in for the part of Ray Tune that the scheduler uses."""

    def __init__(self, names: str) -> None:
        self.trials = [SimpleNamespace(trial_id=n, status="PENDING", config=MIDDLE) for n in names]
        for trial in self.trials:
            trial.is_finished = lambda trial=trial: trial.status in ("TERMINATED", "ERROR")

    def get_trials(self) -> list[Any]:
        return self.trials

    def pause_trial(self, trial: Any, should_checkpoint: bool) -> None:
        trial.status = "PAUSED"


def test_members_wait_for_each_other_and_not_for_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)
    from ccarena.tune import pbt

    copied: list[Comparison] = []
    monkeypatch.setattr(pbt, "complete", lambda trials, comparison, seeds: copied.append(comparison))
    scheduler, controller = pbt.Population(Trials(str(tmp_path)), [1], SPACE, 4, 3), Controller("abcd")

    def reports(name: str, validation: int, score: float) -> None:
        (trial,) = (each for each in controller.trials if each.trial_id == name)
        scheduler.on_trial_result(controller, trial, {"validation": validation, "score": score})

    for name, score in zip("abc", (2.0, 1.0, 3.0), strict=True):
        reports(name, 1, score)
        assert scheduler.choose_trial_to_run(controller).status == "PENDING" and not copied
    controller.trials[3].status = "RUNNING"
    assert scheduler.choose_trial_to_run(controller) is None, "the others wait"
    reports("d", 1, 4.0)
    assert scheduler.choose_trial_to_run(controller).trial_id == "a"
    (first,) = read(tmp_path)
    assert [(copy.member, copy.source) for copy in first.copies] == [("b", "d")] and copied == [first]

    # Another process goes on; of its members one fails, and all report where the first process was killed.
    scheduler = pbt.Population(Trials(str(tmp_path)), [1], SPACE, 4, 3)
    for name, score in zip("bcd", (1.0, 3.0, 2.0), strict=True):
        reports(name, 2, score)
    assert scheduler.choose_trial_to_run(controller).trial_id == "a"
    controller.trials[0].status = "ERROR"
    assert scheduler.choose_trial_to_run(controller).trial_id == "b"
    assert read(tmp_path)[1].scores == {"b": 1.0, "c": 3.0, "d": 2.0}
    last = {"validation": 3, "score": 1.0}
    assert scheduler.on_trial_result(controller, controller.trials[1], last) == "CONTINUE", "it ends by itself"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster whose head computes nothing."""
    pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    # This process has imported Ray without a token (`ccarena.executors.ray.module`), and the sweep would ask for one.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster = nodes.started()
    yield cluster
    cluster.shutdown()


def machine_of(process: int, machines: list[Any]) -> Any:
    """Returns the node of a process: one of its ancestors is the node's."""
    above = [process]
    while above[-1] > 1:
        above.append(int(Path(f"/proc/{above[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
    for node in machines:
        if any(each.process.pid in above for kind in node.all_processes.values() for each in kind):
            return node
    raise AssertionError(f"process {process} is of no node")


@pytest.mark.slow
@pytest.mark.alone
def test_a_population_keeps_what_it_has_earned_after_a_lost_node_and_ctrl_c(cluster: Any, tmp_path: Path) -> None:
    """Members train on two nodes of two cores. One node is killed amid their second part, and then the sweep ends."""
    machines = [nodes.add(cluster, num_cpus=2) for _ in range(2)]
    out, command = tmp_path / "sweep", [sys.executable, "-m", "ccarena.cli", "tune", "--out", str(tmp_path / "sweep")]
    command += ["--ray-address", cluster.address]
    text = "algorithm.actor_lr: {log_uniform: [1.0e-4, 1.0e-2]}\nalgorithm.gamma: [0.5, 0.9]"
    words = ["--space", str(space(tmp_path, text)), "--samples", "4", "--seeds", "1", "--validations", "3"]
    process = subprocess.Popen([*command, *words, "--scheduler", "pbt", *SMALL], stderr=subprocess.PIPE, text=True)

    def until(comparisons: int, training: int) -> list[Path]:
        """Waits for so many comparisons, and returns as many runs that train then."""
        deadline_s = time.monotonic() + 900
        while True:
            assert process.poll() is None and time.monotonic() < deadline_s, process.communicate()[1]
            runs = [run for run in out.glob("trials/*/seed-1") if is_in_use(run) and (run / LOCK).read_text()]
            if len(read(out)) >= comparisons and len(runs) >= training:
                return runs[:training]
            time.sleep(0.1)

    (run,) = until(1, training=1)
    nodes.kill(machine_of(int((run / LOCK).read_text()), machines))
    (first,) = read(out)
    until(2, training=0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    goes_on = f"; go on with: ccarena tune --out {out} --resume --ray-address {cluster.address}\n"
    assert process.returncode == cli.INTERRUPTED and said.endswith(goes_on)
    seen = {path: path.read_bytes() for path in out.glob("trials/*/seed-1/validation.jsonl")}
    assert len(seen) == 4
    assert subprocess.run([*command, "--resume"]).returncode == 0
    found = read(out)
    assert found[0] == first and [each.validation for each in found] == [1, 2]
    for path, text_before in seen.items():
        decisions = [row["decisions"] for row in read_progress(path)]
        assert len(decisions) == 3 and decisions == sorted(set(decisions))
        # No validation was repeated: each curve begins with what some member had earned.
        assert any(path.read_bytes().startswith(each) for each in seen.values()), text_before
    for copy in found[-1].copies:
        target, source = (
            load_config(out / "trials" / name / "seed-1/config.yaml") for name in (copy.member, copy.source)
        )
        assert target.algorithm.actor_lr == copy.setting["algorithm.actor_lr"] != source.algorithm.actor_lr  # type: ignore[union-attr]
    with open(out / "trials.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and {row["state"] for row in rows} == {"whole"}
    best = json.loads((out / "best.json").read_text("utf-8"))
    assert all((Path(run) / "policy.safetensors").is_file() for run in best["runs"])
    assert "Copies" in (out / "page.html").read_text("utf-8")
