"""Learned controllers with several seeds, trained by one job on a cluster that loses a node, in one table.

    python -m bench.proof --out runs/proof                # ACCT, Hyvar in two ways, 5 seeds each (hours)
    python -m bench.proof --out runs/proof-quick --quick  # the same with short trainings (minutes)

Three nodes, all on this machine, get one job by `ray job submit`. A piece of the job is a whole training with its
evaluation. When the first checkpoint is there, a node is killed with everything on it: its trainings go on elsewhere,
from their checkpoints. The job ends with one table, the mean over seeds with its 95 % interval.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import nodes
from ccarena.configs import parse_overrides
from ccarena.core.files import write_atomically
from ccarena.core.measurements import Entry, merge, source
from ccarena.core.terminal import print_table
from ccarena.errors import CcarenaError, MissingDependencyError
from ccarena.eval.measure.sample import confidence_interval
from ccarena.executors.ray import OnRay, module
from ccarena.runs.run_folder import CONFIG, EVALUATION

CONFIGS = ("acct", "hyvar", "hyvar-packets")
FIGURES = ("utilisation", "throughput_mbps", "signal_delay_p95_ms", "power")
TABLE, LOG = "table.json", "log.jsonl"
HEADING = "Trained by one job that lost a node: mean over seeds, and half of the 95 % interval"
QUICK: dict[str, Any] = {
    "checkpoint_every_s": 0.5,
    "validation.kinds": [],
    "env.link.kinds.trace": 0,
    "eval.link_sets": ["constant", "steps"],
    "eval.seeds": 1,
    "eval.duration_s": 10,
    "rules.links": 0,
    "baselines": [],
    "controls": [],
    "expectations": [],
}
QUICK_EACH: dict[str, dict[str, Any]] = {
    "acct": {"total_decisions": 60_000},
    "hyvar": {"total_decisions": 6_000, "algorithm.learning_starts": 1_000, "algorithm.gradient_steps": 1},
    "hyvar-packets": {"total_decisions": 30_000, "algorithm.links": 2, "env.episode_s": 5},
}
Piece = tuple[str, int]


def overrides_of(name: str, quick: bool, longer: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is changed of the configuration `name`; short trainings are `longer` times as long."""
    short = QUICK | QUICK_EACH.get(name, {}) if quick else {}
    if "total_decisions" in short:
        short["total_decisions"] *= longer
    return {**short, **given, "threads": 1}


def trained(piece: Piece, out: str, quick: bool, longer: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """One training, begun or gone on with; returns its evaluation in short."""
    import ray

    import ccarena

    name, seed = piece
    folder = Path(out, f"{name}-{seed}")
    there = (folder / CONFIG).is_file()
    node = ray.get_runtime_context().get_node_id()
    with open(Path(out, LOG), "a", encoding="utf-8") as log:
        log.write(json.dumps({"config": name, "seed": seed, "node": node, "resumed": there, "at": time.time()}) + "\n")
    ccarena.train(
        name, {} if there else {**overrides_of(name, quick, longer, given), "seed": seed}, out=folder, resume=there
    )
    found: dict[str, Any] = json.loads((folder / EVALUATION).read_text("utf-8"))
    return found


def job(out: Path, configs: Sequence[str], seeds: int, quick: bool, longer: int, given: Mapping[str, Any]) -> int:
    """What the cluster runs: all trainings, then the table."""
    pieces = [(name, seed) for seed in range(1, seeds + 1) for name in configs]
    found: dict[Piece, dict[str, Any]] = {}
    failed: dict[Piece, str] = {}
    # No copies: two trainings in one folder would be one too many.
    work = functools.partial(trained, out=str(out), quick=quick, longer=longer, given=given)
    for done in OnRay(copies=False).run(work, pieces):
        try:
            found[pieces[done.index]] = done.result()
        except CcarenaError as error:
            failed[pieces[done.index]] = str(error)
        print(f"{len(found)} of {len(pieces)} trainings are over", flush=True)
    rows: list[dict[str, Any]] = []
    for name in configs:
        runs = [found[piece] for piece in pieces if piece[0] == name and piece in found]
        for group in dict.fromkeys(group for run in runs for group in run["means"]):
            row: dict[str, Any] = {"config": name, "links": group, "seeds": len(runs)}
            for figure in FIGURES:
                values = [next(iter(run["means"][group].values()))[figure] for run in runs if group in run["means"]]
                interval = confidence_interval([float("nan") if value is None else value for value in values])
                row[figure] = [interval.mean, interval.high - interval.mean]
            rows.append(row)
    cells = [
        [
            row["config"],
            row["links"],
            str(row["seeds"]),
            *(_shown(*row[figure]) for figure in FIGURES),
        ]
        for row in rows
    ]
    print_table("mean over seeds ± half of the 95 % interval", ["config", "links", "seeds", *FIGURES], cells, left=2)
    begun = [json.loads(line) for line in (out / LOG).read_text("utf-8").splitlines()]
    gone_on, where = sum(each["resumed"] for each in begun), len({each["node"] for each in begun})
    print(f"{gone_on} trainings went on from their checkpoints, on {where} nodes in all")
    table = {"rows": rows, "gone_on": gone_on, "failed": {str(k): v for k, v in failed.items()}}
    write_atomically(out / TABLE, json.dumps(table) + "\n")
    for piece, reason in failed.items():
        print(f"FAILED {piece[0]}, seed {piece[1]}: {reason}")
    return int(bool(failed))


def proof(out: Path, words: Sequence[str]) -> int:
    """A cluster of three nodes, the job on it, and a node's death."""
    module("python -m bench.proof")
    # Ray without `default` has the client of jobs and lacks the server (_private/services.py, start_api_server).
    if find_spec("aiohttp") is None:
        raise MissingDependencyError.for_extra("ray[default]", "cluster", "python -m bench.proof")
    from ray.job_submission import JobSubmissionClient

    cluster = nodes.started(include_dashboard=True, dashboard_port=0)
    try:
        computing = [nodes.add(cluster) for _ in range(2)]
        client = JobSubmissionClient(f"http://{cluster.webui_url}")
        command = [sys.executable, "-m", "bench.proof", *words, "--job"]
        there = {"env_vars": {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}}
        name = client.submit_job(entrypoint=shlex.join(command), entrypoint_num_cpus=0, runtime_env=there)
        print(f"job {name}", flush=True)
        killed = False
        while not client.get_job_status(name).is_terminal():
            time.sleep(1.0)
            if not killed and (node := _with_a_checkpoint(out, [each.node_id for each in computing])) is not None:
                nodes.kill(next(each for each in computing if each.node_id == node))
                print("killed a node and everything on it; another one joins", flush=True)
                killed = True
                nodes.add(cluster)
        print(client.get_job_logs(name))
        if not killed:
            print("no node was killed: all trainings were over before their second checkpoint; train longer")
        return 0 if client.get_job_status(name) == "SUCCEEDED" and killed else 1
    finally:
        cluster.shutdown()


def record(path: Path, out: Path, command: str, took_s: float) -> None:
    """Merges the table into the file of measurements. Raises ConfigError."""
    table = json.loads((out / TABLE).read_text("utf-8"))
    origin = source(command, date.today().isoformat())

    def entry(name: str, what: str, value: float | str, unit: str = "", table: str = "", case: str = "") -> Entry:
        return Entry(f"proof/{name}", "training", what, value, origin, unit, table=table, case=case)

    entries = [
        entry("time", "one job on three nodes, one of them killed: from the job to its table", took_s / 60, unit="min"),
        entry("gone-on", "trainings of that job that went on from their checkpoint elsewhere", table["gone_on"]),
    ]
    for row in table["rows"]:
        what = f"`{row['config']}`, links `{row['links']}`, {row['seeds']} seeds"
        for figure in FIGURES:
            case = figure.replace("_", " ")
            name = f"{row['config']}-{row['links']}-{figure}"
            entries.append(entry(name, what, _shown(*row[figure]), table=HEADING, case=case))
    merge(path, entries)


def _shown(mean: float, half: float) -> str:
    """A mean, with half of its interval where values differ."""
    return f"{mean:.3g}" if math.isnan(half) else f"{mean:.3g} ± {half:.2g}"


def _with_a_checkpoint(out: Path, computing: Sequence[str]) -> str | None:
    """A node with a training that has written a checkpoint and is not over."""
    log = out / LOG
    for line in log.read_text("utf-8").splitlines() if log.is_file() else []:
        begun = json.loads(line)
        folder = out / f"{begun['config']}-{begun['seed']}"
        if begun["node"] in computing and (folder / "checkpoint.previous.safetensors").is_file():
            if not (folder / EVALUATION).is_file():
                return str(begun["node"])
    return None


def main() -> int:
    """Starts the cluster, or is the job on it."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of all runs and of the table")
    parser.add_argument("--configs", nargs="+", default=CONFIGS, help="what is trained (acct hyvar hyvar-packets)")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each (5)")
    parser.add_argument(
        "--quick", action="store_true", help="short trainings and evaluations: minutes, and no policies"
    )
    parser.add_argument("--longer", type=int, default=1, metavar="N", help="of --quick: N times as long a training (1)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another key of all of them")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="merge the table into FILE (docs/measurements.json)"
    )
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        given = parse_overrides([word for each in args.set for word in (f"--{each}",)])
        if args.job:
            return job(out, args.configs, args.seeds, args.quick, args.longer, given)
        words = ["--out", str(out), "--configs", *args.configs, "--seeds", str(args.seeds)]
        words += ["--quick", "--longer", str(args.longer)] if args.quick else []
        words += [word for each in args.set for word in ("--set", each)]
        began_s = time.monotonic()
        code = proof(out, words)
        if code == 0 and args.record is not None:
            # The folder says nothing to a reader.
            record(
                args.record, out, shlex.join(["python", "-m", "bench.proof", *words[2:]]), time.monotonic() - began_s
            )
        return code
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
