"""Command `ccarena status`: progress of a training, from its folder, its URL, or its job on a Ray cluster."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.configs import load_config
from ccarena.core.arguments import Unused
from ccarena.core.files import scratch
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.executors.ray import module
from ccarena.policies import artifact
from ccarena.policies.about import verdict_of
from ccarena.runs.remote_folder import RemoteFolder, is_url
from ccarena.runs.run_folder import CONFIG, POLICY, PROGRESS, RUNS, VALIDATION, is_in_use, read_progress, resume_command

__all__ = ["add_parser", "run", "status"]

_CLUSTER = ("workers", "restarts", "staleness_mean", "stale_gradients", "queued_gradients", "step_ms")
_DASHBOARD = "expected the address of a cluster's dashboard, such as http://head:8265 (`ray start --head` prints it)"

UNUSED = (
    Unused(
        ("lines",), lambda args: args.ray_address is None or args.run is None, "without a job and its --ray-address"
    ),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("status", **kwargs)
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run's folder, the name of a run in runs/, a URL, or a job's id"
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="address of a cluster's dashboard, such as http://head:8265: RUN is a job there",
    )
    parser.add_argument("--lines", type=int, metavar="N", help="lines of the job's log (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the status. Returns the exit code."""
    if args.ray_address is not None:
        found = _jobs(args.ray_address, args.run, 5 if args.lines is None else args.lines)
    elif args.run is None:
        raise ConfigError("which run? Give its folder, its URL, or a job's id with --ray-address")
    else:
        found = status(args.run)
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for name, value in found.items():
        if isinstance(value, list):
            print(*value, sep="\n")
        elif value is not None:
            print(f"{name.replace('_', ' '):>20}  {_text(value)}")
    return 0


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def status(name: str) -> dict[str, Any]:
    """Returns the status of a run: `state`, `decisions`, `total_decisions`, `decisions_per_s`, `left_s`, figures.

    Raises ConfigError if there is no such run.
    """
    if is_url(name):
        with scratch() as here:
            return _of_files(f"ccarena train --out {name} --resume", here, _fetched(name, here))
    folder = next((path for path in (Path(name), RUNS / name) if (path / CONFIG).is_file()), None)
    if folder is None:
        raise ConfigError(f"{name}: no run is there (no {CONFIG}); give the folder or URL of one")
    return _of_files(resume_command(folder), folder, is_in_use(folder))


def _fetched(url: str, here: Path) -> bool:
    """Copies the needed files to `here`. Returns whether a training is in the folder."""
    folder = RemoteFolder(url, here)
    if not folder.has(CONFIG):
        raise ConfigError(f"{url}: no run is there (no {CONFIG}); give the folder or URL of one")
    folder.fetch((CONFIG, PROGRESS, VALIDATION, POLICY))
    return folder.in_use()


def _of_files(again: str, folder: Path, running: bool) -> dict[str, Any]:
    config, rows = load_config(folder / CONFIG), read_progress(folder / PROGRESS)
    validations = read_progress(folder / VALIDATION)
    last: Mapping[str, Any] = rows[-1] if rows else {}
    decisions, elapsed_s = int(last.get("decisions", 0)), float(last.get("elapsed_s", 0.0))
    # Of the whole training: rows of a few seconds may all lie in one rollout, between two times of learning.
    rate = decisions / elapsed_s if elapsed_s > 0 else None
    left = max(config.total_decisions - decisions, 0)
    over = (folder / POLICY).is_file()
    found: dict[str, Any] = {
        "run": config.name,
        "state": "running" if running else "over" if over else "ended early",
        "executor": config.executor,
        "decisions": decisions,
        "total_decisions": config.total_decisions,
        "done": f"{min(decisions / config.total_decisions, 1.0):.0%}",
        "decisions_per_s": rate,
        "left_s": left / rate if rate and running else None,
        "reward_mean": last.get("reward_mean"),
        "best_validation": max((row["score"] for row in validations), default=None),
        **{name: last.get(name) for name in _CLUSTER},
        "go_on_with": None if running or over else again,
    }
    if over and not running:
        found |= {
            n.replace(" ", "_"): said for n, said in verdict_of(artifact.load(folder / POLICY).evaluation).items()
        }
    return found


def _jobs(address: str, job: str | None, lines: int) -> dict[str, Any]:
    """Returns a job of the cluster, or all of them."""
    # Ray would take HOST:PORT for the address of its store, try for 40 s and leave with an error of its own.
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"--ray-address {address}: {_DASHBOARD}")
    module("status of a job on a cluster")
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise MissingDependencyError.for_extra("ray[default]", "cluster", "status of a job on a cluster") from error
    try:
        client = JobSubmissionClient(address)
        if job is None:
            jobs = [each for each in client.list_jobs() if each.submission_id]
            return {"jobs": [f"{each.submission_id}  {each.status}  {each.entrypoint}" for each in jobs]}
        info = client.get_job_info(job)
        log = [line for line in client.get_job_logs(job).splitlines() if line.strip()]
    except (ConnectionError, RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        if "ray[default]" in reason:
            raise MissingDependencyError.for_extra("ray[default]", "cluster", "status of a job on a cluster") from error
        if job is not None and "status code 404" in reason:
            listed = f"`ccarena status --ray-address {address}` lists those that are there"
            raise ConfigError(f"{address} has no job {job}; {listed}") from error
        raise ConfigError(f"{job or 'jobs'} at {address}: {reason}; {_DASHBOARD}") from error
    began = info.start_time
    return {
        "job": job,
        "state": str(info.status).lower(),
        "command": info.entrypoint,
        "running_s": None if began is None else ((info.end_time or time.time() * 1e3) - began) / 1e3,
        "message": info.message,
        "log": log[-lines:] if lines > 0 else [],
    }
