"""The Ray executor on a cluster of two nodes, both on this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ccarena.agents.a3c import Learner
from ccarena.agents.algorithm import Context, MakeEnvs
from ccarena.agents.evolution import Genome, LocalEvaluator
from ccarena.agents.ray_evolution import RayEvaluator
from ccarena.configs import load_config
from ccarena.configs.schema import A3CConfig
from ccarena.envs.spec import spec_of
from ccarena.errors import MissingDependencyError, TrainingError
from tests.agents.toy import SPEC, ToyEnvs

CONFIG = A3CConfig(workers=2, rollout_length=16, gamma=0.9, actor_lr=4e-3, critic_lr=8e-3, entropy=(0.1, 0.01))


def context(make_envs: MakeEnvs, total: int = 1000) -> Context:
    changes = {"network.filters": 4, "network.hidden": 32, "total_decisions": total, "env.worlds": 64}
    return Context(load_config("acct", changes), SPEC, make_envs)


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield ray
    ray.shutdown()
    cluster.shutdown()


class DyingEnvs(ToyEnvs):
    """Notes its node in the folder, and kills its process at the 40th step of whoever is the first to get there."""

    def __init__(self, folder: Path) -> None:
        import ray

        super().__init__()
        self._folder = folder
        self._steps = 0
        (folder / f"node-{ray.get_runtime_context().get_node_id()}").touch()

    def step(self, actions: np.ndarray) -> tuple:
        self._steps += 1
        if self._steps == 40:
            with contextlib.suppress(FileExistsError):
                (self._folder / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


def dying(folder: Path, rows: int, threads: int) -> ToyEnvs:
    return DyingEnvs(folder)


class BrokenEnvs(ToyEnvs):
    def step(self, actions: np.ndarray) -> tuple:
        raise ValueError("the world has ended")


def broken(rows: int, threads: int) -> ToyEnvs:
    return BrokenEnvs()


def test_learns_across_nodes_and_survives_a_death(
    cluster: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from ccarena.agents.ray import RayExecutor

    whole = context(functools.partial(dying, tmp_path), 120_000)
    learner = Learner(whole, CONFIG)
    executor = RayExecutor(learner, whole, CONFIG)
    reward = decisions = 0.0
    # The second actor may be up only after the first one has done all of it.
    while not learner.done or len(list(tmp_path.glob("node-*"))) < 2:
        update = executor.step()
        if update and learner.decisions > 100_000:
            reward, decisions = reward + update.stats["reward"], decisions + update.stats["decisions"]
    assert executor.restarts == 1
    executor.close()
    assert "died" in caplog.text
    assert reward / decisions > 0.8 * ToyEnvs.OPTIMUM
    # One CPU per node and per actor: two workers need both.
    assert len(list(tmp_path.glob("node-*"))) == 2


def test_an_error_in_a_worker_is_reported(cluster: object) -> None:
    from ccarena.agents.ray import RayExecutor

    executor = RayExecutor(Learner(context(broken), CONFIG), context(broken), CONFIG)
    with pytest.raises(TrainingError, match="the world has ended"):
        while True:
            executor.step()
    executor.close()


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ccarena.agents.ray import RayExecutor

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "ccarena\[ray\]"'):
        RayExecutor(Learner(context(broken), CONFIG), context(broken), CONFIG)


def test_evolution_on_a_cluster_scores_as_in_one_process(cluster: object) -> None:
    changes = {
        "network": {"name": "mlp", "hidden": [4]},
        "algorithm": {"name": "es", "population": 4, "links": 2},
        "env.episode_s": 1,
        "env.link.kinds": {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0},
        "executor": "ray",
    }
    config = load_config("orca", changes)
    given = Context(config, spec_of(config), lambda rows, threads: None)
    genome = Genome(given, config.algorithm)
    candidates = [genome.candidate(genome.start + shift) for shift in (0.0, 0.3, -0.2)]
    remote = RayEvaluator(given)
    try:
        assert remote.score(candidates, 5) == LocalEvaluator(config, given.spec, threads=2).score(candidates, 5)
    finally:
        remote.close()
