"""Validation during training: what is judged, which policy is kept, and that it changes nothing of the training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.agents import train as training
from ccarena.agents import validation
from ccarena.agents.algorithm import Context
from ccarena.agents.train import artifact_of
from ccarena.agents.validation import Best, Validator
from ccarena.agents.worlds import environments
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import LinkKinds
from ccarena.envs.trials import Candidate, Trials
from ccarena.errors import ConfigError
from ccarena.policies.artifact import load
from ccarena.policies.spec import spec_of
from ccarena.runs.run_folder import BEST, LAST, POLICY, PROGRESS, VALIDATION
from ccarena.traces import available
from tests.agents.test_train import configuration, rows, stop_after, without_times
from tests.agents.toy import make_toy

SMALL = {"kinds": ["constant", "cellular"], "links": 2, "decisions": 5, "every_decisions": 2048}


def validating(out: Path, **changes: object) -> TrainConfig:
    settings = {f"validation.{key}": value for key, value in SMALL.items()}
    return configuration(out, **settings, **changes)


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / VALIDATION).read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("validated") / "run"
    assert training.train(validating(out), make_envs=make_toy) == 0
    return out


def test_a_run_keeps_its_best_and_its_last_policy(whole: Path) -> None:
    found = lines(whole)
    assert [line["decisions"] for line in found] == [2048, 4096, 6144, 8192]
    assert {"reward", "constant/reward", "cellular/zone_green", "cellular/throughput_mbps"} <= found[0].keys()
    assert found[0]["reward"] == pytest.approx((found[0]["constant/reward"] + found[0]["cellular/reward"]) / 2)
    policy, last = load(whole / POLICY), load(whole / LAST)
    assert policy.observed and policy.encode() == replace(last, observed=policy.observed).encode()
    assert all(line["score"] == line["reward"] for line in found)
    best = max(found, key=lambda line: line["score"])
    assert Validator(context("acct", **SMALL))(load(whole / BEST)).score == pytest.approx(best["score"])


def test_tensorboard_has_classes_actions_and_hyperparameters(whole: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole / "tensorboard")).Reload()
    tags = events.Tags()
    assert {"validation/reward", "validation/cellular/reward", "train/reward_mean"} <= set(tags["scalars"])
    assert [event.value for event in events.Scalars("validation/reward")] == pytest.approx(
        [line["reward"] for line in lines(whole)], rel=1e-5
    )
    assert set(tags["histograms"]) == {"actions/constant", "actions/cellular"}
    assert events.Histograms("actions/constant")[0].histogram_value.num == 2 * 5
    names = b"".join(path.read_bytes() for path in (whole / "tensorboard").iterdir())
    assert b"_hparams_/session_start_info" in names and b"algorithm.gamma" in names


def test_it_changes_nothing_of_the_training(whole: Path, tmp_path: Path) -> None:
    assert training.train(configuration(tmp_path / "run"), make_envs=make_toy) == 0
    a, b = (load(out / POLICY).tensors for out in (whole, tmp_path / "run"))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert [without_times(row) for row in rows(whole)] == [without_times(row) for row in rows(tmp_path / "run")]


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_nor_of_one_that_draws_from_global_generators(algorithm: str, tmp_path: Path) -> None:
    settings = {"algorithm": {"name": algorithm}, "network": {"name": "mlp", "hidden": [8]}, "total_decisions": 2048}
    settings |= {"eval.link_sets": [], "env.worlds": 8, "env.link.kinds.trace": 0}
    settings["algorithm.discount"] = "step"
    if algorithm == "PPO":
        settings |= {"algorithm.n_steps": 64, "algorithm.batch_size": 128, "algorithm.n_epochs": 1}
    else:
        settings |= {"algorithm.buffer_size": 1000, "algorithm.learning_starts": 100}
    for name, settled in (("with", SMALL | {"every_decisions": 512}), ("without", {"kinds": []})):
        config = load_config("acct", settings | {"validation": settled, "out": str(tmp_path / name)})
        assert training.train(config) == 0
    a, b = (load(tmp_path / name / POLICY).tensors for name in ("with", "without"))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert len(lines(tmp_path / "with")) >= 3


def test_interrupted_and_resumed_has_the_same_best(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 10)  # after a validation and before the next
        assert training.train(validating(out), make_envs=make_toy) == 130
    # What was written after the checkpoint, by a process that was killed then, counts no more.
    (out / BEST).write_bytes(b"of later")
    with open(out / VALIDATION, "a") as file:
        file.write('{"decisions": 1e9}\n')
    assert training.train(validating(out), resume=True, make_envs=make_toy) == 0
    assert lines(out) == lines(whole)
    assert (out / PROGRESS).is_file()
    # Artifacts say in which folder they were trained.
    a, b = (load(folder / BEST).tensors for folder in (whole, out))
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_best_may_be_the_runs_policy_and_training_may_stop_early(tmp_path: Path) -> None:
    """A policy that does not learn is never better than at first."""
    out = tmp_path / "run"
    still = {"algorithm__actor_lr": 1e-30, "validation__patience": 2, "validation__policy": "best"}
    assert training.train(validating(out, **still), make_envs=make_toy) == 0
    assert [line["decisions"] for line in lines(out)] == [2048, 4096, 6144]
    assert rows(out)[-1]["decisions"] < 8192
    # The run's policy has the learning curve, too.
    a, b = (load(out / name).tensors for name in (POLICY, BEST))
    assert all(np.array_equal(a[name], b[name]) for name in a) and (out / LAST).is_file()
    # It is over: going on finishes it again, and trains no further.
    before = (out / PROGRESS).read_bytes()
    assert training.train(validating(out, **still), resume=True, make_envs=make_toy) == 0
    assert (out / PROGRESS).read_bytes() == before


WHOLE_RUNS = {"env.link.rate_mbps": [1, 8], "env.episode_s": 5, "env.drawn": {"alpha": [1.1, 2]}}


def context(record: str, **validation: object) -> Context:
    changes = {f"validation.{key}": value for key, value in validation.items()}
    config = load_config(record, changes | (WHOLE_RUNS if record == "hyvar-packets" else {}))
    return Context(config, spec_of(config), environments(config))


def test_an_objective_of_whole_runs_judges() -> None:
    here = context("hyvar-packets", kinds=["constant", "random_steps"], links=3, decisions=5)
    policy = artifact_of(here, here.network(here.spec.outputs))
    found = Validator(here)(policy).row()
    assert found["score"] == pytest.approx((found["constant/score"] + found["random_steps/score"]) / 2)
    assert found["score"] != pytest.approx(found["reward"])
    # As evolution scores it: each link draws its own parameter.
    alone = here.config.env.link.model_copy(update={"kinds": LinkKinds(constant=1, random_steps=0, cellular=0)})
    record = here.config.model_copy(update={"env": here.config.env.model_copy(update={"link": alone})})
    seed = int(np.random.SeedSequence([validation._MARK, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    (outcome,) = Trials(record, here.spec, 2).run([Candidate(policy.encode())], seed, 3)
    assert len(set(outcome.run.alpha)) == 3 and found["constant/score"] == outcome.score
    # Runs as long as an episode: what comes after the few decisions that make up the reward counts as well.
    longer = context("hyvar-packets", kinds=["constant", "random_steps"], links=3, decisions=9)
    assert Validator(longer)(policy).score == found["score"]


def test_evolution_is_judged_at_its_start_and_may_keep_that(tmp_path: Path) -> None:
    settings: dict[str, object] = {"network.hidden": [], "total_decisions": 3000, "env.episode_s": 1}
    settings |= {"eval.link_sets": [], "algorithm.links": 1, "algorithm.population": 2, "env.link.kinds.trace": 0}
    # Steps so long that they cannot but make it worse.
    settings |= {"algorithm.learning_rate": 1, "out": str(tmp_path), "validation.every_decisions": 1000}
    settings |= {"validation.policy": "best"}
    config = load_config("hyvar-packets", settings | {"validation.kinds": ["constant"], "validation.links": 4})
    assert training.train(config) == 0
    found = lines(tmp_path)
    assert found[0]["decisions"] == 0 and len(found) > 3
    assert all(line["score"] < found[0]["score"] for line in found[1:])
    assert Validator(Context(config, spec_of(config), environments(config)))(load(tmp_path / POLICY)).score == (
        pytest.approx(found[0]["score"])
    )


def test_recordings_are_those_of_the_validation_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    small: dict[str, object] = {"links": 2, "decisions": 5}
    if "trace-2767958-taxi1" not in available():
        with pytest.raises(ConfigError, match=r"trace-2767958-taxi1.*nyc-lte"):
            training.check(context("acct", kinds=["trace"], **small))
    (tmp_path / "trace-2767958-taxi1").write_text("".join(f"{ms}\n" for ms in range(1, 20_000)))
    (tmp_path / "TMobile-UMTS-driving.down").write_text("1\n")  # free for training, and no more than a packet
    here = context("acct", kinds=["constant", "trace"], **small)
    found = Validator(here)(artifact_of(here, here.network(here.spec.outputs)))
    assert found.classes["trace"]["throughput_mbps"] > 1.0


@pytest.mark.parametrize("record", ["acct", "aurora"])
def test_the_same_policy_does_the_same(record: str) -> None:
    """On any number of threads, whatever the training's seed; other links are other ones."""
    small = {"links": 2, "decisions": 20}
    here = context(record, **small)
    policy = artifact_of(here, here.network(here.spec.outputs))
    found = Validator(here)(policy)
    assert found.actions.keys() == {"constant", "random_steps", "cellular"}
    assert all(len(taken) == 2 * 20 for taken in found.actions.values())
    other = here.config.model_copy(update={"threads": 1, "seed": 99})
    assert Validator(Context(other, here.spec, here.make_envs))(policy).row() == found.row()
    assert Validator(context(record, **small, seed=2))(policy).row() != found.row()


def test_natively_is_as_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    here = context("acct", links=8, decisions=60)
    policy = artifact_of(here, here.network(here.spec.outputs))
    natively = Validator(here)(policy)
    monkeypatch.setattr(validation, "_natively", validation._step_by_step)
    by_steps = Validator(here)(policy)
    assert natively.row() == by_steps.row()
    assert all(np.array_equal(taken, by_steps.actions[kind]) for kind, taken in natively.actions.items())
    assert len(np.unique(np.concatenate(list(natively.actions.values())))) > 1


def test_of_equals_the_first_is_the_best() -> None:
    best = Best()
    assert [
        best.offer(name, reward, n) for n, (name, reward) in enumerate([(b"a", 1.0), (b"b", 1.0), (b"c", 2.0)])
    ] == [
        True,
        False,
        True,
    ]
    assert (best.policy, best.worse, best.decisions) == (b"c", 0, 2)
    assert not best.offer(b"d", float("nan"), 3)
    again = Best()
    again.restore(*best.state())
    assert again == best
