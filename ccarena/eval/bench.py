"""`python -m ccarena.eval.bench`: how fast environments and training run here, beside the figures to reach.

| figure                                                        | to reach                              |
|---------------------------------------------------------------|---------------------------------------|
| random policy, default training distribution, 64 worlds       | 50,000 decisions/s on 2 cores         |
| packets/s of the environment over the bare simulator's        | 0.8                                   |
| memory of a vector environment of 1,024 worlds, whole process | 2 GB                                  |
| A3C end to end                                                | 20,000 decisions/s on 2 cores         |

It reports; it fails on nothing. The bare simulator runs the same distribution of links as single scenarios, each with
one random action throughout, on as many threads. Both count packets that reached the receiver of the learned flow,
without cross traffic.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.acct import spec
from ccarena.configs import TrainConfig, load_config
from ccarena.errors import CcarenaError
from ccarena.eval.evaluate import simulate
from ccarena.eval.links import bdp_packets

DECISIONS_PER_S, PACKET_RATIO, MEMORY_GB, A3C_DECISIONS_PER_S = 50_000, 0.8, 2.0, 20_000
SEED = 1
MSS_BYTES = 1448


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
    decisions, _ = environment_rates(config, args.threads, args.seconds)
    _line(
        f"random policy, {config.env.worlds} worlds, {args.threads} threads", decisions, "decisions/s", DECISIONS_PER_S
    )
    alone = config.model_copy(update={"env": _without_cross_traffic(config)})
    _, packets = environment_rates(alone, args.threads, args.seconds)
    bare = bare_packet_rate(config, args.threads, args.seconds)
    _line("the environment's packets", packets, "packets/s")
    _line("the bare simulator's packets", bare, "packets/s")
    _line("environment over bare simulator", packets / bare, "", PACKET_RATIO)
    command = [sys.executable, "-m", "ccarena.eval.bench", "--only-memory", "1024", "--threads", str(args.threads)]
    memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    _line("1,024 worlds, whole process", memory, "GB", MEMORY_GB, at_most=True)
    trained = training_rate(args.train_decisions, args.threads)
    _line(f"A3C, {args.train_decisions:,} decisions, end to end", trained, "decisions/s", A3C_DECISIONS_PER_S)


def environment_rates(config: TrainConfig, threads: int, seconds: float) -> tuple[float, float]:
    """(decisions/s, acknowledged packets/s) of random actions in the configured environment."""
    from ccarena.envs import AcctVectorEnv

    env = AcctVectorEnv(config=config.env, threads=threads, copy=False)
    actions = np.random.default_rng(SEED).integers(0, len(spec.ACTIONS), (256, config.env.worlds))
    env.reset(seed=SEED)
    for row in actions:
        env.step(row)
    steps, packets = 0, 0.0
    began_s = time.perf_counter()
    while (spent_s := time.perf_counter() - began_s) < seconds:
        infos: dict[str, Any] = env.step(actions[steps % len(actions)])[4]
        packets += float(np.asarray(infos["reports"])[:, spec.REPORT.acked_packets].sum())
        steps += 1
    env.close()
    return steps * config.env.worlds / spent_s, packets / spent_s


def bare_packet_rate(config: TrainConfig, threads: int, seconds: float) -> float:
    """Delivered packets/s of the simulator alone, over scenarios of the configured distribution, nothing recorded."""
    rng = np.random.default_rng(SEED)
    documents = [_draw(config, rng, seed) for seed in range(config.env.worlds)]
    for document in documents[:threads]:
        simulate(document)
    packets, began_s = 0.0, time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        while (spent_s := time.perf_counter() - began_s) < seconds:
            for result in pool.map(simulate, documents):
                packets += result["flows"][0]["delivered_bytes"] / MSS_BYTES
    return packets / spent_s


def training_rate(decisions: int, threads: int) -> float:
    """Decisions/s of the default training, from its own clock: without imports and evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        words = ["train", "--config", "acct", "--total-decisions", str(decisions), "--threads", str(threads)]
        command = [sys.executable, "-m", "ccarena.cli", *words, "--eval.suites", "[]", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CcarenaError(f"the training of the benchmark failed: {done.stderr.strip().splitlines()[-1]}")
        last = json.loads((out / "progress.jsonl").read_text("utf-8").splitlines()[-1])
    return float(last["decisions"] / last["elapsed_s"])


def _peak_memory_gb(config: TrainConfig, worlds: int, threads: int) -> float:
    """Largest resident set of this process after some steps of `worlds` worlds."""
    from ccarena.envs import AcctVectorEnv

    env = AcctVectorEnv(worlds, config.env, threads=threads, copy=False)
    env.reset(seed=SEED)
    rng = np.random.default_rng(SEED)
    for _ in range(256):
        env.step(rng.integers(0, len(spec.ACTIONS), worlds))
    # Linux counts ru_maxrss in KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _draw(config: TrainConfig, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    """A scenario with one ACCT flow from the configured distribution of links, at a random constant action."""
    link = config.env.link
    kinds = {"constant": link.kinds.constant, "random_steps": link.kinds.random_steps, "cellular": link.kinds.cellular}
    weights = np.array(list(kinds.values()))
    kind = str(rng.choice(list(kinds), p=weights / weights.sum()))
    rate, rtt, bdp = (_log_uniform(rng, ends) for ends in (link.rate_mbps, link.rtt_ms, link.buffer_bdp))
    services: dict[str, dict[str, Any]] = {
        "constant": {"type": "constant", "rate_mbps": rate},
        "random_steps": {
            "type": "random_steps",
            "min_mbps": link.rate_mbps[0],
            "max_mbps": link.rate_mbps[1],
            "period_s": float(rng.uniform(*link.step_s)),
        },
        "cellular": {"type": "cellular", "preset": str(rng.choice(_presets(link.presets)))},
    }
    packets = bdp_packets(rate * bdp, rtt)
    flow = {"scheme": "acct", "policy": {"constant": int(rng.integers(0, len(spec.ACTIONS)))}, "base_rtt_ms": rtt}
    return {
        "version": 1,
        "duration_s": float(rng.uniform(*config.env.episode_s)),
        "seed": seed,
        "links": [
            {
                "service": services[kind],
                "queue": {"type": "droptail", "packets": packets},
                "delay_ms": rtt / 2,
                "agent": bool(rng.random() < link.signal),
            }
        ],
        "flows": [flow],
    }


def _log_uniform(rng: np.random.Generator, ends: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(ends))))


def _presets(names: str | Sequence[str]) -> list[str]:
    from ccarena.traces import presets

    return [preset["name"] for preset in presets.all_presets()] if isinstance(names, str) else list(names)


def _without_cross_traffic(config: TrainConfig) -> Any:
    none = config.env.cross_traffic.model_copy(update={"probability": 0.0})
    return config.env.model_copy(update={"cross_traffic": none})


def _line(what: str, value: float, unit: str, goal: float | None = None, at_most: bool = False) -> None:
    shown = f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    reached = "" if goal is None else "reached" if (value <= goal if at_most else value >= goal) else "NOT reached"
    target = "" if goal is None else f"(to reach: {'≤' if at_most else '≥'} {goal:,g}; {reached})"
    print(f"{what:<48} {shown:>14} {unit:<12} {target}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
