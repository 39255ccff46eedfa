"""How fast environments and training run, and how long two large suites take.

The bare simulator replays the very same worlds and actions in Rust alone, on as many threads: it makes no observations
and no reports, and no step waits for the slowest world. Both deliver the same packets.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.sheet import Sheet
from ccarena import _core
from ccarena.configs import TrainConfig, load_config
from ccarena.core.measurements import Ratio, Target
from ccarena.errors import CcarenaError
from ccarena.eval.reproduce.suite import load

if TYPE_CHECKING:
    from ccarena.envs import LearnedVectorEnv

SEED = 1
RUNS = 5
STARTS = 20
SCALED_WORLDS = {8: 1.0, 64: 1.8, 256: 1.8}
"""Numbers of worlds, and what two threads are to give over one with each."""
PAIRS = 15
PAIR_S = 0.6
MEMORY_WORLDS = 1024
SB3: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ppo": ("aurora", 8192, {}),
    "td3": ("hyvar", 4096, {"algorithm.learning_starts": 64}),
}
"""Algorithms of Stable-Baselines3: a shipped record that learns by it, decisions per round, and what is changed."""
SB3_ROUNDS = 3
SUITES = {"wcc/ack": (120.0, None), "hercules/worst-case": (1800.0, 4)}
"""Seconds that each may take in full, and the seeds that it is measured with (None: all)."""


def measure(sheet: Sheet, seconds: float, threads: int, train_decisions: int) -> None:
    """Environments, A3C and Stable-Baselines3."""
    config = load_config("acct")
    decisions = decision_rate(config, threads, seconds)
    what = f"environment, random policy, {config.env.worlds} worlds, {threads} threads"
    sheet.add("training/random-policy", what, decisions, "decisions/s", Target(at_least=50_000))
    packets, bare = packet_rates(config, threads)
    sheet.add("training/environment-packets", "the environment's packets", packets / 1e6, "M packets/s")
    what = "the environment's packets/s over the bare simulator's"
    sheet.add("training/environment-ratio", what, packets / bare, "×", Target(at_least=0.92))
    for worlds, least in SCALED_WORLDS.items():
        what = f"environment, {worlds} worlds: two threads over one"
        sheet.add(f"training/threads-{worlds}", what, two_over_one(config, worlds), "×", Target(at_least=least))
    # Of a process of its own, whose largest resident set is the environment's.
    command = [sys.executable, "-m", "bench.training", str(MEMORY_WORLDS), str(threads)]
    memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"memory of {MEMORY_WORLDS:,} worlds, whole process"
    sheet.add("training/memory", what, memory, "GB", Target(at_most=2.0))
    trained = training_rate(train_decisions, threads)
    what = f"A3C end to end, {threads} threads"
    sheet.add("training/a3c", what, trained, "decisions/s", Target(at_least=20_000))
    for algorithm, (name, decisions, changes) in SB3.items():
        record = load_config(name, {"threads": threads, "env.link.kinds.trace": 0, **changes})
        what = f"{algorithm.upper()} of Stable-Baselines3 (`{name}`): its rate over that on worlds that do nothing"
        sheet.add(f"training/sb3-{algorithm}", what, sb3_share(record, decisions), "×", Target(at_least=0.6))


def measure_evaluation(sheet: Sheet, threads: int) -> None:
    """Processor time after the last decision of the default training, as a share of the whole command's.

    Processor time, unlike time on the clock, depends little on what else runs.
    """
    command = [sys.executable, "-m", "bench.training", "evaluation", str(threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    whole_s, after_s, rules_s = map(float, done.stdout.splitlines()[-1].split())
    what = "`ccarena train`: share of its processor time after the last decision"
    sheet.add("training/evaluation-share", what, 100 * after_s / whole_s, "%", Target(at_most=25))
    what = "`ccarena train`: share of its processor time that searches baseline rules"
    sheet.add("training/rules-share", what, 100 * rules_s / whole_s, "%")


def measure_start(sheet: Sheet) -> None:
    """The command line's start, a whole process."""
    command = [sys.executable, "-c", "import ccarena_command; ccarena_command.main()", "--help"]
    seconds = []
    for _ in range(STARTS):
        began_s = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began_s)
    sheet.add("training/start", "`ccarena --help`, median", statistics.median(seconds), "s", Target(at_most=0.15))


def measure_suites(sheet: Sheet) -> None:
    """Two suites on all cores, start-up included."""
    one_flow = cubic_packet_rate()
    for name, (goal_s, seeds) in SUITES.items():
        seconds, packets = suite_time(name, seeds)
        ratio = Ratio(packets / seconds / one_flow, "the packets/s of one CUBIC flow on one core")
        if seeds is not None:
            seconds *= load(name).suite.seeds.full / seeds
        key = f"papers/time-{name.replace('/', '-')}"
        sheet.add(key, f"`ccarena reproduce {name}`, in full", seconds, "s", Target(at_most=goal_s), ratio)


def decision_rate(config: TrainConfig, threads: int, seconds: float) -> float:
    """Decisions/s of random actions in the configured environment."""
    from ccarena.envs import LearnedVectorEnv

    env = LearnedVectorEnv(config, threads=threads, copy=False)
    actions = _random_actions(env)
    env.reset(seed=SEED)
    for row in actions:
        env.step(row)
    return steps_per_s(env, actions, seconds) * config.env.worlds


def two_over_one(config: TrainConfig, worlds: int) -> float:
    """The rate of random actions in `worlds` worlds on two threads over that on one: the median of pairs in turns."""
    from ccarena.envs import LearnedVectorEnv

    envs = [LearnedVectorEnv(config, worlds, threads=threads, copy=False) for threads in (1, 2)]
    actions = _random_actions(envs[0])
    for env in envs:
        env.reset(seed=SEED)
    ratios = []
    for _ in range(PAIRS):
        one, two = (steps_per_s(env, actions, PAIR_S) for env in envs)
        ratios.append(two / one)
    return statistics.median(ratios)


def steps_per_s(env: LearnedVectorEnv, actions: NDArray[Any], seconds: float) -> float:
    """Steps of all worlds per second."""
    steps, began_s = 0, time.perf_counter()
    while (spent_s := time.perf_counter() - began_s) < seconds:
        env.step(actions[steps % len(actions)])
        steps += 1
    return steps / spent_s


def packet_rates(config: TrainConfig, threads: int) -> tuple[float, float]:
    """Packets/s of the environment and of the bare simulator over the same episodes: the best of `RUNS` runs each."""
    from ccarena.envs import LearnedVectorEnv

    # Episodes longer than the steps taken, so that what is replayed is all that was simulated.
    env = LearnedVectorEnv(config, distribution={"episode_s": 300}, threads=threads, copy=False)
    actions = _random_actions(env)
    stepped_s, replayed_s = [], []
    for _ in range(RUNS):
        began_s = time.perf_counter()
        env.reset(seed=SEED)
        for row in actions:
            env.step(row)
        stepped_s.append(time.perf_counter() - began_s)
        state, packets = env.get_state(), env.data_packets
        began_s = time.perf_counter()
        env.set_state(state)
        replayed_s.append(time.perf_counter() - began_s)
        if env.data_packets != packets:
            raise CcarenaError("the benchmark's replay delivered other packets than the environment did")
    return packets / min(stepped_s), packets / min(replayed_s)


def _random_actions(env: LearnedVectorEnv, steps: int = 512) -> NDArray[Any]:
    rng, scheme = np.random.default_rng(SEED), env.scheme
    if scheme.bounds is None:
        return rng.integers(0, len(scheme.actions), (steps, env.num_envs))
    low, high = np.array(scheme.bounds).T
    return rng.uniform(low, high, (steps, env.num_envs, scheme.numbers))


def training_rate(decisions: int, threads: int) -> float:
    """Decisions/s of the default training, from its own clock: without imports and evaluation.

    It is validated as seldom as the whole training, of which `decisions` are a part.
    """
    # Here alone: PyTorch would be most of the memory that is measured above.
    from ccarena.agents.train import LEAST_BETWEEN, VALIDATIONS

    every = max(load_config("acct").total_decisions // VALIDATIONS, LEAST_BETWEEN)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        words = ["train", "--config", "acct", "--total-decisions", str(decisions), "--threads", str(threads)]
        words += ["--validation.every_decisions", str(every)]
        command = [sys.executable, "-m", "ccarena.cli", *words, "--eval.link_sets", "[]", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CcarenaError(f"the training of the benchmark failed: {done.stderr.strip().splitlines()[-1]}")
        last = json.loads((out / "progress.jsonl").read_text("utf-8").splitlines()[-1])
    return float(last["decisions"] / last["elapsed_s"])


def sb3_share(config: TrainConfig, decisions: int) -> float:
    """The rate of an algorithm of Stable-Baselines3 over its own on worlds that do nothing: the median of `SB3_ROUNDS`
    pairs of runs, one after the other.

    Worlds that do nothing give one answer again and again, and nothing of ccarena's is called: neither the worlds, nor
    what makes them a `VecEnv`, nor what books the learning curve.
    """
    from bench.saturation import Some
    from ccarena.agents.algorithm import Context
    from ccarena.agents.sb3 import Sb3
    from ccarena.agents.worlds import environments
    from ccarena.policies.spec import spec_of

    algorithm = Sb3(Context(config, spec_of(config), environments(config)))
    model, worlds = algorithm._model, algorithm._worlds
    try:
        algorithm.learn(Some(algorithm, decisions))
        answer = worlds.step_wait()
        while answer[2].any():
            answer = worlds.step_wait()
        step, shares = worlds.step_wait, []
        for _ in range(SB3_ROUNDS):
            began_s, done = time.perf_counter(), algorithm.decisions
            algorithm.learn(Some(algorithm, done + decisions))
            each_s = (time.perf_counter() - began_s) / (algorithm.decisions - done)
            worlds.step_wait = lambda: answer  # type: ignore[method-assign]
            began_s, done = time.perf_counter(), algorithm.decisions
            model.learn(decisions, log_interval=sys.maxsize, reset_num_timesteps=False)
            shares.append((time.perf_counter() - began_s) / (algorithm.decisions - done) / each_s)
            worlds.step_wait = step  # type: ignore[method-assign]
        return statistics.median(shares)
    finally:
        algorithm.close()


def cubic_packet_rate(seconds: float = 600.0) -> float:
    """Packets/s of one flow of CUBIC on 100 Mbit/s, 20 ms and 1 BDP, on one core: the best of `RUNS` runs."""
    link = {"service": {"type": "constant", "rate_mbps": 100}, "delay_ms": 10}
    document = json.dumps({"duration_s": seconds, "links": [link], "flows": [{"scheme": "cubic"}]})
    rates = []
    for _ in range(RUNS):
        began_s = time.perf_counter()
        packets = _core.simulate(document)["links"][0]["delivered_packets"]
        rates.append(packets / (time.perf_counter() - began_s))
    return max(rates)


def suite_time(name: str, seeds: int | None) -> tuple[float, float]:
    """Seconds that suite `name` takes with `seeds` seeds on all cores, start-up included, and the packets it sends."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ccarena.cli", "reproduce", name, "--out", folder]
        command += [] if seeds is None else ["--seeds", str(seeds)]
        began_s = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began_s
        rows = Path(folder, name, "rows.csv")
        if done.returncode != 0 or not rows.is_file():
            raise CcarenaError(f"the benchmark's suite {name} failed: {done.stderr.strip().splitlines()[-1:]}")
        with rows.open(encoding="utf-8", newline="") as file:
            return seconds, sum(float(row["sent_packets"] or 0) for row in csv.DictReader(file))


def _peak_memory_gb(config: TrainConfig, worlds: int, threads: int) -> float:
    """Largest resident set of this process after some steps of `worlds` worlds."""
    from ccarena.envs import LearnedVectorEnv

    env = LearnedVectorEnv(config, worlds, threads=threads, copy=False)
    env.reset(seed=SEED)
    for row in _random_actions(env, 256):
        env.step(row)
    # Not ru_maxrss, which a process takes over from the one that started it (VmHWM in KiB, proc_pid_status(5)).
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def _after_training(threads: int) -> tuple[float, float, float]:
    """Returns the processor time in s of the whole default training, of all after its last decision, and of the search
    of baseline rules in that.
    """
    from ccarena import cli
    from ccarena.agents import train
    from ccarena.eval.heldout import rules

    finish, search, spent = train._finish, rules.search, {}

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any) -> Any:
            began_s = time.process_time()
            out = call(*args)
            spent[name] = time.process_time() - began_s
            return out

        return measured

    train._finish, rules.search = timed("after", finish), timed("rules", search)
    with tempfile.TemporaryDirectory() as folder:
        code = cli.main(["train", "--config", "acct", "--threads", str(threads), "--out", str(Path(folder, "run"))])
    if code != 0:
        raise CcarenaError(f"the training of the benchmark ended with {code}")
    return time.process_time(), spent["after"], spent["rules"]


if __name__ == "__main__":
    if sys.argv[1] == "evaluation":
        print(*_after_training(int(sys.argv[2])))
        sys.exit()
    print(_peak_memory_gb(load_config("acct"), int(sys.argv[1]), int(sys.argv[2])))
