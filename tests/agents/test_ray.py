"""The Ray executor on a cluster of two nodes, both on this machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import nodes
from ccarena import cli
from ccarena.agents import checkpoint
from ccarena.agents.a3c import Learner
from ccarena.agents.algorithm import Context, MakeEnvs
from ccarena.agents.evolution import Genome
from ccarena.agents.evolution_runs import LocalEvaluator
from ccarena.agents.ray_evolution import RayEvaluator
from ccarena.configs import load_config
from ccarena.configs.schema import A3CConfig
from ccarena.core.machine import is_linux
from ccarena.errors import INTERRUPTED, ConfigError, MissingDependencyError, TrainingError
from ccarena.extras import how_to_add
from ccarena.policies.spec import spec_of
from ccarena.runs.run_folder import read_progress
from tests.agents.toy import SPEC, ToyEnvs, make_toy

# A node that starts beside other work may be given up as dead.
pytestmark = pytest.mark.alone

CONFIG = A3CConfig(workers=2, rollout_length=16, gamma=0.9, actor_lr=4e-3, critic_lr=8e-3, entropy=(0.1, 0.01))


def context(make_envs: MakeEnvs, total: int = 1000, **more: Any) -> Context:
    changes = {"network.filters": 4, "network.hidden": 32, "total_decisions": total, "env.worlds": 64, **more}
    return Context(load_config("acct", changes), SPEC, make_envs)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    cluster = nodes.started(num_cpus=1)
    nodes.add(cluster)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
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
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from ccarena.agents.ray import RayExecutor

    # Rollouts cross the network here, and the learner makes gradients of them.
    whole = context(functools.partial(dying, tmp_path), 120_000, **{"executor": "ray", "ray.exchange": "rollouts"})
    learner = Learner(whole, CONFIG)
    executor = RayExecutor(learner, whole, CONFIG)
    reward = decisions = 0.0
    # The second actor may be up only after the first one has done all of it.
    while not learner.done or len(list(tmp_path.glob("node-*"))) < 2:
        update = executor.step()
        if update and learner.decisions > 100_000:
            reward, decisions = reward + update.stats["reward"], decisions + update.stats["decisions"]
    figures = executor.figures()
    assert figures["restarts"] == 1
    assert 0 < figures["staleness_mean"] < 8
    executor.close()
    assert "died" in caplog.text
    assert reward / decisions > 0.8 * ToyEnvs.OPTIMUM
    # One CPU per node and per actor: two workers need both.
    assert len(list(tmp_path.glob("node-*"))) == 2


class SlowEnvs(ToyEnvs):
    """Takes its time in the process that comes first."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._pause_s = 0.0
        with contextlib.suppress(FileExistsError):
            (folder / "slow").touch(exist_ok=False)
            self._pause_s = 0.1

    def step(self, actions: np.ndarray) -> tuple:
        time.sleep(self._pause_s)
        return super().step(actions)


def slowed(folder: Path, rows: int, threads: int) -> ToyEnvs:
    return SlowEnvs(folder)


@pytest.mark.slow
def test_a_slow_machine_delays_nobody_and_its_old_gradients_are_thrown_away(cluster: Any, tmp_path: Path) -> None:
    from ccarena.agents.ray import RayExecutor

    whole = context(functools.partial(slowed, tmp_path), 10**9, **{"executor": "ray", "ray.max_staleness": 2})
    learner = Learner(whole, CONFIG)
    executor = RayExecutor(learner, whole, CONFIG)
    try:
        deadline_s = time.monotonic() + 120
        while executor.figures()["stale_gradients"] < 2:
            assert time.monotonic() < deadline_s
            executor.step()
        assert learner.updates > 10 and executor.figures()["staleness_mean"] <= 2
    finally:
        executor.close()


def test_an_error_in_a_worker_is_reported(cluster: Any) -> None:
    from ccarena.agents.ray import RayExecutor

    executor = RayExecutor(Learner(context(broken), CONFIG), context(broken), CONFIG)
    with pytest.raises(TrainingError, match="the world has ended"):
        while True:
            executor.step()
    executor.close()


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ccarena.agents.ray import RayExecutor

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=re.escape(how_to_add("ray"))):
        RayExecutor(Learner(context(broken), CONFIG), context(broken), CONFIG)


class Answering:
    """Answers what is large enough to stay in the store of its node."""

    def answer(self) -> np.ndarray:
        return np.zeros(1_000_000)

    def node(self) -> tuple[int, int]:
        return os.getppid(), os.getpid()


@pytest.mark.slow
def test_a_lost_node_takes_answers_and_actors_with_it_and_a_late_one_replaces_them(
    cluster: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from ccarena.agents import ray_actors

    monkeypatch.setattr(ray_actors, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(ray_actors, "_WAITING_S", 0.5)
    nodes.add(cluster, num_cpus=3, resources={"lent": 3})
    remote = ray.remote(num_cpus=1, resources={"lent": 1})(Answering)
    # Three actors die at once, and none may die twice: deaths of one say nothing about the others.
    crew = ray_actors.Crew(lambda index: remote.remote(), 3, deaths=2, patience_s=600)
    try:
        answers = [actor.answer.remote() for actor in crew.actors]
        places = ray.get([actor.node.remote() for actor in crew.actors])
        ray.wait(answers, num_returns=3, fetch_local=False)
        for process in (places[0][0], *(own for _, own in places)):
            os.kill(process, signal.SIGKILL)
        for index, answer in enumerate(answers):
            with pytest.raises(ray_actors.Lost):
                crew.take(index, answer)
        calls = [actor.answer.remote() for actor in crew.actors]
        deadline_s = time.monotonic() + 120
        late = False
        got: set[int] = set()
        while len(got) < 3:
            assert time.monotonic() < deadline_s
            crew.look()
            if not late and "have not started" in caplog.text:
                nodes.add(cluster, num_cpus=3, resources={"lent": 3})
                late = True
            ready, _ = ray.wait(calls, num_returns=1, timeout=0.1)
            for call in ready:
                index = calls.index(call)
                try:
                    assert crew.take(index, call).shape == (1_000_000,)
                    got.add(index)
                except ray_actors.Lost:
                    pass
                calls[index] = crew.actors[index].answer.remote()
        assert late and crew.figures() == {"workers": 3, "restarts": 3}
    finally:
        crew.close()


def test_what_can_never_start_ends_training_and_does_not_wait_for_ever(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from ccarena.agents import ray_actors

    monkeypatch.setattr(ray_actors, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(ray_actors, "_WAITING_S", 0.2)
    crew = ray_actors.Crew(lambda index: ray.remote(num_cpus=1000)(Answering).remote(), 2, deaths=1, patience_s=0.5)
    try:
        with pytest.raises(TrainingError, match=r"no worker has started for .* cores .* are free; add machines.*again"):
            while True:
                time.sleep(0.05)
                crew.look()
    finally:
        crew.close()


def test_workers_that_step_together_wait_for_each_other_but_not_for_ever(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    from ccarena.agents import ray_actors

    monkeypatch.setattr(ray_actors, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(ray_actors, "_WAITING_S", 0.2)

    def create(index: int) -> Any:
        return ray.remote(num_cpus=1000 * index)(Answering).remote()

    crew = ray_actors.Crew(create, 2, deaths=1, patience_s=600, together=True)
    try:
        crew.take(0, crew.actors[0].answer.remote())
        crew.look()
        assert "1 of 2 workers have not started" in caplog.text and "are free; training waits" in caplog.text
        time.sleep(0.2)
        crew._patience_s = 0.1
        with pytest.raises(TrainingError, match=r"^1 of 2 workers have not started for .* cores .* are free; add mach"):
            crew.look()
    finally:
        crew.close()


def test_more_processes_than_cores_are_refused_where_they_step_together(cluster: Any) -> None:
    from ccarena.agents.ray_envs import RayVectorEnv

    config = context(make_toy, **{"executor": "ray", "ray.workers": 64, "algorithm": {"name": "PPO"}}).config
    with pytest.raises(
        ConfigError, match=r"^ray\.workers = 64, which step .* need 64 cores, .*; lower ray\.workers, or"
    ):
        RayVectorEnv(make_toy, config, 64)


def test_a_gpu_that_a_machine_declares_and_pytorch_does_not_find_is_refused(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is named before anything is written; a GPU that others use is left to them."""
    import ray
    import torch

    from ccarena.agents import ray_start

    if torch.cuda.is_available():
        pytest.skip("THIS MACHINE HAS A GPU: its absence cannot be tested")
    node = nodes.add(cluster, num_cpus=0, num_gpus=1)
    try:
        words = ["train", *SMALL, "--algorithm.workers", "2", "--executor", "ray", "--device", "cuda"]
        assert cli.main([*words, "--out", str(tmp_path / "run")]) == 2
        said = capsys.readouterr().err
        assert f"device = cuda: the machine {socket.gethostname()} (1" in said
        assert "declares num_gpus = 1 to Ray, and PyTorch" in said and "finds no CUDA GPU there; install" in said
        assert not (tmp_path / "run").exists()
        busy = ray.remote(num_cpus=0, num_gpus=1)(Answering).remote()
        ray.get(busy.node.remote())
        monkeypatch.setattr(ray_start, "_ANSWERS_WITHIN_S", 0.5)
        ray_start.check_gpus("cuda")
        ray.kill(busy)
    finally:
        cluster.remove_node(node)


def test_worlds_on_a_cluster_are_those_of_one_process_and_survive_a_death(cluster: Any) -> None:
    from ccarena.agents.ray_envs import RayVectorEnv

    config = context(make_toy, **{"executor": "ray", "ray.workers": 2, "algorithm": {"name": "PPO"}}).config
    worlds = RayVectorEnv(make_toy, config, 8)
    try:
        observation, _ = worlds.reset(seed=5)
        local = [ToyEnvs(4), ToyEnvs(4)]
        first = np.concatenate([envs.reset(seed=worlds._own_seed(k))[0] for k, envs in enumerate(local)])
        assert np.array_equal(observation, first)
        actions = np.arange(8) % 15
        for _ in range(40):
            found = worlds.step(actions)
            each = [envs.step(actions[4 * k : 4 * k + 4]) for k, envs in enumerate(local)]
            for mine, parts in zip(found[:4], zip(*each, strict=True), strict=False):
                assert np.array_equal(mine, np.concatenate(parts[:2]))
        state = worlds.get_state()
        after = worlds.step(actions)[0]
        assert np.array_equal(worlds.set_state(state), found[0])
        assert np.array_equal(worlds.step(actions)[0], after)
        worlds._ray.kill(worlds._crew.actors[1])
        # A death takes its time to be known.
        for _ in range(1000):
            observation, reward, _, truncated, infos = worlds.step(actions)
            if worlds.figures()["restarts"]:
                break
            after = observation
        assert truncated[4:].all() and not reward[4:].any()
        assert np.array_equal(infos["final_obs"][4:], after[4:])
        assert worlds.figures()["restarts"] == 1
        worlds.step(actions)
    finally:
        worlds.close()


SMALL = ["--env.worlds", "8", "--eval.link_sets", "[]", "--env.link.kinds.trace", "0", "--validation.kinds", "[]"]


def training(out: Path, address: str | None, checkpoint_every_s: float = 0.2, **more: Any) -> subprocess.Popen[bytes]:
    """A training that has no end, on the cluster at `address`, or on one that it starts."""
    words = [sys.executable, "-m", "ccarena.cli", "train", "--out", str(out), *SMALL, "--algorithm.workers", "2"]
    words += ["--network.filters", "1", "--network.hidden", "8", "--total-decisions", "100_000_000"]
    words += ["--executor", "ray", "--checkpoint-every-s", str(checkpoint_every_s)]
    words += [] if address is None else ["--ray-address", address]
    return subprocess.Popen(words, **{"env": os.environ | {"OMP_NUM_THREADS": "1"}, **more})


def first_checkpoint(out: Path, process: subprocess.Popen[bytes]) -> int:
    """Waits for a checkpoint that has learned something, and says how many decisions it has learned from."""
    deadline_s = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.1)
        if checkpoint.exists(out) and (learned := checkpoint.load(out).rest["algorithm"]["learner"]["decisions"]):
            return int(learned)
    process.kill()
    pytest.fail(f"no checkpoint was written; the training's exit code is {process.poll()}")


def test_processes_that_only_step_worlds_do_without_pytorch() -> None:
    """It takes each of them seconds to import."""
    text = (
        "import sys\n"
        "import ccarena.agents.ray_envs, ccarena.agents.ray_evolution\n"
        "from ccarena.agents.worlds import environments\n"
        "from ccarena.configs import load_config\n"
        "environments(load_config('hyvar', {'env.link.kinds.trace': 0}))(2, 1).reset(seed=1)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


def marked(mark: str) -> set[str]:
    """Returns the command lines of processes, except zombies, that have `mark` in their environment."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.add(f"{folder.name} {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
    return found


@pytest.mark.slow
@pytest.mark.skipif(not is_linux(), reason="NO /proc: it is not tested whether a training leaves processes")
def test_a_terminated_training_keeps_a_checkpoint_and_leaves_no_process(
    tmp_path: Path,
) -> None:
    """Ray has a handler of its own for the signal; on Ray that it started itself, the training ends that as well."""
    out, said, mark = tmp_path / "run", tmp_path / "said", f"CCARENA_TEST={tmp_path}"
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {"OMP_NUM_THREADS": "1", "CCARENA_TEST": str(tmp_path)}
    with open(said, "w") as file:
        process = training(out, None, checkpoint_every_s=1000, env=environment, stderr=file)
        deadline_s = time.monotonic() + 180
        while not (rows := read_progress(out / "progress.jsonl")):
            assert process.poll() is None and time.monotonic() < deadline_s, said.read_text()
            time.sleep(0.1)
        assert len(marked(mark)) > 5, "the processes are found"
        process.terminate()
        assert process.wait(60) == INTERRUPTED
    learned = checkpoint.load(out).rest["algorithm"]["learner"]["decisions"]
    assert learned >= rows[-1]["decisions"]
    text = said.read_text()
    assert "Traceback" not in text
    end = f"interrupted after {learned:,} decisions; go on with: ccarena train --out {out} --resume"
    assert text.splitlines()[-1].startswith(end), text
    deadline_s = time.monotonic() + 30  # the kernel needs a moment for a killed process
    while left := marked(mark):
        assert time.monotonic() < deadline_s, left
        time.sleep(0.2)
    words = [
        sys.executable,
        "-m",
        "ccarena.cli",
        *shlex.split(text.splitlines()[-1].partition("go on with: ccarena ")[2]),
    ]
    words += ["--total-decisions", str(learned + 2000)]
    assert subprocess.run(words, env=environment).returncode == 0
    assert checkpoint.load(out).rest["algorithm"]["learner"]["decisions"] >= learned + 2000
    assert not marked(mark)


@pytest.mark.slow
def test_a_terminated_training_ends_with_a_checkpoint(cluster: Any, tmp_path: Path) -> None:
    """Ray has a handler of its own for the signal."""
    out = tmp_path / "run"
    process = training(out, cluster.address, checkpoint_every_s=1000)
    deadline_s = time.monotonic() + 180
    while not (rows := read_progress(out / "progress.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.1)
    process.terminate()
    assert process.wait(60) == INTERRUPTED
    assert checkpoint.load(out).rest["algorithm"]["learner"]["decisions"] >= rows[-1]["decisions"]


@pytest.mark.slow
def test_prometheus_finds_what_a_training_does(cluster: Any, tmp_path: Path) -> None:
    import ray

    parser = pytest.importorskip(
        "prometheus_client.parser", reason="RAY'S METRICS ARE NOT INSTALLED: they are not fetched (ccarena[cluster])"
    )
    out = tmp_path / "run"
    process = training(out, cluster.address)
    pages = [f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics" for node in ray.nodes()]
    fetch = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    wanted = {"decisions", "decisions_per_second", "workers", "restarts"}
    wanted |= {"staleness_mean", "stale_gradients", "queued_gradients"}
    found: dict[str, float] = {}
    deadline_s = time.monotonic() + 180
    while not wanted <= found.keys() or not found["decisions"]:
        assert process.poll() is None and time.monotonic() < deadline_s, found
        time.sleep(1.0)
        for page in pages:
            with contextlib.suppress(OSError):  # of a node that is lost
                for family in parser.text_string_to_metric_families(fetch(page, timeout=10).read().decode()):
                    for sample in family.samples:
                        if sample.labels.get("run") == str(out):
                            found[sample.name.removeprefix("ray_ccarena_")] = sample.value
    process.terminate()
    assert process.wait(60) == INTERRUPTED
    learner = checkpoint.load(out).rest["algorithm"]["learner"]
    assert 0 < found["decisions"] <= learner["decisions"] and found["decisions_per_second"] > 0
    assert 0 <= found["staleness_mean"] <= 8 and 0 <= found["queued_gradients"] <= 2 and 1 <= found["workers"] <= 2
    # On a busy machine a worker may fall so far behind that its gradient is thrown away: after more than 8 updates.
    assert 0 <= found["stale_gradients"] <= learner["updates"] / 8 and found["restarts"] <= 2


@pytest.mark.slow
def test_a_killed_driver_is_resumed_on_one_machine(cluster: Any, tmp_path: Path) -> None:
    """A checkpoint of a cluster is one of a single machine, and of another number of workers."""
    out = tmp_path / "run"
    process = training(out, cluster.address)
    learned = first_checkpoint(out, process)
    process.kill()
    process.wait()
    again = ["train", "--out", str(out), "--resume", "--executor", "local", "--algorithm.workers", "1"]
    assert cli.main([*again, "--total-decisions", str(learned + 2000)]) == 0
    assert checkpoint.load(out).rest["algorithm"]["learner"]["decisions"] >= learned + 2000


@pytest.mark.slow
def test_a_lost_head_ends_training_and_another_cluster_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")
    out = tmp_path / "run"
    with nodes.apart(num_cpus=2) as (address, head):
        with open(tmp_path / "said", "w") as said:
            process = training(out, address, stderr=said)
            learned = first_checkpoint(out, process)
            head.kill()
            assert process.wait(timeout=120) == 1
    deadline_s = time.monotonic() + 20
    while "error: " not in (text := (tmp_path / "said").read_text()):
        assert time.monotonic() < deadline_s, text
        time.sleep(0.1)
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert "the Ray cluster at " in error
    assert error.endswith(f"(--ray-address), and go on with: ccarena train --out {out} --resume")
    assert "Traceback" not in text and "Failed to connect to GCS" not in text
    with nodes.apart(num_cpus=2) as (address, _):
        words = ["train", "--out", str(out), "--resume", "--total-decisions", str(learned + 2000)]
        again = subprocess.run([sys.executable, "-m", "ccarena.cli", *words, "--ray-address", address])
        assert again.returncode == 0
    assert checkpoint.load(out).rest["algorithm"]["learner"]["decisions"] >= learned + 2000


@pytest.mark.slow
def test_an_sb3_algorithm_learns_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "--config", "orca", "--algorithm", '{"name": "PPO", "n_steps": 16, "batch_size": 32}', *SMALL]
    words += ["--network", '{"name": "mlp", "hidden": [4]}', "--total-decisions", "256", "--out", str(out)]
    assert cli.main([*words, "--executor", "ray", "--ray.workers", "2"]) == 0
    assert json.loads((out / "progress.jsonl").read_text("utf-8").splitlines()[-1])["workers"] == 2


def test_evolution_on_a_cluster_scores_as_in_one_process(cluster: Any) -> None:
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
