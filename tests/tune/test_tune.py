"""Spaces, the report of a sweep, and a sweep on Ray Tune that is interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.tune.report import rows_of, table_of
from ccarena.tune.space import Dimension, read_space

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
    ],
)
def test_a_wrong_space_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_space(space(tmp_path, text), "acct", {})


def test_trials_are_compared_by_the_mean_over_seeds(tmp_path: Path) -> None:
    def validated(trial: str, seed: int, rewards: list[float]) -> None:
        folder = tmp_path / trial / f"seed-{seed}"
        folder.mkdir(parents=True)
        rows = [{"decisions": 100 * n, "reward": reward} for n, reward in enumerate(rewards, start=1)]
        (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    # The lucky seed of b does not make it the best; c was ended early while it was ahead; d failed.
    for trial, first, second in (("a", [1.0, 5.0], [1.0, 7.0]), ("b", [1.0, 11.0], [1.0, -1.0]), ("c", [9.0], [9.0])):
        validated(trial, 1, first)
        validated(trial, 2, second)
    found: list[dict[str, Any]] = [{"trial": name, "setting": {"k": name}, "error": None} for name in "cba"]
    found.append({"trial": "d", "setting": {"k": "d"}, "error": "broken"})
    rows = rows_of(tmp_path, found, seeds=2, last=2)
    assert [(row["trial"], row["state"]) for row in rows] == [
        ("a", "whole"),
        ("b", "whole"),
        ("c", "ended early"),
        ("d", "failed"),
    ]
    assert (rows[0]["mean"], rows[0]["decisions"], rows[0]["rewards"]) == (6.0, 200, [5.0, 7.0])
    head, cells = table_of(rows)
    assert head == ["trial", "state", "k", "decisions", "validation reward", "seeds"]
    # Student's t with one degree of freedom: 12.706 standard errors.
    assert cells[0] == ["a", "whole", "a", "200", "6.00 ± 12.71", "2"] and cells[3][4] == "–"


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(
        "ray.tune", exc_type=ImportError, reason="RAY TUNE IS NOT INSTALLED: sweeps are not run (ccarena[tune])"
    )
    out = tmp_path / "sweep"
    words = ["tune", "--space", str(space(tmp_path, "algorithm.gamma: {grid: [0.5, 0.9]}")), "--samples", "1"]
    words += ["--seeds", "2", "--validations", "2", "--scheduler", "none", "--out", str(out), *SMALL]
    assert cli.main(words) == 0
    best = json.loads((out / "best.json").read_text("utf-8"))
    assert best["state"] == "whole" and len(best["rewards"]) == 2
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
