"""What training on Ray costs and survives: workers side by side, start-up, and deaths."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.sheet import Sheet
from ccarena.agents.a3c_algorithm import A3C
from ccarena.agents.algorithm import Context
from ccarena.agents.worlds import environments
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import A3CConfig
from ccarena.core.measurements import Target
from ccarena.errors import CcarenaError
from ccarena.executors.ray import module
from ccarena.policies.spec import spec_of
from ccarena.runs.run_folder import PROGRESS, read_progress

WORLDS = 64


def measure(sheet: Sheet, seconds: float = 6.0, repeats: int = 3) -> None:
    """All of it."""
    measure_rates(sheet, seconds, repeats)
    measure_faults(sheet)


def context_of(workers: int, executor: str, **more: Any) -> Context:
    """The default training with so many workers, each with the same number of worlds."""
    changes = {"algorithm.workers": workers, "env.worlds": WORLDS * workers, "executor": executor, "threads": workers}
    config = load_config("acct", {**changes, "total_decisions": 10**9, "env.link.kinds.trace": 0, **more})
    return Context(config, spec_of(config), environments(config))


def rate(context: Context, seconds: float) -> float:
    """Decisions/s that are learned from, once every worker has answered."""
    algorithm = A3C(context)
    try:
        executor = algorithm._start()
        learner = algorithm._learner
        answered, workers = 0, learner_workers(context.config)
        while answered < 8 * workers or executor.figures().get("workers", workers) < workers:
            answered += executor.step() is not None
        began_s, before = time.perf_counter(), learner.decisions
        while time.perf_counter() - began_s < seconds:
            executor.step()
        return (learner.decisions - before) / (time.perf_counter() - began_s)
    finally:
        algorithm.close()


def learner_workers(config: TrainConfig) -> int:
    """Workers of A3C."""
    assert isinstance(config.algorithm, A3CConfig)
    return config.algorithm.workers


def measure_rates(sheet: Sheet, seconds: float, repeats: int) -> None:
    """Two workers against one, and Ray against threads: medians of interleaved runs, so that a busy moment hits all."""
    found: dict[str, list[float]] = {"one": [], "two": [], "local one": [], "local": []}
    ray = module()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        for _ in range(repeats):
            found["one"].append(rate(context_of(1, "ray"), seconds))
            found["two"].append(rate(context_of(2, "ray"), seconds))
            found["local one"].append(rate(context_of(1, "local"), seconds))
            found["local"].append(rate(context_of(2, "local"), seconds))
    finally:
        ray.shutdown()
    one, two, local_one, local = (statistics.median(rates) for rates in found.values())
    sheet.add("training/ray-rate", "A3C on Ray, 2 workers", two, "decisions/s")
    sheet.add("training/ray-scaling", "two Ray workers over one", two / one, "×", Target(at_least=1.7))
    sheet.add("training/threads-scaling", "two threads of one process over one: the machine", local / local_one, "×")
    what = "A3C on Ray over threads of one process, 2 workers each"
    sheet.add("training/ray-overhead", what, two / local, "×", Target(at_least=0.85))


def measure_faults(sheet: Sheet) -> None:
    """Start-up, a worker's death and a driver's death, of `ccarena train --executor ray`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        words = ["--config", "acct", "--executor", "ray", "--out", str(out), "--algorithm.workers", "2"]
        words += ["--env.worlds", "64", "--env.link.kinds.trace", "0", "--validation.kinds", "[]"]
        words += ["--eval.link_sets", "[]", "--checkpoint-every-s", "2", "--total-decisions", "2_000_000"]
        began_s = time.perf_counter()
        process = _train(words)
        first_s = _progressed(out, process, 0) - began_s
        sheet.add("training/ray-start", "`train --executor ray` to its first row", first_s, "s", Target(at_most=15))
        _decisions(out, process, 5.0)
        worker = _children(process, "ray::RemoteWorker")[0]
        died_s, restarts = time.perf_counter(), 0.0
        os.kill(worker, signal.SIGKILL)
        while not restarts:
            rows = read_progress(out / PROGRESS)
            restarts = rows[-1].get("restarts", 0.0)
            _alive(process)
            time.sleep(0.05)
        while read_progress(out / PROGRESS)[-1].get("workers") != 2:
            _alive(process)
            time.sleep(0.05)
        what = "from kill -9 of a worker until all workers learn again"
        sheet.add("training/ray-worker-death", what, time.perf_counter() - died_s, "s", Target(at_most=10))
        process.kill()
        process.wait()
        last = read_progress(out / PROGRESS)[-1]["decisions"]
        began_s = time.perf_counter()
        process = _train(["--out", str(out), "--resume"])
        resumed_s = _progressed(out, process, last) - began_s
        what = "from kill -9 of the driver, `--resume`, until more is learned than before"
        sheet.add("training/ray-driver-death", what, resumed_s, "s", Target(at_most=30))
        process.terminate()
        process.wait()


def _train(words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ccarena.cli", "train", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise CcarenaError(f"the training of the benchmark ended with {process.returncode}")


def _progressed(out: Path, process: subprocess.Popen[bytes], beyond: int) -> float:
    while not (rows := read_progress(out / PROGRESS)) or rows[-1]["decisions"] <= beyond:
        _alive(process)
        time.sleep(0.02)
    return time.perf_counter()


def _decisions(out: Path, process: subprocess.Popen[bytes], seconds: float) -> None:
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        _alive(process)
        time.sleep(0.1)


def _children(process: subprocess.Popen[bytes], name: str) -> list[int]:
    """Processes of that name below `process`."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    below, found = {process.pid}, []
    grown = True
    while grown:
        grown = False
        for pid, parent, command in rows:
            if int(parent) in below and int(pid) not in below:
                below.add(int(pid))
                grown = True
                if command.startswith(name):
                    found.append(int(pid))
    return found
