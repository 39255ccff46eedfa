"""Where one learner is full: what it spends on a worker's share of the work, by algorithm, beside slowed workers.

A learner serves workers one after another. What a worker costs it, over what a worker takes for the same work by
itself, says how many workers fill it. Workers are slowed, so that many of them fit on few cores: they compute their
first answer, and give it again and again after a pause.
"""

from __future__ import annotations

import functools
import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS

from bench.sheet import Sheet
from bench.slow import SlowWorker, Still, pause
from ccarena.agents.a3c import Differentiator, Learner, Rollout, Update, Worker
from ccarena.agents.algorithm import Context, MakeEnvs, Stats
from ccarena.agents.algorithms import build
from ccarena.agents.collecting import seeds
from ccarena.agents.evolution import Genome
from ccarena.agents.evolution_runs import LocalEvaluator
from ccarena.agents.ray import RayExecutor
from ccarena.agents.ray_envs import RayVectorEnv
from ccarena.agents.rllib import UPDATES
from ccarena.agents.rllib_runner import STATS
from ccarena.agents.worlds import environments
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import A3CConfig, EvolutionConfig
from ccarena.executors.ray import OnRay, module
from ccarena.policies.spec import spec_of

WORLDS = 32
"""Of a worker of A3C."""
PAUSE_S, STEP_S = 0.1, 0.05
"""How long a slowed worker takes for an answer, and slowed worlds for a step."""
SB3: dict[str, tuple[str, int, dict[str, Any]]] = {
    "PPO": ("aurora", 8192, {}),
    "TD3": ("hyvar", 8192, {"algorithm.learning_starts": 64}),
}
"""Algorithms of Stable-Baselines3 with a configuration that uses them, how many decisions are measured, and changes."""
RLLIB: dict[str, tuple[str, dict[str, Any]]] = {
    "PPO": ("aurora", {"trainer": "ppo", "rollout_length": 64, "minibatch_size": 4096}),
    "PPO, ACCT": ("acct", {"trainer": "ppo", "minibatch_size": 4096}),
    "APPO": ("acct", {"trainer": "appo"}),
    "IMPALA": ("acct", {"trainer": "impala"}),
    "SAC": ("hyvar", {"trainer": "sac", "rollout_length": 16, "num_steps_sampled_before_learning_starts": 1}),
}
"""Trainers of RLlib with a configuration that uses them, and arguments."""
RLLIB_WORLDS = {"ppo": 256, "appo": 64, "impala": 64, "sac": 64}
TABLE = "Where one learner is full"
WHAT = {
    "rollout": f"a worker's rollout of {WORLDS} worlds",
    "gradient": "its gradient",
    "apply": "applying it",
    "broadcast": "broadcasting the weights",
}


def measure(sheet: Sheet, seconds: float = 8.0, workers: int = 64) -> None:
    """All algorithms."""
    ray = module()
    torch.set_num_threads(1)
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        measure_a3c(sheet, seconds, workers)
        per_worker_ms = step_cost_ms(workers // 4)
        sheet.add("training/learner-step", "asking one process of worlds for a step", per_worker_ms, "ms", table=TABLE)
        for name, (config, decisions, more) in SB3.items():
            changes = {"threads": 1, "env.link.kinds.trace": 0, **more}
            worlds_ms, own_ms = shares_ms(load_config(config, changes), decisions)
            what = f"{name} (`{config}`)"
            key = f"training/learner-{name.lower()}"
            sheet.add(f"{key}-own", f"{what}: learner, per step of all worlds", own_ms, "ms", table=TABLE)
            sheet.add(f"{key}-worlds", f"{what}: worlds on one core, per step of all", worlds_ms, "ms", table=TABLE)
            full = balanced(worlds_ms, own_ms, per_worker_ms)
            sheet.add(f"{key}-full", f"{what}: workers at which it is full", full, "workers", table=TABLE)
        measure_evolution(sheet, workers)
        for name, (config, arguments) in RLLIB.items():
            measure_rllib(sheet, name, config, arguments)
    finally:
        ray.shutdown()


def measure_a3c(sheet: Sheet, seconds: float, workers: int) -> None:
    """What a gradient costs a worker and the learner, and what the learner manages."""
    context = a3c_context(workers)
    config = _a3c(context.config)
    worker = Worker(context.make_envs(WORLDS, 1), context, config, *seeds(1, 0))
    learner, differentiator = Learner(context, config), Differentiator(context, config, "cpu")
    ray, rollout = module(), worker.collect(learner.weights)
    update = differentiator.update(rollout, 0.01)
    costs = {
        "rollout": each_ms(lambda: worker.collect(learner.weights)),
        "gradient": each_ms(lambda: differentiator.update(rollout, 0.01)),
        "apply": each_ms(lambda: learner.apply(update)),
        "broadcast": each_ms(lambda: ray.put(learner.weights)),
    }
    worker.close()
    sheet.add("training/learner-weights", "A3C (`acct`): weights", learner.weights.nbytes / 1e3, "kB", table=TABLE)
    for name, value in costs.items():
        what = f"A3C: {WHAT[name]}"
        sheet.add(f"training/learner-{name}", what, value, "ms", table=TABLE)
    alone_ms = costs["rollout"] + costs["gradient"]
    for exchange, count in (("gradients", workers), ("rollouts", workers // 4)):
        asked_for, taken, own_ms, staleness = fed(
            exchange, update if exchange == "gradients" else rollout, count, seconds
        )
        key, what = f"training/learner-{exchange}", f"A3C, workers send {exchange}"
        sheet.add(f"{key}-own", f"{what}: learner, per update", own_ms, "ms", table=TABLE)
        told = f"{what}: updates with {count} slowed workers, which offer {asked_for:.0f}/s"
        sheet.add(f"{key}-rate", told, taken, "updates/s", table=TABLE)
        sheet.add(f"{key}-staleness", f"{what}: staleness then", staleness, "updates", table=TABLE)
        # A worker that sends rollouts does not compute gradients meanwhile.
        worker_ms = alone_ms if exchange == "gradients" else costs["rollout"]
        told = f"{what}: workers at which it is full, by its own time"
        sheet.add(f"{key}-full", told, worker_ms / own_ms, "workers", table=TABLE)
        # Here the slowed workers are on the learner's machine, and take of its cores, too.
        told = f"{what}: workers at which it is full, by what it took beside them on one machine"
        sheet.add(f"{key}-full-beside", told, taken * worker_ms / 1e3, "workers", table=TABLE)


def a3c_context(workers: int, **more: Any) -> Context:
    """The default training, with so many workers on Ray."""
    changes = {"algorithm.workers": workers, "env.worlds": WORLDS * workers, "executor": "ray"}
    config = load_config("acct", {**changes, "total_decisions": 10**9, "env.link.kinds.trace": 0, **more})
    return Context(config, spec_of(config), functools.partial(environments(config)))


def fed(exchange: str, answer: Update | Rollout, workers: int, seconds: float) -> tuple[float, float, float, float]:
    """Updates/s that slowed workers offer and that the learner takes, its own time per update, ms, and staleness."""
    context = a3c_context(workers, **{"ray.exchange": exchange})
    learner = Learner(context, _a3c(context.config))
    executor = _Fed(answer, learner, context, _a3c(context.config))
    try:
        answered = 0
        while answered < 2 * workers or executor.figures()["workers"] < workers:
            answered += executor.step() is not None
        before, began_s, own_s = learner.updates, time.perf_counter(), time.thread_time()
        while (took_s := time.perf_counter() - began_s) < seconds:
            executor.step()
        updates = learner.updates - before
        own_ms = 1e3 * (time.thread_time() - own_s) / updates
        return workers / PAUSE_S, updates / took_s, own_ms, executor.figures()["staleness_mean"]
    finally:
        executor.close()


class _Fed(RayExecutor):
    """Its workers hand over `answer`."""

    worker = SlowWorker  # type: ignore[assignment]

    def __init__(self, answer: Update | Rollout, learner: Learner, context: Context, config: A3CConfig) -> None:
        self._answer = pickle.dumps(answer)
        super().__init__(learner, context, config)

    def _create_actor(self, remote: Any, context: Context, device: str, index: int) -> Any:
        return remote.remote(self._answer, PAUSE_S)

    def _update(self, call: Any, result: Any) -> Update:
        return super()._update(call, pickle.loads(result))


def step_cost_ms(workers: int) -> float:
    """What one process of worlds adds to a step of all, beside the time that its worlds take."""
    changes = {"executor": "ray", "ray.workers": workers, "env.worlds": 16 * workers, "env.link.kinds.trace": 0}
    config = load_config("aurora", changes)
    make_envs: Any = functools.partial(Still, load_config("aurora", {"env.link.kinds.trace": 0}), STEP_S)
    worlds = RayVectorEnv(make_envs, config, 16 * workers)
    try:
        worlds.reset(seed=1)
        actions = np.zeros((16 * workers, *worlds.single_action_space.shape), np.float32)  # type: ignore[misc]
        return (each_ms(lambda: worlds.step(actions)) - 1e3 * STEP_S) / workers
    finally:
        worlds.close()


def shares_ms(config: TrainConfig, decisions: int) -> tuple[float, float]:
    """What a step of all worlds takes on one core, and what the learner takes per step: acting and learning, ms."""
    spent_s = [0.0]
    context = Context(config, spec_of(config), functools.partial(_timed, environments(config), spent_s))
    algorithm = build(context)
    try:
        run = Some(algorithm, decisions)
        began_s = time.perf_counter()
        algorithm.learn(run)
        took_s = time.perf_counter() - began_s
        steps = algorithm.decisions / context.rows
        return 1e3 * spent_s[0] / steps, 1e3 * (took_s - spent_s[0]) / steps
    finally:
        algorithm.close()


def measure_rllib(sheet: Sheet, name: str, config: str, arguments: dict[str, Any], iterations: int = 4) -> None:
    """Processor time of a worker's decision and of the learner's share of it, by RLlib in this process.

    An iteration acts and learns; what a rollout alone takes is subtracted.
    """
    trainer = arguments["trainer"]
    changes = {
        "algorithm": {"name": "rllib", "reward_scale": 1e-3, **arguments},
        "env.worlds": RLLIB_WORLDS[trainer],
        "env.link.kinds.trace": 0,
        "threads": 1,
        "total_decisions": 10**9,
    }
    trained = load_config(config, changes)
    algorithm: Any = build(Context(trained, spec_of(trained), environments(trained)))
    try:
        rllib = algorithm.start()
        for _ in range(2):
            result = rllib.train()
        pieces, acting_us = [], []
        for _ in range(iterations):
            began_s = time.process_time()
            pieces = rllib.env_runner.sample()
            decisions = sum(len(piece) for piece in pieces)
            acting_us.append(1e6 * (time.process_time() - began_s) / decisions)
        rllib.env_runner.get_metrics()
        learned, updates, began_s, from_s = 0.0, -_updates(result), time.process_time(), time.perf_counter()
        while learned < iterations * decisions:
            result = rllib.train()
            learned += result[ENV_RUNNER_RESULTS][STATS]["decisions"]
        updates += _updates(result)
        worker_us = statistics.median(acting_us)
        own_us = 1e6 * (time.process_time() - began_s) / learned - worker_us
        took_s = time.perf_counter() - from_s
    finally:
        algorithm.close()
    what, key = f"RLlib's {name} (`{config}`)", f"training/learner-rllib-{name.lower().replace(', ', '-')}"
    sent_bytes = len(pickle.dumps(pieces)) / decisions
    sheet.add(f"{key}-worker", f"{what}: a worker, per decision", worker_us, "µs", table=TABLE)
    sheet.add(f"{key}-own", f"{what}: learner, per decision", own_us, "µs", table=TABLE)
    sheet.add(f"{key}-full", f"{what}: workers at which it is full", worker_us / own_us, "workers", table=TABLE)
    sheet.add(f"{key}-updates", f"{what}: updates with one worker in its process", updates / took_s, "1/s", table=TABLE)
    sheet.add(f"{key}-bytes", f"{what}: message of a decision", sent_bytes, "bytes", table=TABLE)


def _updates(result: dict[str, Any]) -> float:
    return float(result.get(LEARNER_RESULTS, {}).get(DEFAULT_MODULE_ID, {}).get(UPDATES, 0.0))


def _timed(make_envs: MakeEnvs, spent_s: list[float], rows: int, threads: int, **more: Any) -> Any:
    envs = make_envs(rows, threads, **more)
    step = envs.step

    def timed(actions: Any) -> Any:
        began_s = time.perf_counter()
        answer = step(actions)
        spent_s[0] += time.perf_counter() - began_s
        return answer

    envs.step = timed  # type: ignore[method-assign]
    return envs


class Some:
    """A training of so many decisions without records (`ccarena.agents.algorithm.Run`)."""

    def __init__(self, algorithm: Any, decisions: int) -> None:
        self._algorithm, self._decisions = algorithm, decisions

    def record(self, stats: Stats, *, updates: int = 0, **now: float) -> None:
        pass

    def rest(self) -> bool:
        return bool(self._algorithm.decisions < self._decisions)


def balanced(worlds_ms: float, own_ms: float, per_worker_ms: float) -> float:
    """Workers at which a step of their worlds takes as long as all that the learner does for it: more of them cannot
    halve it any more. n with worlds_ms / n = own_ms + n per_worker_ms."""
    return (-own_ms + (own_ms**2 + 4 * per_worker_ms * worlds_ms) ** 0.5) / (2 * per_worker_ms)


def measure_evolution(sheet: Sheet, workers: int) -> None:
    """What handing out a candidate costs, beside what a candidate takes."""
    changes = {"env.link.kinds.trace": 0, "threads": 1}
    config = load_config("hyvar-packets", changes)
    assert isinstance(config.algorithm, EvolutionConfig)
    context = Context(config, spec_of(config), environments(config))
    genome = Genome(context, config.algorithm)
    candidate = [genome.candidate(genome.start)]
    evaluator = LocalEvaluator(config, context.spec, threads=1)
    candidate_ms = each_ms(lambda: evaluator.score(candidate, 1), 5)
    own_s, pieces = time.thread_time(), 4 * workers
    for done in OnRay(copies=False).run(pause, [PAUSE_S] * pieces):
        done.result()
    own_ms = 1e3 * (time.thread_time() - own_s) / pieces
    what = "evolution (`hyvar-packets`)"
    sheet.add("training/learner-evolution-own", f"{what}: handing out a candidate", own_ms, "ms", table=TABLE)
    sheet.add("training/learner-evolution-candidate", f"{what}: one candidate", candidate_ms, "ms", table=TABLE)
    full = min(candidate_ms / own_ms, config.algorithm.population or np.inf)
    told = f"{what}: workers at which it is full, at most its population"
    sheet.add("training/learner-evolution-full", told, full, "workers", table=TABLE)


def each_ms(work: Callable[[], Any], times: int = 50) -> float:
    """How long `work` takes, the median."""
    spent = []
    for _ in range(times):
        began_s = time.perf_counter()
        work()
        spent.append(1e3 * (time.perf_counter() - began_s))
    return statistics.median(spent)


def _a3c(config: TrainConfig) -> A3CConfig:
    assert isinstance(config.algorithm, A3CConfig)
    return config.algorithm
