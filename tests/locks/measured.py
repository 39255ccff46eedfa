"""What is locked, measured anew: a function per section, each of which returns names with their values."""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import hashlib
import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import yaml

import ccarena
from ccarena import _core, cli
from ccarena.core import programs
from ccarena.core.arguments import parsers
from tests.locks.scenarios import SCENARIOS

COUNTERS = (
    *("sent_packets", "retransmitted_packets", "lost_packets", "timeouts", "ecn_reductions", "delivered_bytes"),
    *("wire_bytes", "duplicate_packets", "rtt_min_ms", "rtt_mean_ms", "completion_s", "decisions"),
)
OF_LINK = (
    *("capacity_bytes", "arrived_packets", "delivered_bytes", "delivered_packets", "dropped_packets", "lost_packets"),
    "capacity_mbps",
)
LOGS = {
    "log": ("arrival_ns", "departure_ns", "serialisation_ns", "flow", "bytes"),
    "drops": ("time_ns", "flow"),
    "losses": ("time_ns", "flow"),
}
"""Of links. A digest has the values of these fields and not their names, in this order."""

TRAININGS: dict[str, dict[str, Any]] = {
    "acct": {
        "total_decisions": 2048,
        "algorithm.workers": 2,
        "algorithm.rollout_length": 8,
        "network.hidden": 16,
        "network.filters": 2,
        "validation.kinds": [],
        "env.worlds": 16,
        "env.episode_s": [1, 2],
    },
    "hyvar": {
        "total_decisions": 640,
        "network.hidden": [16, 8],
        "algorithm": {"name": "TD3", "learning_starts": 64, "buffer_size": 400, "batch_size": 32, "noise": 0.2},
        "algorithm.gradient_steps": 1,
        "algorithm.train_freq": 1,
        "env.worlds": 8,
        "env.episode_s": [0.5, 1],
    },
}
"""Configurations, with what makes them short."""
SHORT: dict[str, Any] = {
    "threads": 1,
    "env.link.kinds": {"constant": 1, "random_steps": 1, "cellular": 1},  # recorded traces are not everywhere
    "eval.link_sets": [],
    "checkpoint_every_s": 1000.0,
}

ENVIRONMENTS = ("Acct", "Aurora", "Hyvar", "Orca")
STEPS = 200

SUITES = (
    *("hercules/objectives", "hercules/penalty-curves", "wcc/fluid", "wcc/stability"),
    *("wcc/round-trip", "wcc/delay", "wcc/motivation"),
)
"""All that are computed, and three of the simulator's that are cheap."""

TABLES = {
    "run": "eval --scenario scenario.yaml --out OUT",
    "eval": "eval --link-sets slides --schemes reno --duration-s 1 --seeds 1 --out OUT",
    "compete": "compete reno cubic --duration-s 1 --seeds 1 --stagger-s 0.1 --out OUT",
    "leaderboard": "leaderboard run --traces lte-bus --schemes reno cubic --policies --buffers 100 --duration-s 1 "
    "--seeds 1 --meeting-seeds 1 --store results.db",
    "leaderboard export": "leaderboard export OUT/runs.csv --store results.db",
    "leaderboard export --means": "leaderboard export OUT/means.csv --means --store results.db",
}
"""Command lines that write tables into the folder OUT."""

Values = dict[str, str]


@functools.cache
def results() -> ccarena.Results:
    """Returns the runs of all locked scenarios."""
    return ccarena.run(list(SCENARIOS.values()), names=list(SCENARIOS), progress=False)


def scenarios() -> Values:
    """Returns a digest of each scenario's counters, series, reports and packets, bit by bit."""
    return {run.scenario: digest(_raw(run.result)) for run in results()}


def _raw(result: dict[str, Any]) -> Iterator[Any]:
    for flow in result["flows"]:
        yield from (flow[name] for name in COUNTERS)
        yield from (flow["series"][name] for name in ("wire_bytes", "payload_bytes"))
        yield flow.get("reports")
    for link in result["links"]:
        yield from (link[name] for name in OF_LINK)
        yield from (link["series"][name] for name in ("delivered_bytes", "queueing_ms", "dropped_packets"))
        yield from (link[log][name] for log, names in LOGS.items() for name in names)


def digest(values: Iterator[Any]) -> str:
    """Returns the first 16 digits of the SHA-256 of numbers and arrays of numbers."""
    made = hashlib.sha256()
    for value in values:
        exact = value.tolist() if isinstance(value, np.ndarray) else value
        made.update(f"{json.dumps(exact)}\n".encode())
    return made.hexdigest()[:16]


def figures() -> Values:
    """Returns a digest of each column of numbers over all scenarios, to nine digits: NumPy may add in another order."""
    found = {}
    for table in ("flows", "links", "flow_series", "link_series"):
        for name, column in results().columns(table).items():
            if column.dtype.kind in "iuf":
                found[f"{table} {name}"] = digest(f"{value:.9g}" for value in column.tolist())
    return found


@functools.cache
def _tensors() -> dict[str, np.ndarray]:
    found = {}
    for name, changes in TRAININGS.items():
        with tempfile.TemporaryDirectory() as folder, _silence():
            policy = ccarena.train(name, {**SHORT, **changes}, out=Path(folder, "run")).policy()
            found |= {f"{name} {tensor}": values for tensor, values in policy.tensors.items()}
    return found


def tensors() -> Values:
    """Returns a digest of each tensor that the short trainings end with."""
    return {name: digest(iter([values])) for name, values in _tensors().items()}


def tensor_sums() -> Values:
    """Returns the sum of the absolute values of each of these tensors."""
    return {name: f"{np.abs(values).sum(dtype=np.float64):.9g}" for name, values in _tensors().items()}


def environments() -> Values:
    """Returns a digest of what each environment observes and rewards under the same random actions."""
    found = {}
    for name in ENVIRONMENTS:
        env = gymnasium.make(f"ccarena/{name}-v0")
        env.action_space.seed(1)
        seen: list[Any] = [env.reset(seed=1)[0]]
        for _ in range(STEPS):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            seen += [observation, float(reward), terminated, truncated]
            if terminated or truncated:
                seen.append(env.reset()[0])
        found[name] = digest(iter(seen))
    return found


def parameters() -> Values:
    """Returns default, least and greatest value of each parameter of the schemes and the queue disciplines."""
    return {
        f"{entry['name']} {each['name']}": f"{each['default']:g} {each['min']:g} {each['max']:g}"
        for entry in (*_core.schemes(), *_core.queue_disciplines())
        for each in entry["params"]
    }


def options() -> Values:
    """Returns the default of each option of each command."""
    found = {}
    for command in cli.COMMANDS:
        if command in cli.SHELLS:
            found |= {f"{command} {option}": "" for option in _of_shell(command)}
            continue
        for parser in parsers(cli.build_parser(command)):
            where = parser.prog.removeprefix("ccarena ")
            for action in parser._actions if where.split()[0] == command else ():
                if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
                    names = action.option_strings or [str(action.metavar or action.dest)]
                    found |= {f"{where} {name}": str(action.default) for name in names}
    return found


def _of_shell(command: str) -> list[str]:
    program = [str(programs.find("ccarena-link")), command, "--help"]
    text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^ +(--[a-z-]+)", text, re.MULTILINE)


def tables() -> Values:
    """Returns the columns of each table that commands write, and the figures in its rows with their units."""
    found: Values = {}
    with tempfile.TemporaryDirectory() as folder, _inside(folder), _silence():
        Path("scenario.yaml").write_text(yaml.safe_dump({**SCENARIOS["reno"], "duration_s": 1}), "utf-8")
        for called, line in TABLES.items():
            out = Path(called.replace(" ", "-"))
            out.mkdir()
            command(line.replace("OUT", str(out)))
            for path in sorted(out.rglob("*.csv")):
                with path.open(encoding="utf-8", newline="") as file:
                    rows = csv.DictReader(file)
                    found |= {f"{called} {path.name} {column}": "" for column in rows.fieldnames or ()}
                    found |= {f"{called} {path.name} {row['figure']}": row["unit"] for row in rows if "unit" in row}
    return found


def claims() -> Values:
    """Returns the state of each claim of `SUITES`, by suite and number."""
    with tempfile.TemporaryDirectory() as folder, _silence():
        command(f"reproduce {' '.join(SUITES)} --quick --out {folder}")
        read = {suite: json.loads(Path(folder, suite, "claims.json").read_text("utf-8")) for suite in SUITES}
    return {f"{suite} {i}": claim["state"] for suite in SUITES for i, claim in enumerate(read[suite]["claims"])}


def command(line: str) -> None:
    """Runs `ccarena` with the words of `line`."""
    code = cli.main(line.split())
    assert code == 0, f"ccarena {line}: exit code {code}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


SECTIONS: dict[str, Callable[[], Values]] = {
    each.__name__: each
    for each in (scenarios, figures, environments, tensors, tensor_sums, parameters, options, tables, claims)
}


def machine() -> str:
    """Returns what decides which bits PyTorch computes."""
    import torch

    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
