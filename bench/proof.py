"""Learned controllers with several seeds, trained by one job on a cluster that loses a node, in one table.

    python -m bench.proof --out runs/proof                       # ACCT, Hyvar and pilot, 5 seeds each, whole trainings
    python -m bench.proof --out runs/small --seeds 2 --decisions 2000

Three nodes, all on this machine, get one job by `ray job submit`. A piece of the job is a whole training with its
evaluation. When the first checkpoint is there, a node is killed with everything on it: its trainings go on elsewhere,
from their checkpoints. The job ends with one table, the mean over seeds with its 95 % interval.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.errors import CcarenaError
from ccarena.eval.metrics import confidence_interval
from ccarena.executors.ray import OnRay
from ccarena.files import write_atomically
from ccarena.run_folder import CONFIG, EVALUATION
from ccarena.terminal import print_table

CONFIGS = ("acct", "hyvar", "pilot")
FIGURES = ("utilisation", "throughput_mbps", "signal_delay_p95_ms", "power")
TABLE = "table.json"
Piece = tuple[str, int]


def trained(piece: Piece, out: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """One training, begun or gone on with; returns its evaluation in short."""
    import ray

    import ccarena

    name, seed = piece
    folder = Path(out, f"{name}-{seed}")
    there = (folder / CONFIG).is_file()
    node = ray.get_runtime_context().get_node_id()
    with open(Path(out, "log.jsonl"), "a", encoding="utf-8") as log:
        log.write(json.dumps({"config": name, "seed": seed, "node": node, "resumed": there, "at": time.time()}) + "\n")
    ccarena.train(name, {} if there else {**overrides, "seed": seed, "threads": 1}, out=folder, resume=there)
    found: dict[str, Any] = json.loads((folder / EVALUATION).read_text("utf-8"))
    return found


def job(out: Path, configs: Sequence[str], seeds: int, overrides: Mapping[str, Any]) -> int:
    """What the cluster runs: all trainings, then the table."""
    pieces = [(name, seed) for seed in range(1, seeds + 1) for name in configs]
    found: dict[Piece, dict[str, Any]] = {}
    failed: dict[Piece, str] = {}
    # No copies: two trainings in one folder would be one too many.
    for done in OnRay(copies=False).run(functools.partial(trained, out=str(out), overrides=overrides), pieces):
        try:
            found[pieces[done.index]] = done.result()
        except CcarenaError as error:
            failed[pieces[done.index]] = str(error)
        print(f"{len(found)} of {len(pieces)} trainings are over", flush=True)
    rows = []
    for name in configs:
        runs = [found[piece] for piece in pieces if piece[0] == name and piece in found]
        for group in dict.fromkeys(group for run in runs for group in run["means"]):
            row: dict[str, Any] = {"config": name, "links": group, "seeds": len(runs)}
            for figure in FIGURES:
                values = [next(iter(run["means"][group].values()))[figure] for run in runs if group in run["means"]]
                interval = confidence_interval([float("nan") if value is None else value for value in values])
                row[figure] = [interval.mean, interval.high - interval.mean]
            rows.append(row)
    write_atomically(out / TABLE, json.dumps({"rows": rows, "failed": {str(k): v for k, v in failed.items()}}) + "\n")
    cells = [
        [
            row["config"],
            row["links"],
            str(row["seeds"]),
            *(f"{m:.3g} ± {h:.2g}" for m, h in (row[figure] for figure in FIGURES)),
        ]
        for row in rows
    ]
    print_table("mean over seeds ± half of the 95 % interval", ["config", "links", "seeds", *FIGURES], cells, left=2)
    for piece, reason in failed.items():
        print(f"FAILED {piece[0]}, seed {piece[1]}: {reason}")
    return int(bool(failed))


def proof(out: Path, words: Sequence[str]) -> int:
    """A cluster of three nodes, the job on it, and a node's death."""
    from ray.cluster_utils import Cluster
    from ray.job_submission import JobSubmissionClient

    head = {"num_cpus": 0, "include_dashboard": True, "dashboard_port": 0}
    noticed = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": noticed})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        client = JobSubmissionClient(f"http://{cluster.webui_url}")
        command = [sys.executable, "-m", "bench.proof", *words, "--job"]
        name = client.submit_job(entrypoint=" ".join(command), entrypoint_num_cpus=0)
        print(f"job {name}", flush=True)
        killed = False
        while not client.get_job_status(name).is_terminal():
            time.sleep(1.0)
            if not killed and (node := _with_a_checkpoint(out, [each.node_id for each in nodes])) is not None:
                lost = next(each for each in nodes if each.node_id == node)
                _kill(lost)
                print("killed a node and everything on it; another one joins", flush=True)
                killed = True
                cluster.add_node(num_cpus=1)
        print(client.get_job_logs(name))
        return 0 if str(client.get_job_status(name)) == "SUCCEEDED" and killed else 1
    finally:
        cluster.shutdown()


def _with_a_checkpoint(out: Path, nodes: Sequence[str]) -> str | None:
    """A node with a training that has written a checkpoint and is not over."""
    log = out / "log.jsonl"
    for line in log.read_text("utf-8").splitlines() if log.is_file() else []:
        begun = json.loads(line)
        folder = out / f"{begun['config']}-{begun['seed']}"
        if begun["node"] in nodes and (folder / "checkpoint.previous.safetensors").is_file():
            if not (folder / EVALUATION).is_file():
                return str(begun["node"])
    return None


def _kill(node: Any) -> None:
    """Kills a node's raylet and, with it, all processes that it has started."""
    raylet = node.all_processes["raylet"][0].process.pid
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(raylet)], capture_output=True, text=True).stdout
    for process in [raylet, *(int(each) for each in children.split())]:
        os.kill(process, signal.SIGKILL)


def main() -> int:
    """Starts the cluster, or is the job on it."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of all runs and of the table")
    parser.add_argument("--configs", nargs="+", default=CONFIGS, help="what is trained (acct hyvar pilot)")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each (5)")
    parser.add_argument("--decisions", type=int, help="length of each training (the configurations' own)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another key of all of them")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    overrides: dict[str, Any] = {} if args.decisions is None else {"total_decisions": args.decisions}
    overrides |= {key: json.loads(value) for key, _, value in (each.partition("=") for each in args.set)}
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if args.job:
        return job(out, args.configs, args.seeds, overrides)
    words = ["--out", str(out), "--configs", *args.configs, "--seeds", str(args.seeds)]
    words += [] if args.decisions is None else ["--decisions", str(args.decisions)]
    for each in args.set:
        words += ["--set", f"'{each}'"]
    return proof(out, words)


if __name__ == "__main__":
    sys.exit(main())
