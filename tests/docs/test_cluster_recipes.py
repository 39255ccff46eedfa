"""Recipes of examples/cluster, with programs that stand in for Slurm's, Ray's and Kubernetes' and say what they got."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccarena.cli import build_parser
from ccarena.configs import load_config, parse_overrides

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"

STANDS_IN = {
    "scontrol": 'echo "scontrol $*" >>"$LOG"\n[ "$1" = show ] && printf "node1\\nnode2\\nnode3\\n" || true',
    # The nodes' part of a job is run here, and is over at once.
    "srun": 'echo "srun $*" >>"$LOG"',
    "ray": 'echo "ray $*" >>"$LOG"\n[ -e "$LOG.asked" ] || { touch "$LOG.asked"; exit 1; }',
    "ccarena": 'echo "ccarena $*" >>"$LOG"\ntrap \'echo ended >>"$LOG"; exit 130\' TERM\n'
    'case "$*" in status*) exit "${STATUS:-0}";; esac\n[ -z "${LONG:-}" ] || { sleep 60 & wait $!; }',
    "sleep": 'exec /bin/sleep "$([ "$1" -gt 10 ] && echo "$1" || echo 0.05)"',
}


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    for name, text in STANDS_IN.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        there = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log"), **environment}
        return subprocess.Popen(words, env=there, stderr=subprocess.PIPE, text=True)

    return start


JOB = {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": "3", "SLURM_CPUS_PER_TASK": "8", "SLURM_JOB_ID": "7"}


def trained(command: str) -> dict[str, Any]:
    """Returns what `ccarena` understands of a command line."""
    words = shlex.split(command)
    assert words.pop(0) == "ccarena"
    args, rest = build_parser(words[0]).parse_known_args(words)
    load_config(args.config, parse_overrides(rest))
    return vars(args)


@pytest.mark.parametrize("restarts", ["0", "2"])
def test_slurm_starts_ray_on_all_nodes_and_trains_or_goes_on(
    restarts: str, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    script = str(CLUSTER / "slurm.sh")
    process = start("bash", script, "acct", "runs/a b", "--env.worlds", "64", SLURM_RESTART_COUNT=restarts, **JOB)
    assert process.wait(60) == 0, process.stderr and process.stderr.read()
    said = (tmp_path / "log").read_text().splitlines()
    head, others = sorted(line for line in said if line.startswith("srun"))
    assert "--nodelist=node1" in head and "ray start --head --port=6379 --num-cpus=8" in head
    assert (
        "--nodes=2" in others
        and "--exclude=node1" in others
        and "ray start --address 'node1:6379'" in ((tmp_path / "log").read_text())
    )
    last = next(line for line in said if line.startswith("ccarena train"))
    begins = "--resume" if restarts == "2" else "--config acct"
    assert last == f"ccarena train {begins} --out runs/a b --executor ray --ray-address node1:6379 --env.worlds 64"
    assert said.index(last) > said.index("ray status --address node1:6379"), "it waits for the head"
    args = trained(last.replace("runs/a b", "'runs/a b'"))
    assert args["resume"] == (restarts == "2") and args["ray_address"] == "node1:6379"


def test_slurm_ends_a_training_before_its_time_is_over_and_queues_the_job_again(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start("bash", str(CLUSTER / "slurm.sh"), "acct", "runs/a", LONG="1", **JOB)
    deadline_s = time.monotonic() + 60
    while "ccarena train" not in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else True:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert (tmp_path / "log").read_text().splitlines()[-2:] == ["ended", "scontrol requeue 7"]


def test_slurm_says_what_it_lacks(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start("bash", str(CLUSTER / "slurm.sh"), "acct")
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0 and "usage: sbatch slurm.sh CONFIG OUT" in said


# Fields of KubeRay 1.1's RayJobSpec, RayClusterSpec, HeadGroupSpec and WorkerGroupSpec that the recipe may use
# (ray-operator/apis/ray/v1), and those that a pod's container may have.
FIELDS = {
    "spec": {"entrypoint", "shutdownAfterJobFinishes", "backoffLimit", "rayClusterSpec", "ttlSecondsAfterFinished"},
    "rayClusterSpec": {"headGroupSpec", "workerGroupSpecs", "rayVersion", "enableInTreeAutoscaling"},
    "headGroupSpec": {"rayStartParams", "template", "serviceType"},
    "workerGroupSpecs": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}


def test_the_manifest_has_kuberays_fields() -> None:
    job = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text("utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob") and job["metadata"]["name"]
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    groups = cluster["workerGroupSpecs"]
    parts = {"spec": spec, "rayClusterSpec": cluster, "headGroupSpec": cluster["headGroupSpec"]}
    for name, part in [*parts.items(), *(("workerGroupSpecs", group) for group in groups)]:
        assert part.keys() <= FIELDS[name], name
    images = set()
    for group in [cluster["headGroupSpec"], *groups]:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), (
            "of `ray start`, all are texts"
        )
        for container in group["template"]["spec"]["containers"]:
            images.add(container["image"])
            assert container["resources"]["requests"] == container["resources"]["limits"]
    assert len(images) == 1, "one version of everything"
    for group in groups:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    workers = sum(
        group["replicas"] * int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
        for group in groups
    )
    assert workers == int(spec["entrypoint"].rpartition("--algorithm.workers ")[2].strip("' ")), (
        "a core for each worker"
    )


@pytest.mark.parametrize("there", [False, True])
def test_the_jobs_entrypoint_trains_or_goes_on(
    there: bool, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    job = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text("utf-8"))
    process = start("sh", "-c", job["spec"]["entrypoint"], STATUS="0" if there else "2")
    assert process.wait(60) == 0
    _, last = (tmp_path / "log").read_text().splitlines()
    args = trained(last)
    assert args["resume"] == there and "--out s3://bucket/runs/acct" in last
