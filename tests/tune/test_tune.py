"""Spaces, the report of a sweep, and a sweep on Ray Tune that is interrupted."""

from __future__ import annotations

import csv
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import nodes
from ccarena import cli
from ccarena.commands import tune
from ccarena.configs import load_config
from ccarena.core.dimensions import Dimension
from ccarena.errors import ConfigError
from ccarena.extras import how_to_add
from ccarena.tune import space_files
from ccarena.tune.page import rows_of, table_of, write
from ccarena.tune.space import Space, read_space
from ccarena.tune.sweep import Plan, _on_one_line
from ccarena.tune.trial import Base, Trials

NO_TUNE = "RAY TUNE IS NOT INSTALLED: sweeps are not run (ccarena[tune])"
SMALL = ["--env.worlds", "4", "--algorithm.workers", "1", "--network.filters", "1", "--network.hidden", "4"]
SMALL += ["--env.link.kinds.trace", "0", "--validation.links", "1", "--total-decisions", "600"]


def space(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return path


def test_a_space_is_read(tmp_path: Path) -> None:
    text = (
        "algorithm.gamma: [0.8, 0.9]\nalgorithm.actor_lr: {log_uniform: [1.0e-4, 1.0e-2]}\nenv.worlds: {int: [16, 64]}"
    )
    found = read_space(space(tmp_path, text), "acct", {"algorithm.workers": 1}).dimensions
    assert found["algorithm.gamma"] == Dimension("choice", (0.8, 0.9))
    assert found["algorithm.actor_lr"] == Dimension("log_uniform", (1e-4, 1e-2))
    assert found["env.worlds"] == Dimension("int", (16, 64))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a mapping of configuration keys"),
        ("algorithm.gama: [0.8, 0.9]", "gama"),
        ("algorithm.gamma: [0.8, 2]", "gamma"),
        ("algorithm.gamma: {log_unifrom: [0.1, 0.9]}", 'unknown kind "log_unifrom"; did you mean "log_uniform"'),
        ("algorithm.gamma: {uniform: [0.9, 0.1]}", r"uniform = \[0.9, 0.1\]: expected \[low, high\] with low < high"),
        ("algorithm.gamma: {log_uniform: [0, 0.1]}", "above 0 with low < high"),
        ("algorithm.gamma: 0.9", "expected a list of values, or one of choice, grid, uniform"),
        ("seed: [1, 2]", "seed cannot be searched; every trial is trained with --seeds seeds"),
        (
            "reward: [power, {name: own.py:Mine, weigth: 2}]",
            'space.yaml: reward.weigth = 2: own.py:Mine takes no such argument; did you mean "weight"',
        ),
        ("reward.name: ['own.py:Mine']", "reward.omega = 10: own.py:Mine takes no such argument; it takes weight"),
        ("reward: ['own.py:Mine', power]\nreward.weight: [1, 2]", "reward.weight = 1: power takes no such argument"),
        ("objective: [reward, {name: log_power, wieght: 1}]", 'objective.wieght = 1: .*did you mean "weight"'),
        ("env.link.traces: [auto, [absent.down]]", "space.yaml: env.link.traces: .*absent.down"),
        ("env.link: [{kinds: {conditions: 1}, conditions: [absent.csv]}]", "space.yaml: .*absent.csv"),
        ("env.link.presets: [auto, [lte-drivin]]", 'space.yaml: env.link.presets: .*did you mean "lte-driving"'),
        ("baselines: [[cubik]]", 'space.yaml: baselines: .*did you mean "cubic"'),
    ],
)
def test_a_wrong_space_is_refused(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    with pytest.raises(ConfigError, match=message):
        read_space(space(tmp_path, text), "acct", {})


OWN = """class Mine:
    def __init__(self, weight=1.0):
        self.weight = weight

    def __call__(self, report):
        return self.weight * report.throughput_mbps
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: [{name: mlp}, {name: mlp, hiden: [4]}]", "network.hiden = [4]: mlp takes no such argument; did you"),
        ("algorithm: [{name: PPO, n_steps: 8}, {name: PPO, n_stepz: 8}]", "algorithm.n_stepz = 8: PPO takes no such"),
        ("algorithm: [{name: cma_es, params: {budgt_ms: [1, 2]}}]", 'unknown parameter "budgt_ms"; did you mean'),
        ("eval.recordings: [[], [absent.down]]", 'unknown recording "absent.down"'),
    ],
)
def test_a_setting_that_no_training_would_begin_with_is_refused_before_a_cluster_is_asked(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ccarena.tune.sweep.check_here", lambda _: None)
    monkeypatch.setattr("ccarena.tune.sweep.connect", None)
    monkeypatch.chdir(tmp_path)
    assert (
        cli.main(["tune", "--space", str(space(tmp_path, text)), "--env.worlds", "4", "--validation.links", "1"]) == 2
    )
    said = capsys.readouterr().err
    assert "space.yaml: " in said and message in said
    assert not Path("runs").exists()


def test_numbers_of_a_space_are_no_kinds_of_their_own() -> None:
    dimensions = {
        "algorithm.gamma": Dimension("uniform", (0.5, 0.9)),
        "reward.name": Dimension("choice", ("power", "acct")),
        "algorithm.max_grad_norm": Dimension("choice", (0.5, 1.0, None)),
    }
    kinds = Space(dimensions).kinds()
    assert [list(each.values()) for each in kinds] == [[0.5, "power", 0.5], [0.5, "acct", 0.5], [0.5, "power", None]]


def test_files_that_a_space_names_are_copied_or_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import shares\ndef mine(report):\n    return report.rtt_ms"
    for name, content in {"mine.py": text, "shares.py": "", "up.trace": "1\n", "cubic": ""}.items():
        (tmp_path / name).write_text(content)
    dimensions = {
        "reward": Dimension("grid", ({"name": "mine.py:mine"}, {"name": "power"})),
        "env.link.traces": Dimension("choice", (["up.trace"], ["gone.trace"])),
        "baselines": Dimension("choice", (["cubic"],)),
        "algorithm.gamma": Dimension("uniform", (0.5, 0.9)),
    }
    given, out = Space(dimensions), tmp_path / "sweep"
    kept = space_files.keep(given, out)
    assert set(kept) == {"mine.py:mine", "up.trace"} and kept["up.trace"] == str(tmp_path / "up.trace")
    copy = out / kept["mine.py:mine"].removesuffix(":mine")
    assert copy.read_text() == text and (copy.parent / "shares.py").is_file()
    setting = {"reward": {"name": "mine.py:mine"}, "env.link.traces": ["up.trace"], "algorithm.gamma": 0.6}
    base = Base.of(load_config("acct", {"env.link.traces": ["other.trace"]}), given, kept, out)
    monkeypatch.chdir("/")
    here = base.here(setting)
    assert here == {**setting, "reward": {"name": f"{copy}:mine"}, "env.link.traces": [str(tmp_path / "up.trace")]}
    assert base.located(setting)["env.link.traces"] == here["env.link.traces"]
    assert base.located({})["env.link.traces"] == ["other.trace"]


def test_trials_are_compared_by_the_mean_over_seeds(tmp_path: Path) -> None:
    # The lucky seed of b does not make it the best; c was ended early while it was ahead; d failed.
    trials = Trials(str(tmp_path))
    for trial, first, second in (("a", [1.0, 5.0], [1.0, 7.0]), ("b", [1.0, 11.0], [1.0, -1.0]), ("c", [9.0], [9.0])):
        validated(Path(trials.run(trial, 1)), first)
        validated(Path(trials.run(trial, 2)), second)
    found: list[dict[str, Any]] = [{"trial": name, "setting": {"k": name}, "error": None} for name in "cba"]
    found.append({"trial": "d", "setting": {"k": "d"}, "error": "broken"})
    rows = rows_of(trials, found, seeds=2, last=2)
    assert [(row["trial"], row["state"]) for row in rows] == [
        ("a", "whole"),
        ("b", "whole"),
        ("c", "ended early"),
        ("d", "failed"),
    ]
    assert (rows[0]["mean"], rows[0]["decisions"], rows[0]["scores"]) == (6.0, 200, [5.0, 7.0])
    head, cells = table_of(rows)
    assert head == ["trial", "state", "k", "decisions", "validation score", "seeds"]
    # Student's t with one degree of freedom: 12.706 standard errors.
    assert cells[0] == ["a", "whole", "a", "200", "6.000 ± 12.706", "2"] and cells[3][4] == "–"
    write(tmp_path, trials, rows, "acct", "ccarena tune --space x.yaml", {})
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Best of the whole trainings: k = a; validation score 6.000 (trial a)." in page
    assert "Failed: 1 of 4 trials." in page and "<li>d: broken</li>" in page


def validated(folder: Path, scores: list[float]) -> None:
    """A run whose validations came to `scores`, and one before it to more: where it began says nothing of a setting."""
    folder.mkdir(parents=True)
    rows = [{"decisions": 100 * n, "score": score} for n, score in enumerate([1000.0, *scores])]
    (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("at_url", [False, True])
def test_a_resumed_sweep_compares_with_the_trials_before_it(tmp_path: Path, at_url: bool) -> None:
    pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)
    from ccarena.tune.asha import Asha

    trials = Trials(str(tmp_path))
    scheduler = Asha(Trials(f"file://{tmp_path}") if at_url else trials, [1], 9)
    scheduler.set_search_properties("score", "max")
    # Before the sweep was killed: three good ones, of which the last was the best until its third validation.
    for trial, scores in (("a", [5.0]), ("b", [6.0]), ("c", [7.0, 8.0, 9.0])):
        validated(Path(trials.run(trial, 1)), scores)
    for trial in "abcde":
        scheduler.on_trial_add(None, SimpleNamespace(trial_id=trial))

    def answer(trial: str, validation: int, score: float) -> str:
        result = {"validation": validation, "score": score}
        return scheduler.on_trial_result(None, SimpleNamespace(trial_id=trial), result)

    assert answer("d", 1, 4.0) == "STOP" and answer("e", 1, 10.0) == "CONTINUE"
    assert answer("e", 3, 8.0) == "STOP"


def test_progress_counts_the_trials_of_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    @contextmanager
    def noted(line: Callable[[], str]) -> Iterator[None]:
        lines.append(line())
        yield

    monkeypatch.setattr("ccarena.commands.tune.heartbeat", noted)
    monkeypatch.setattr("ccarena.commands.tune.sweep", lambda *_: ([], 1))
    plan = Plan("a", 3, 1, "random", "none", 1, {}, "")
    tune._sweep(tmp_path, plan, Space({"algorithm.gamma": Dimension("grid", (0.5, 0.9))}), None)
    assert lines == ["sweep: 0 of 6 trials begun"]


def test_the_error_of_a_trial_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
    log = logging.getLogger("test_tune")
    log.addFilter(_on_one_line)
    log.error("Trial task failed for trial %s", "a", exc_info=ValueError("ray::train() (pid=1)\n  File\nseed 1 ended"))
    assert caplog.text.endswith("Trial task failed for trial a: seed 1 ended\n")


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)
    pytest.importorskip("optuna", reason="OPTUNA IS NOT INSTALLED: its search is not run (ccarena[optuna])")
    out, command = tmp_path / "sweep", [sys.executable, "-m", "ccarena.cli", "tune", "--out", str(tmp_path / "sweep")]
    words = ["--space", str(space(tmp_path, "algorithm.gamma: {uniform: [0.5, 0.9]}")), "--samples", "3"]
    words += ["--seeds", "2", "--validations", "3", "--search", "optuna", "--scheduler", "asha"]
    process = subprocess.Popen([*command, *words, *SMALL, "--total-decisions", "3000", "--checkpoint-every-s", "0.2"])
    deadline_s = time.monotonic() + 180
    while not any(out.glob("trials/*/seed-*/validation.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.1)
    process.kill()
    process.wait()
    seen = {path: path.read_text() for path in out.glob("trials/*/seed-*/validation.jsonl")}
    assert subprocess.run([*command, "--resume"]).returncode == 0
    with open(out / "trials.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["trial"] for row in rows) == dict.fromkeys((row["trial"] for row in rows), 2)
    assert len(rows) == 3 * 2 and {row["state"] for row in rows} <= {"whole", "ended early"}
    assert "--samples 3" in (out / "page.html").read_text("utf-8")  # as it was started, not as it was gone on with
    assert {path.parents[1].name for path in seen} <= {row["trial"] for row in rows}
    for path in out.glob("trials/*/seed-*/validation.jsonl"):
        decisions = [json.loads(line)["decisions"] for line in path.read_text("utf-8").splitlines()]
        assert decisions == sorted(set(decisions)) and path.read_text("utf-8").startswith(seen.get(path, ""))


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)
    out = tmp_path / "sweep"
    words = ["tune", "--space", str(space(tmp_path, "algorithm.gamma: {grid: [0.5, 0.9]}")), "--samples", "1"]
    words += ["--seeds", "2", "--validations", "2", "--scheduler", "none", "--out", str(out), *SMALL]
    assert cli.main(words) == 0
    best = json.loads((out / "best.json").read_text("utf-8"))
    assert best["state"] == "whole" and len(best["scores"]) == 2
    assert all((Path(run) / "policy.safetensors").is_file() for run in best["runs"])
    assert len((out / "trials.csv").read_text("utf-8").splitlines()) == 1 + 2 * 2
    assert cli.main(words) == 2
    assert "holds a sweep already" in capsys.readouterr().err
    before = (out / "trials.csv").read_bytes()
    assert cli.main(["tune", "--out", str(out), "--resume"]) == 0
    assert (out / "trials.csv").read_bytes() == before


def test_what_is_asked_for_in_vain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "--resume", "--out", str(tmp_path)]) == 2
    assert "holds no sweep" in capsys.readouterr().err
    assert cli.main(["tune"]) == 2
    assert "--space: give the file of the space" in capsys.readouterr().err


@pytest.mark.parametrize("lacking", ["ray", "torch", "ray.tune", "optuna"])
def test_a_missing_extra_is_said_before_anything_is_written(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And before a cluster is asked."""
    pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
    for name in ("torch", "ray.tune", "optuna"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, lacking, None)
    monkeypatch.setattr("ccarena.tune.sweep.connect", None)
    monkeypatch.chdir(tmp_path)
    words = ["tune", "--space", str(space(tmp_path, "algorithm.gamma: [0.5, 0.9]")), "--search", "optuna", *SMALL]
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(words) == 4
    said = capsys.readouterr().err
    extra = {"ray": "ray", "torch": "train", "ray.tune": "tune", "optuna": "optuna"}[lacking]
    assert how_to_add(extra) in said and "go on with" not in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.alone
def test_a_machine_that_lacks_a_package_is_named() -> None:
    """The cluster's machine has `json`, and nothing called `ccarena.absent`."""
    pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
    code = (
        "import sys; from ccarena.errors import CcarenaError; from ccarena.executors.ray import connect\n"
        "from ccarena.tune.packages import check_machines\n"
        "connect(sys.argv[1]); check_machines({'json': ('json', 'train')}); check_machines({}, 'memory://sweep')\n"
        "print('whole')\n"
        "for given in eval(sys.argv[2]):\n"
        "    try: check_machines(*given)\n"
        "    except CcarenaError as error: print(' '.join(str(error).split()))\n"
    )
    lacking = {"json": ("json", "train"), "ccarena.absent": ("x-pack", "tune")}
    with nodes.apart(num_cpus=1) as (address, _):
        command = [sys.executable, "-c", code, address, repr([(lacking,), ({}, "no://x")])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    whole, package, folder = done.stdout.splitlines() or pytest.fail(done.stderr)
    assert whole == "whole"
    assert "on the machine 1" in package and 'needs the Python package "x-pack"' in package
    assert "on the machine 1" in folder and "Protocol not known" in folder


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_between_trials_says_how_to_go_on_if_there_is_a_sweep(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`test_url.py` has it amid trials."""
    out = tmp_path / "sweep"

    def interrupted(*_: object) -> None:
        if begun:
            out.mkdir()
            (out / "plan.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("ccarena.commands.tune.prepare", lambda *_: None)
    monkeypatch.setattr("ccarena.commands.tune.sweep", interrupted)
    words = ["--space", str(space(tmp_path, "algorithm.gamma: [0.5, 0.9]")), *SMALL]
    assert cli.main(["tune", "--out", str(out), *words]) == cli.INTERRUPTED
    goes_on = f"the sweep is kept in {out}; go on with: ccarena tune --out {out} --resume"
    anew = f"nothing was begun; run it again with: ccarena tune --out {out} --space"
    assert f"error: interrupted; {goes_on if begun else anew}" in capsys.readouterr().err


def test_ctrl_c_while_a_sweep_connects_says_that_it_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ccarena.commands.tune.prepare", interrupted)
    monkeypatch.setattr(
        "ccarena.commands.tune._read", lambda out: (Plan("a", 1, 1, "random", "none", 1, {}, ""), None, None)
    )
    words = ["tune", "--out", str(tmp_path), "--resume"]
    assert cli.main(words) == cli.INTERRUPTED
    said = f"error: interrupted; the sweep is as it was; go on with: ccarena {' '.join(words)}\n"
    assert capsys.readouterr().err == said
