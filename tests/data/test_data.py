"""Datasets of trajectories: what is recorded, that it is whole, and what learns from it."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena import _core, cli
from ccarena.configs import TrainConfig, load_config
from ccarena.data import Dataset, Trajectories, transitions
from ccarena.data.collect import collect
from ccarena.envs.rewards import Reward
from ccarena.errors import ConfigError, ScenarioError
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
    ):
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(ConfigError, match=why):
            Dataset.open(folder)


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


def test_a_clone_is_nearer_to_the_actions_than_any_constant_is(dataset: Dataset) -> None:
    clone = learner(dataset, "bc", {"name": "mlp", "hidden": [32]}, batch=128)
    clone.learn(Steps(40))
    steps = clone._steps[None]
    errors = clone._losses(steps, np.ones(steps.shape, bool)).mean()
    spread = clone._actions[clone._steps].var(unbiased=False)
    assert float(errors.detach()) < 0.8 * float(spread)


def test_q_learning_prefers_what_was_rewarded(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards are the actions, drawn at random: a clone does their mean, and Q-learning more."""
    spec, rng = spec_of(configuration()), np.random.default_rng(1)
    count = 2000
    made = Trajectories(
        rng.uniform(0, 1, (count, spec.size)).astype(np.float32),
        actions := rng.uniform(-2, 2, (count, 1)).astype(np.float32),
        actions[:, 0],
        np.ones(count, np.float32),
        np.array([0]),
        np.array([count]),
    )
    monkeypatch.setattr(Dataset, "load", lambda *_: made)
    mean = {}
    for name, keys in (("bc", {}), ("iql", {"critic_hidden": [32], "gamma": 0.0})):
        chosen = learner(dataset, name, {"name": "mlp", "hidden": [16]}, batch=64, learning_rate=3e-3, **keys)
        chosen.learn(Steps(25))
        mean[name] = float(chosen._decided(np.arange(count)[None], np.ones((1, count), bool)).detach().mean())
    assert abs(mean["bc"]) < 0.3
    assert mean["iql"] > 0.6


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
