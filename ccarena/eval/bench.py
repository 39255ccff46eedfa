"""`python -m ccarena.eval.bench`: how fast environments and training run here, beside the figures to reach.

| figure                                                        | to reach                              |
|---------------------------------------------------------------|---------------------------------------|
| random policy, default training distribution, 64 worlds       | 50,000 decisions/s on 2 cores         |
| packets/s of the environment over the bare simulator's        | 0.8                                   |
| memory of a vector environment of 1,024 worlds, whole process | 2 GB                                  |
| A3C end to end                                                | 20,000 decisions/s on 2 cores         |
| `reproduce wcc/ack`, in full                                  | 120 s on 2 cores                      |
| `reproduce hercules/worst-case`, in full, from a few seeds    | 1,800 s on 2 cores                    |

A suite's packets/s, all cores together, stand beside those of one flow of CUBIC on one core.

It reports; it fails on nothing. The bare simulator replays the very same worlds and actions in Rust alone, on as many
threads: no observations, no reports, no step that waits for the slowest world. Both deliver the same packets.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs import TrainConfig, load_config
from ccarena.errors import CcarenaError
from ccarena.eval.reproduce.suite import load

if TYPE_CHECKING:
    from ccarena.envs import LearnedVectorEnv

DECISIONS_PER_S, PACKET_RATIO, MEMORY_GB, A3C_DECISIONS_PER_S = 50_000, 0.8, 2.0, 20_000
SEED = 1
RUNS = 5
SUITES = {"wcc/ack": (120.0, None), "hercules/worst-case": (1800.0, 4)}
"""Seconds that each may take in full, and the seeds that it is measured with (None: all)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure environments and training.")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the environment (2)")
    parser.add_argument("--train-decisions", type=int, default=200_000, help="length of the training (200000)")
    parser.add_argument("--only-memory", type=int, metavar="WORLDS", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    config = load_config("acct")
    try:
        if args.only_memory:
            print(_peak_memory_gb(config, args.only_memory, args.threads))
            return 0
        _report(config, args)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _report(config: TrainConfig, args: argparse.Namespace) -> None:
    decisions = decision_rate(config, args.threads, args.seconds)
    line(
        f"random policy, {config.env.worlds} worlds, {args.threads} threads", decisions, "decisions/s", DECISIONS_PER_S
    )
    packets, bare = packet_rates(config, args.threads)
    line("the environment's packets", packets, "packets/s")
    line("the bare simulator's packets", bare, "packets/s")
    line("environment over bare simulator", packets / bare, "", PACKET_RATIO)
    command = [sys.executable, "-m", "ccarena.eval.bench", "--only-memory", "1024", "--threads", str(args.threads)]
    memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    line("1,024 worlds, whole process", memory, "GB", MEMORY_GB, at_most=True)
    trained = training_rate(args.train_decisions, args.threads)
    line(f"A3C, {args.train_decisions:,} decisions, end to end", trained, "decisions/s", A3C_DECISIONS_PER_S)
    one_flow = cubic_packet_rate()
    line("one flow of CUBIC, 100 Mbit/s", one_flow, "packets/s")
    for name, (goal_s, seeds) in SUITES.items():
        seconds, packets = suite_time(name, seeds)
        rate = packets / seconds
        if seeds is not None:
            seconds *= load(name).suite.seeds.full / seeds
        line(f"reproduce {name}, in full", seconds, "s", goal_s, at_most=True)
        line("  its packets over one flow of CUBIC's", rate / one_flow, "")


def decision_rate(config: TrainConfig, threads: int, seconds: float) -> float:
    """Decisions/s of random actions in the configured environment."""
    from ccarena.envs import LearnedVectorEnv

    env = LearnedVectorEnv(config, threads=threads, copy=False)
    actions = _random_actions(env)
    env.reset(seed=SEED)
    for row in actions:
        env.step(row)
    steps, began_s = 0, time.perf_counter()
    while (spent_s := time.perf_counter() - began_s) < seconds:
        env.step(actions[steps % len(actions)])
        steps += 1
    return steps * config.env.worlds / spent_s


def packet_rates(config: TrainConfig, threads: int) -> tuple[float, float]:
    """Packets/s of the environment and of the bare simulator over the same episodes: the best of `RUNS` runs each."""
    from ccarena.envs import LearnedVectorEnv

    # Episodes longer than the steps taken, so that what is replayed is all that was simulated.
    env = LearnedVectorEnv(config, config={"episode_s": 300}, threads=threads, copy=False)
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
    return rng.uniform(*scheme.bounds, (steps, env.num_envs, 1))


def training_rate(decisions: int, threads: int) -> float:
    """Decisions/s of the default training, from its own clock: without imports and evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        words = ["train", "--config", "acct", "--total-decisions", str(decisions), "--threads", str(threads)]
        command = [sys.executable, "-m", "ccarena.cli", *words, "--eval.link_sets", "[]", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CcarenaError(f"the training of the benchmark failed: {done.stderr.strip().splitlines()[-1]}")
        last = json.loads((out / "progress.jsonl").read_text("utf-8").splitlines()[-1])
    return float(last["decisions"] / last["elapsed_s"])


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
    # Linux counts ru_maxrss in KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def line(what: str, value: float, unit: str, goal: float | None = None, at_most: bool = False) -> None:
    """Prints one figure beside its goal."""
    shown = f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    reached = "" if goal is None else "reached" if (value <= goal if at_most else value >= goal) else "NOT reached"
    target = "" if goal is None else f"(to reach: {'≤' if at_most else '≥'} {goal:,g}; {reached})"
    print(f"{what:<52} {shown:>12} {unit:<12} {target}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
