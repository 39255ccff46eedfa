"""Datasets of trajectories: what is recorded, that it is whole, and what learns from it."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ccarena import _core, cli
from ccarena.agents.off_policy import decided, fitted_q, measured
from ccarena.configs import TrainConfig, load_config
from ccarena.data import Dataset, Trajectories, transitions
from ccarena.data.collect import collect, collect_again, fitting
from ccarena.envs.rewards import Reward
from ccarena.errors import ConfigError, ScenarioError, UnwatchableError
from ccarena.policies.modules import to_artifact
from ccarena.policies.spec import spec_of
from ccarena.scenarios.backends import execute

SPEC: dict[str, Any] = {
    "learned": 1,
    "name": "watch",
    "clock": {"kind": "rtt", "rtts": 1},
    "observe": {
        "history": 2,
        "signals": ["throughput_ratio", "rtt_ratio", "loss_ratio", "window_ratio", "last_action"],
    },
    "act": {"kind": "window_exp2", "bounds": [-2, 2]},
    "base": "none",
}
CLONE = {"algorithm": {"name": "bc", "schemes": ["vegas"]}}
LINK = {"service": {"type": "constant", "rate_mbps": 24}, "queue": {"type": "droptail", "bdp": 1}, "delay_ms": 20}


def configuration(**changes: Any) -> TrainConfig:
    return load_config(
        {
            "name": "watch",
            "spec": SPEC,
            "reward": "power",
            "network": {"name": "mlp", "hidden": [16]},
            "algorithm": {"name": "bc", "schemes": ["vegas"], "links": 2, "batch": 32},
            "total_decisions": 2048,
            "validation": {"kinds": []},
            "env": {
                "episode_s": [2, 4],
                "link": {"kinds": {"constant": 1, "cellular": 0, "trace": 0}, "rate_mbps": [6, 24], "signal": 0},
                "cross_traffic": {"probability": 0},
            },
            "eval": {"link_sets": []},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two schemes on three links."""
    return collect(configuration(), ["vegas", "cubic"], 3, tmp_path_factory.mktemp("data") / "set", threads=2)


def trajectory(scheme: str, spec: Any = SPEC, **flow: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The result of a run, and the trajectory of its flow."""
    scenario = {"duration_s": 6, "links": [LINK], "flows": [{"scheme": scheme, **flow}]}
    result = _core.simulate(json.dumps({**scenario, "record": {"trajectories": spec}}))
    return result, np.asarray(result["flows"][0].pop("trajectory"))


@pytest.mark.parametrize("scheme", ["cubic", "reno", "bbr", "copa", "vegas", "ledbat", "vivace"])
def test_whoever_is_recorded_does_the_same_as_without(scheme: str) -> None:
    scenario = {"duration_s": 6, "links": [LINK], "flows": [{"scheme": scheme}]}
    plain = _core.simulate(json.dumps(scenario))
    recorded, rows = trajectory(scheme)
    assert len(rows) > 20
    assert np.isfinite(rows).all()
    assert json.dumps(plain, default=str) == json.dumps(recorded, default=str)


def test_actions_add_up_to_the_change_of_the_window() -> None:
    """Reno's window is what its actions, one after the other, make of the first one."""
    _, rows = trajectory("reno", {**SPEC, "report": ["cwnd_packets", "interval_ms"]})
    # Time, action, ten values of the observation, then the report.
    action, window = rows[1:, 1], rows[:, 12]
    changes = window[1:] / window[:-1]
    np.testing.assert_allclose(np.exp2(action), changes, rtol=1e-3)
    assert ((0.4 < changes) & (changes < 0.6)).any(), "a loss halves the window"
    assert ((1 < changes) & (changes < 1.05)).any(), "then it grows by a segment per round trip"


def test_the_action_of_a_decision_brings_the_window_where_the_scheme_has_it() -> None:
    """A scheme reacts to a loss before the spec's decision: the action follows the observation that has the loss."""
    spec = {
        **SPEC,
        "observe": {"history": 1, "signals": ["lost_packets", "last_action"]},
        "clock": {"kind": "fixed", "period_ms": 10},
    }
    _, rows = trajectory("reno", spec)
    lost, action = rows[:-1, 2], rows[1:, 1]
    halved = np.flatnonzero(action < -0.9)
    assert len(halved) >= 2
    assert (lost[halved] > 0).all()
    np.testing.assert_allclose(rows[1:, 3], action, atol=1e-6)


def test_what_an_action_cannot_say_is_left_to_the_next() -> None:
    _, whole = trajectory("reno", {**SPEC, "report": ["cwnd_packets", "interval_ms"]})
    _, cut = trajectory("reno", {**SPEC, "act": {"kind": "window_exp2", "bounds": [-0.25, 0.25], "max": 0.25}})
    assert np.abs(cut[:, 1]).max() <= 0.25 < np.abs(whole[:, 1]).max()
    assert np.abs(np.cumsum(cut[:, 1])[-1] - np.cumsum(whole[:, 1])[-1]) < 0.5


def test_a_policy_of_the_spec_itself_is_recorded_with_its_own_actions() -> None:
    _, rows = trajectory("orca", "orca", policy={"constant": 0.25})
    assert (rows[1:, 1] == np.float32(0.25)).all()
    _, rows = trajectory("acct", "acct", policy={"constant": 3})
    assert (rows[1:, 1] == 3).all(), "an index"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("orca", 'flow "flow0" runs "cubic", and of "orca" its base cubic moves the window between its actions'),
        ("acct", 'its actuator "alpha" moves neither the window nor the rate'),
        ("akku", 'record.trajectories: unknown learned scheme "akku"; did you mean "acct"'),
        ({"spec": "aurora", "params": {"delta": 9}}, "record.trajectories.params.delta: got 9"),
        ({"spec": "aurora", "params": {"dleta": 0.1}}, 'unknown parameter "dleta"'),
        ({"spec": "aurora", "flows": ["web"]}, 'record.trajectories.flows[0]: unknown flow "web"'),
        ({"spec": "aurora", "every": 3}, 'unknown field "every"'),
        (7, "expected the name of a learned scheme or a spec"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_its_path(spec: Any, why: str) -> None:
    scenario = {"links": [LINK], "flows": [{"scheme": "cubic"}], "record": {"trajectories": spec}}
    with pytest.raises(ScenarioError) as caught:
        _core.validate_scenario(json.dumps(scenario))
    assert why.split("; did")[0] in str(caught.value)


def test_the_normalised_document_says_what_is_recorded() -> None:
    scenario = {"links": [LINK], "flows": [{"scheme": "cubic"}], "record": {"trajectories": SPEC}}
    document = _core.validate_scenario(json.dumps(scenario))
    assert json.loads(document)["record"]["trajectories"]["flows"] == ["flow0"]
    assert _core.validate_scenario(document) == document
    assert "trajectories" not in json.loads(_core.validate_scenario(json.dumps({**scenario, "record": {}})))["record"]


def test_a_dataset_has_every_scheme_on_every_link(dataset: Dataset) -> None:
    table = dataset.arrow().to_table()
    assert sorted(set(zip(table["scheme"].to_pylist(), table["link"].to_pylist(), strict=True))) == [
        (scheme, link) for scheme in ("cubic", "vegas") for link in range(3)
    ]
    spec = spec_of(configuration())
    data = dataset.load(Reward(configuration().reward, spec))
    assert data.observations.shape == (table.num_rows, spec.size)
    assert len(data.starts) == 6
    assert np.isfinite(data.rewards).all() and np.isfinite(data.actions).all()
    assert (data.intervals_s[data.steps] > 0).all()
    one = transitions(dataset, Reward(configuration().reward, spec), ["vegas"])
    first = one[0]
    assert {name: tuple(value.shape) for name, value in first.items()} == {
        "observation": (spec.size,),
        "action": (1,),
        "reward": (),
        "interval_s": (),
        "next_observation": (spec.size,),
    }
    # The action that followed is the next observation's last one, as the actuator puts it in force.
    place = spec.signals["last_action"].stop - 1
    np.testing.assert_allclose(first["action"][0], first["next_observation"][place], atol=1e-6)


def test_a_collection_goes_on_and_ends_with_the_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    shutil.copytree(dataset.folder, tmp_path / "set")
    (tmp_path / "set" / "manifest.json").unlink()
    (tmp_path / "set" / "cubic-00000.parquet").write_bytes(b"PAR1 truncated")
    again = collect(configuration(), ["vegas", "cubic"], 3, tmp_path / "set")
    assert again.digest == dataset.digest
    with pytest.raises(ConfigError, match="differs in links"):
        collect(configuration(), ["vegas", "cubic"], 4, tmp_path / "set")


def test_what_is_no_whole_dataset_of_the_spec_is_refused_by_name(dataset: Dataset, tmp_path: Path) -> None:
    other = spec_of(configuration(spec={**SPEC, "name": "other"}))
    with pytest.raises(ConfigError, match=r"spec watch \(\w+\), and those to learn from of other"):
        Dataset.open(dataset.folder, other)
    with pytest.raises(ConfigError, match=r"nowhere: no dataset \(manifest.json"):
        Dataset.open(tmp_path / "nowhere")
    folder = tmp_path / "set"
    shutil.copytree(dataset.folder, folder)
    shard = folder / "vegas-00000.parquet"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    with pytest.raises(ConfigError, match=r"vegas-00000.parquet: it has .* truncated"):
        Dataset.open(folder)
    shard.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ConfigError, match=r"vegas-00000.parquet: its content is not"):
        Dataset.open(folder)
    shard.unlink()
    with pytest.raises(ConfigError, match=r"vegas-00000.parquet: cannot read this shard"):
        Dataset.open(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for change, why in (
        ({"format": "else"}, "expected the manifest of a dataset"),
        ({"version": 99}, "version 99; expected 1"),
        ({"shards": {"../x": {}}}, "shards.../x"),
        ({"shards": []}, "shards: expected a mapping; delete manifest.json"),
    ):
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(ConfigError, match=why):
            Dataset.open(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest)[:-40])
    with pytest.raises(ConfigError, match=r"not JSON: .*; delete manifest.json, and repeat the command that collected"):
        Dataset.open(folder)


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    words = ["data", "collect", "--config", "aurora", "--schemes", "cubic", "--links", "1", "--out", f"{tmp_path}/set"]
    for name, state in (
        ("_begin", "nothing was begun; run it again"),
        ("_known", f"the plan and finished shards are kept in {tmp_path}/set; go on"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"ccarena.data.collect.{name}", interrupted)
            assert cli.main(words) == 130
        assert capsys.readouterr().err.endswith(f"error: interrupted; {state} with: ccarena {' '.join(words)}\n")
    monkeypatch.setattr("ccarena.agents.train._learn", interrupted)
    (tmp_path / "config.yaml").write_text(json.dumps(configuration_file(CLONE, None)))
    assert cli.main(["train", "--config", f"{tmp_path}/config.yaml", "--out", f"{tmp_path}/run"]) == 130
    kept = f"the run is kept in {tmp_path}/run; go on with: ccarena train --out {tmp_path}/run --resume"
    assert capsys.readouterr().err.endswith(f"error: interrupted; {kept}\n")


@pytest.mark.parametrize(("links", "seed"), [(0, 1), (10**12, 1), (1, -1), (1, 10**20)])
def test_links_and_seeds_are_bounded(links: int, seed: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"= -?\d+: expected a whole number, [01] to "):
        collect(configuration(), ["vegas"], links, tmp_path / "set", seed=seed)
    assert not (tmp_path / "set").exists()


def test_a_spec_without_actions_for_a_scheme_is_refused_with_configurations_that_have_some(tmp_path: Path) -> None:
    """The page names the same ones."""
    able = fitting(["cubic"])
    for name in able:
        collect(load_config(name), ["cubic"], 1, tmp_path / name)
    with pytest.raises(ScenarioError, match=rf"moves neither .* \(--config\): {', '.join(able)}$") as caught:
        collect(load_config("acct"), ["cubic"], 1, tmp_path / "set")
    cause = caught.value.__cause__
    assert isinstance(cause, UnwatchableError) and f": {cause.why}; expected" in str(caught.value)
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    assert f"Of the shipped configurations, {' and '.join(f'`{name}`' for name in able)} can be" in " ".join(
        page.split()
    )


def test_a_policy_that_is_none_gets_the_names_of_policies_alone(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(json.dumps(configuration_file(CLONE, None)))
    assert cli.main(["data", "evaluate", str(dataset.folder), "nothere", "--config", "config.yaml"]) == 3
    known = capsys.readouterr().err.partition("no run, policy or file; known: ")[2].split(", ")
    assert "acct" in known and not {"cubic", "quiche"} & {*known}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"algorithm": {"name": "bc"}}, "no data and no schemes"),
        ({"algorithm": {"name": "bc", "data": ["SET"], "schemes": ["bbr"]}}, "it has no flows of bbr"),
        ({"algorithm": {"name": "bc", "data": ["SET"]}, "spec": {**SPEC, "name": "other"}}, "spec watch"),
        ({"algorithm": {"name": "iql", "schemes": ["cubic"]}, "spec": "orca"}, "its base cubic moves the window"),
        ({"algorithm": {"name": "bc", "schemes": ["cubbic"]}}, "cubbic"),
        ({"algorithm": {"name": "cql", "data": ["SET"]}}, "cql"),
    ],
)
def test_what_cannot_be_learned_is_refused_before_anything_is_written(
    dataset: Dataset, tmp_path: Path, changes: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration_file(changes, dataset)))
    code = cli.main(["train", "--config", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run")])
    assert code != 0
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def configuration_file(changes: dict[str, Any], dataset: Dataset | None) -> dict[str, Any]:
    """A configuration as a file has it, with the dataset's folder for SET."""
    algorithm = changes.get("algorithm", {})
    data = [str(dataset.folder) for _ in algorithm.get("data", ()) if dataset is not None]
    own = {**changes, "algorithm": {**algorithm, **({"data": data} if data else {})}}
    base = configuration().model_dump(mode="json", exclude={"out"})
    return {key: own.get(key, base[key]) for key in ("name", "spec", "reward", "env", "eval", "validation")} | own


class Steps:
    """A run of so many rests."""

    def __init__(self, count: int) -> None:
        self.left = count

    def record(self, stats: dict[str, float], *, updates: int = 0, **now: float) -> None:
        assert np.isfinite(list(stats.values())).all()

    def rest(self) -> bool:
        self.left -= 1
        return self.left >= 0


def learner(dataset: Dataset, algorithm: str, network: dict[str, Any], **keys: Any) -> Any:
    from ccarena.agents.algorithm import Context
    from ccarena.agents.algorithms import build

    learning = {"name": algorithm, "data": [str(dataset.folder)], "batch": 16, "sequence": 4, **keys}
    config = configuration(algorithm=learning, network=network, total_decisions=100_000)
    return build(Context(config, spec_of(config), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("algorithm", "network", "keys"),
    [
        ("bc", {"name": "mlp", "hidden": [16]}, {}),
        ("bc", {"name": "gru", "hidden": 8}, {}),
        ("iql", {"name": "gru", "hidden": 8}, {"critic_hidden": [16]}),
        ("crr", {"name": "gru", "hidden": 8}, {"critic_hidden": [16]}),
        ("crr", {"name": "mlp", "hidden": [8]}, {"critic_hidden": [16], "weight": "exp"}),
    ],
)
def test_a_resumed_training_learns_the_same(
    dataset: Dataset, algorithm: str, network: dict[str, Any], keys: dict[str, Any]
) -> None:
    whole, first, second = (learner(dataset, algorithm, network, **keys) for _ in range(3))
    whole.learn(Steps(4))
    first.learn(Steps(2))
    second.restore(*first.state())
    second.learn(Steps(2))
    one, other = whole.state(), second.state()
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    for name, values in one[0].items():
        np.testing.assert_array_equal(values, other[0][name], name)
    first.learn(Steps(1))
    arrays, rest = first.state()
    with pytest.raises(ValueError, match="other datasets"):
        second.restore(arrays, {**rest, "data": ["0"]})


def decisions(chosen: Any, count: int) -> np.ndarray:
    """Returns the decisions of a policy without memory on the first rows."""
    with torch.no_grad():
        found: np.ndarray = chosen._distribution(chosen._policy.network(chosen._observations[:count])).numpy()
    return found[:, 0]


def test_a_clone_is_nearer_to_the_actions_than_any_constant_is(dataset: Dataset) -> None:
    clone = learner(dataset, "bc", {"name": "mlp", "hidden": [32]}, batch=128)
    clone.learn(Steps(40))
    actions = 2 * clone._actions[:, 0].numpy()
    acted = np.setdiff1d(np.arange(len(actions)), clone._flows[1] - 1)
    errors = (decisions(clone, len(actions)) - actions)[acted]
    assert np.square(errors).mean() < 0.8 * actions[acted].var()


def made(rewards: Any, seed: int = 1, count: int = 2000, flows: int = 20) -> Trajectories:
    """Flows whose next observation begins with the action, drawn at random from -1 to 1."""
    spec, rng = spec_of(configuration()), np.random.default_rng(seed)
    observations = rng.uniform(0, 1, (count, spec.size)).astype(np.float32)
    actions = rng.uniform(-1, 1, (count, 1)).astype(np.float32)
    observations[1:, 0] = actions[:-1, 0]
    starts = np.arange(flows) * (count // flows)
    stops = starts + count // flows
    given = rewards(observations, actions[:, 0]).astype(np.float32)
    return Trajectories(observations, actions, given, np.ones(count, np.float32), starts, stops, np.arange(flows))


@pytest.mark.parametrize(("name", "keys"), [("iql", {}), ("crr", {"weight": "exp"}), ("crr", {"weight": "binary"})])
def test_q_learning_prefers_what_was_rewarded(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, name: str, keys: dict[str, Any]
) -> None:
    """Rewards are the actions, drawn at random: a clone does their mean, and Q-learning more."""
    monkeypatch.setattr(Dataset, "load", lambda *_: made(lambda _, actions: actions))
    mean = {}
    for each, more in (("bc", {}), (name, {"critic_hidden": [32], "gamma": 0.0, **keys})):
        chosen = learner(dataset, each, {"name": "mlp", "hidden": [16]}, batch=64, learning_rate=3e-3, **more)
        chosen.learn(Steps(40))
        mean[each] = float(decisions(chosen, 2000).mean())
    assert abs(mean["bc"]) < 0.15
    assert mean[name] > 0.25


def test_standardised_observations_and_a_mixture_are_in_the_artifact(dataset: Dataset) -> None:
    """The artifact decides as the policy in training does, on raw observations and with its memory."""
    clone = learner(dataset, "bc", {"name": "gru", "hidden": 8})
    clone.learn(Steps(3))
    spec = spec_of(configuration())
    policy = to_artifact(clone.policy(), spec.interface, state={"h": (8,)})
    data = dataset.load(Reward(configuration().reward, spec))
    rows = np.arange(data.starts[0], data.starts[0] + 20)[:, None]
    clone._memory = ()
    with torch.no_grad():
        followed = clone._follow_flows(rows, np.arange(20)[:, None] == 0)
        expected = clone._distribution(followed.outputs).numpy()
    np.testing.assert_allclose(decided(policy, data)[rows.ravel()], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (lambda _, actions: actions, 0.5),
        # The reward of a step is the action of the step before.
        (lambda observations, _: observations[:, 0], 0.5),
    ],
)
def test_fitted_q_evaluation_finds_the_return_of_a_policy_that_no_flow_had(rewards: Any, expected: float) -> None:
    spec, data = spec_of(configuration()), made(rewards)
    data.observations[data.starts, 0] = 0.5
    data.rewards[:] = rewards(data.observations, data.actions[:, 0])
    behaviour = measured(data, data.links, 0.8)
    found = fitted_q(data, data.links, spec, np.full_like(data.actions, 0.5), gamma=0.8, updates=500, batch=256)
    assert abs(behaviour.value) < 0.15, "actions are drawn around 0"
    assert found.low <= found.value <= found.high
    assert abs(found.value - expected) < 0.1
    assert found.low - 0.1 < expected < found.high + 0.1


def test_evaluate_puts_the_estimate_beside_what_the_simulator_measures(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = learner(dataset, "bc", {"name": "mlp", "hidden": [8]})
    clone.learn(Steps(2))
    policy = tmp_path / "clone.safetensors"
    policy.write_bytes(to_artifact(clone.policy(), spec_of(configuration()).interface).encode())
    (tmp_path / "config.yaml").write_text(
        json.dumps(configuration_file({"algorithm": {"name": "bc", "data": ["SET"]}}, dataset))
    )
    words = ["data", "evaluate", str(dataset.folder), str(policy), "--config", str(tmp_path / "config.yaml")]
    assert cli.main([*words, "--updates", "20"]) == 0
    said = capsys.readouterr().out
    # The simulator's own figure: the same flows, collected as those of any scheme.
    spec = spec_of(configuration())
    own = collect_again(dataset, spec, str(policy), tmp_path / "own").load(Reward(configuration().reward, spec))
    truthful = measured(own, own.links, 0.99)
    assert f"the policy's, simulated {truthful.value:.3f} {truthful.low:.3f} to {truthful.high:.3f}" in " ".join(
        said.split()
    )
    assert "the policy's, by fitted Q" in said and "the dataset's" in said
    for more, why in (
        (["--gamma", "1"], "--gamma 1: expected"),
        (["--updates", "0"], "--updates 0: expected"),
    ):
        assert cli.main([*words, *more]) != 0
        assert why in capsys.readouterr().err
    assert cli.main(["data", "evaluate", str(dataset.folder), "acct", *words[4:]]) != 0
    assert "acct: it decides for the spec of digest" in capsys.readouterr().err


def test_a_training_collects_what_it_is_to_learn_from(tmp_path: Path) -> None:
    changes = {"algorithm": {"name": "bc", "schemes": ["vegas"], "links": 2}, "total_decisions": 512}
    (tmp_path / "config.yaml").write_text(json.dumps(configuration_file(changes, None)))
    out = tmp_path / "run"
    assert cli.main(["train", "--config", str(tmp_path / "config.yaml"), "--out", str(out)]) == 0
    assert Dataset.open(out / "data").manifest["links"] == 2
    assert (out / "policy.safetensors").is_file()


def test_show_and_export(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["data", "show", str(dataset.folder)]) == 0
    assert "vegas" in capsys.readouterr().out
    assert cli.main(["data", "show", str(dataset.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["links"] == 3


def test_a_backend_in_real_time_records_none() -> None:
    scenario = {"links": [LINK], "flows": [{"scheme": "cubic"}], "record": {"trajectories": SPEC}}
    with pytest.raises(ScenarioError, match=r"record.trajectories: the backend kernel records none"):
        execute(scenario, "kernel")


def test_an_export_to_minari_has_every_flow_or_says_what_is_missing(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "config.yaml").write_text(
        json.dumps(configuration_file({"algorithm": {"name": "bc", "schemes": ["vegas"]}}, None))
    )
    words = ["data", "export", str(dataset.folder), "--config", str(tmp_path / "config.yaml"), "--name", "mine/made-v0"]
    code, said = cli.main(words), capsys.readouterr()
    if importlib.util.find_spec("minari") is None:
        assert code != 0 and '"minari"' in said.err
    else:
        assert code == 0, said.err
        assert "wrote 6 episodes" in said.out
