"""Comparison of the simulator with recorded kernel runs: each case is simulated from several start offsets.
With the backend `kernel`, the emulated link with kernel TCP is compared with the recordings instead, in real time.

A case describes a run of `iperf3` inside `mm-delay [mm-loss] mm-link` and the uplink's log (docs/fidelity.md). Its
scenario is that setup. Figures are counted as in the log: 4 bytes above the IP packet, whole milliseconds.

Mahimahi's shells sleep in whole milliseconds and wake late: by the kernel's timer slack (50 us), and by the time that
waking takes (some 20 us, with variations). Packets therefore pass a shell in steps of `WAKES_MS` and `WAKE_JITTER_MS`,
which drift through the trace's own milliseconds. If a path is otherwise perfectly periodic, this matters more than any
transport detail. Without it,

- BBR never overestimates the rate by the 1 % that its pacing margin hides, so it keeps no standing queue;
- HyStart's ACK trains never break;
- two CUBIC flows stay apart (34 and 12 Mbit/s).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.core.terminal import Progress
from ccarena.errors import ConfigError, ScenarioError
from ccarena.eval.fidelity.cases import Case
from ccarena.eval.measure.sample import percentile
from ccarena.executors import pool_of, stopped
from ccarena.scenarios import backends
from ccarena.scenarios.backends import KERNEL, SIM, find

__all__ = ["Bounds", "compare", "fidelity", "judge", "offsets_ms", "scenario", "simulate", "summarise"]

WAKES_MS, WAKE_JITTER_MS = 1.05, 0.02
OFFSET_STEP_MS = 7
"""Distance between two starts: a prime number, so that starts fall on all phases of periodic traces."""

THROUGHPUT_REL = 0.05
DELAY_REL = 0.15
DELAY_MS = 5.0
SHARES = 0.10
"""Largest error of a flow's part of the total throughput, in the strict verdict."""


@dataclass(frozen=True)
class Bounds:
    """Largest errors allowed: a share of the throughput; of a delay a share or a time, whichever is larger."""

    throughput_rel: float = THROUGHPUT_REL
    delay_rel: float = DELAY_REL
    delay_ms: float = DELAY_MS


SIMULATED = Bounds()
EMULATED = Bounds(0.03, 0.10, 3.0)
"""Bounds for kernel TCP over our emulator. They are tighter, because no model of TCP is involved."""

DELAYS = ("mean", "p95")
SPREAD = (0.1, 0.9)
"""Quantiles of the simulated runs that make their spread. The full range would grow with the number of offsets."""

LOG_HEADER_BYTES = 4
"""Bytes that mahimahi's log counts in addition to the IP packet."""

Run = dict[str, Any]
Array = NDArray[Any]
Result = TypeVar("Result")


def fidelity(
    cases: Sequence[Case],
    offsets: int = 9,
    jobs: int | None = None,
    progress: Progress | None = None,
    backend: str = SIM,
) -> dict[str, Any]:
    """Runs every case from `offsets` starts, `jobs` at once (None: one per core), and compares it with its recorded
    runs.

    The result is that of `summarise`. In the simulator it does not depend on `jobs`. `progress(done, total)` counts
    runs.

    Raises ConfigError, and ScenarioError if a case is no possible scenario, before anything runs. On the backend
    `kernel` it also raises what `backends.execute` raises.
    """
    if offsets < 1:
        raise ConfigError(f"--offsets {offsets}: expected at least 1")
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: expected at least 1")
    for case in cases:
        _check(case)
    work = [
        (scenario(case, offset, seed), case.seconds)
        for case in cases
        for seed, offset in enumerate(offsets_ms(offsets), start=1)
    ]
    ran = run_all([partial(run_case, *each, backend) for each in work], min(jobs, len(work)), progress)
    runs, late = [run for run, _ in ran], sum(late for _, late in ran)
    groups = [runs[at : at + offsets] for at in range(0, len(runs), offsets)]
    bounds = EMULATED if find(backend).real_time else SIMULATED
    compared, invalid = _compare_all(cases, groups, bounds)
    return {**summarise(compared, invalid, late, bounds), **backends.about(backend)}


def _compare_all(
    cases: Sequence[Case], groups: Sequence[Sequence[Run | None]], bounds: Bounds
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the compared cases, and the names of those without a single valid run."""
    compared, invalid = [], []
    for case, group in zip(cases, groups, strict=True):
        if valid := [run for run in group if run is not None]:
            compared.append(compare(case, valid, bounds))
        else:
            invalid.append(case.name)
    return compared, invalid


def offsets_ms(count: int) -> list[int]:
    """Returns the starts of the data on the trace's clock, relative to the recorded run's."""
    return [OFFSET_STEP_MS * k for k in range(count)]


def scenario(case: Case, offset_ms: int, seed: int) -> dict[str, Any]:
    """Returns the case's setup: the trace's clock runs from mm-link's start, the simulation from the first data."""
    service = {"type": "trace", "offset_ms": case.first_data_ms + offset_ms}
    up = {
        "name": "up",
        "service": {**service, "file": case.up},
        "queue": case.queue,
        "delay_ms": case.owd_ms,
        "wakes_ms": WAKES_MS,
        "jitter_ms": WAKE_JITTER_MS,
        "loss": case.loss,
    }
    down = {
        "name": "down",
        "service": {**service, "file": case.down},
        "queue": {"type": "infinite"},
        "delay_ms": 0,
        "wakes_ms": WAKES_MS,
        "jitter_ms": WAKE_JITTER_MS,
    }
    flow = {"path": ["up"], "return_path": ["down"], "base_rtt_ms": 2 * case.owd_ms}
    return {
        "version": 1,
        "duration_s": case.seconds,
        "seed": seed,
        "links": [up, down],
        "flows": [{"scheme": scheme, **flow} for scheme in case.schemes],
        "record": {"packets": True},
    }


def simulate(document: Mapping[str, Any], seconds: float) -> Run:
    """Returns one simulated run's figures, as `reduce` gives them."""
    return reduce(_core.simulate(json.dumps(document), stopped=stopped), seconds)


def timely(document: Mapping[str, Any], backend: str = KERNEL) -> tuple[dict[str, Any] | None, int]:
    """Returns the result of a real-time run whose emulator was not late, and the number of late runs before it.

    The result is None if the emulator was late in each of `backends.ATTEMPTS`.
    """
    result, late_ms = backends.timely(lambda: backends.execute(document, backend))
    return result, len(late_ms)


def run_case(document: Mapping[str, Any], seconds: float, backend: str) -> tuple[Run | None, int]:
    """Returns the figures of one run on a backend (None if none is valid), and the number of late runs before it."""
    if not find(backend).real_time:
        return simulate(document, seconds), 0
    result, late = timely(document, backend)
    return None if result is None else reduce(result, seconds), late


def reduce(result: Mapping[str, Any], seconds: float) -> Run:
    """Returns a run's figures, in the form of a recorded result; `goodput_mbps` is a list, of all flows.

    `per_second` is float64 `[seconds, 2]`: throughput in Mbit/s and mean queueing delay in ms, NaN where nothing left.
    """
    link = result["links"][0]
    log = link["log"]
    arrival_ms, departure_ms = (log[key] // 1_000_000 for key in ("arrival_ns", "departure_ns"))
    delay_ms = (departure_ms - arrival_ms).astype(np.float64)
    size_mbit = (log["bytes"].astype(np.float64) + LOG_HEADER_BYTES) * 8e-6
    return {
        "throughput_mbps": float(size_mbit.sum()) / seconds,
        "qdelay_ms": {
            "mean": float(delay_ms.mean()) if delay_ms.size else float("nan"),
            "p95": percentile(delay_ms, 0.95),
        },
        "drops": link["dropped_packets"],
        "per_second": per_second(departure_ms, delay_ms, size_mbit, seconds),
        "goodput_mbps": [flow["delivered_bytes"] * 8e-6 / seconds for flow in result["flows"]],
    }


def per_second(departure_ms: Array, delay_ms: Array, size_mbit: Array, seconds: float) -> Array:
    """Returns throughput in Mbit/s and mean queueing delay in ms, NaN where nothing left: float64 `[seconds, 2]`."""
    second = (departure_ms // 1000).astype(np.int64)
    bins = int(np.ceil(seconds))
    packets = np.bincount(second, minlength=bins)[:bins]
    waited = np.bincount(second, delay_ms, bins)[:bins]
    with np.errstate(invalid="ignore"):
        return np.stack([np.bincount(second, size_mbit, bins)[:bins], waited / packets], axis=1)


def compare(case: Case, runs: Sequence[Run], bounds: Bounds = SIMULATED) -> dict[str, Any]:
    """Returns the case's own fields, and the findings of `judge` on its runs."""
    return {**case.fields, "name": case.name, **judge(case.schemes, case.runs, runs, bounds)}


def judge(
    schemes: Sequence[str], kernel_runs: Sequence[Mapping[str, Any]], runs: Sequence[Run], bounds: Bounds = SIMULATED
) -> dict[str, Any]:
    """Returns errors, `within`, `chaotic`, `strict_misses`, and the `simulated` median and spread.

    An error is the absolute distance from the median of `runs` to the range of the kernel's runs. Relative errors refer
    to the nearer end of that range. `strict_misses` compares median with median, allows for no spread, excuses nothing
    as chaotic, and includes the flows' shares.
    """
    kernel, ours = _figures(kernel_runs), _figures(runs)
    median = {key: float(np.median(values)) for key, values in ours.items()}
    spread = {key: [float(np.quantile(values, q)) for q in SPREAD] for key, values in ours.items()}
    gap = {key: _distance(median[key], kernel[key]) for key in kernel}
    nearest = {key: _nearest(median[key], kernel[key]) for key in kernel}
    bound = {key: max(bounds.delay_rel * nearest[key], bounds.delay_ms) for key in DELAYS}
    bound["throughput_mbps"] = bounds.throughput_rel * nearest["throughput_mbps"]
    chaotic = any(high - low > bound[key] for key in DELAYS for low, high in (_range(kernel[key]), spread[key]))
    judged = ["throughput_mbps"] if chaotic else list(kernel)
    misses = [key for key in judged if not gap[key] <= bound[key]]
    simulated: dict[str, Any] = {
        "median": median,
        "spread": spread,
        "drops": float(np.median([run["drops"] for run in runs])),
        "per_second": np.median([run["per_second"] for run in runs], axis=0),
    }
    if len(schemes) > 1:
        goodputs = np.array([run["goodput_mbps"] for run in runs])
        simulated["flows"] = list(zip(schemes, np.median(goodputs, axis=0), strict=True))
    return {
        "throughput_rel_error": gap["throughput_mbps"] / nearest["throughput_mbps"],
        "qdelay_mean_error_ms": gap["mean"],
        "qdelay_p95_error_ms": gap["p95"],
        "within": not misses,
        "chaotic": chaotic,
        "misses": misses,
        "strict_misses": _strict_misses(kernel_runs, runs, bounds),
        "bounds": bound,
        "measured": {key: list(_range(values)) for key, values in kernel.items()},
        "simulated": simulated,
    }


def _strict_misses(kernel_runs: Sequence[Mapping[str, Any]], runs: Sequence[Run], bounds: Bounds) -> list[str]:
    """Returns the figures whose median is not within the bounds of the kernel's, `shares` among them."""
    kernel, ours = (
        {key: float(np.median(values)) for key, values in _figures(of).items()} for of in (kernel_runs, runs)
    )
    allowed = {key: max(bounds.delay_rel * kernel[key], bounds.delay_ms) for key in DELAYS}
    allowed["throughput_mbps"] = bounds.throughput_rel * kernel["throughput_mbps"]
    misses = [key for key in kernel if not abs(ours[key] - kernel[key]) <= allowed[key]]
    # Recorded runs may say one number, or none, for all flows together.
    if all(np.size(run.get("goodput_mbps", 0.0)) > 1 for run in kernel_runs):
        theirs, own = (np.median([_shares(run) for run in of], axis=0) for of in (kernel_runs, runs))
        misses += [] if np.abs(own - theirs).max() <= SHARES else ["shares"]
    return misses


def _shares(run: Mapping[str, Any]) -> Array:
    goodput = np.asarray(run["goodput_mbps"], np.float64)
    return goodput / max(goodput.sum(), 1e-9)


def summarise(
    cases: Sequence[Mapping[str, Any]], invalid: Sequence[str] = (), late_runs: int = 0, bounds: Bounds = SIMULATED
) -> dict[str, Any]:
    """Returns `cases`, the median of their throughput errors, and the fraction within the bounds, also strictly.

    `invalid` names the cases that are missing because the emulator was late in every attempt. `late_runs` counts the
    late runs, which are in no figure.
    """
    errors = [case["throughput_rel_error"] for case in cases]
    return {
        "cases": list(cases),
        "invalid": list(invalid),
        "late_runs": late_runs,
        "bounds": asdict(bounds),
        "throughput_rel_error_median": float(np.median(errors)) if errors else float("nan"),
        "within_fraction": sum(c["within"] for c in cases) / max(1, len(cases)),
        "strict_fraction": sum(not c["strict_misses"] for c in cases) / max(1, len(cases)),
    }


def _check(case: Case) -> None:
    try:
        _core.validate_scenario(json.dumps(scenario(case, 0, 1)))
    except ScenarioError as error:
        field = {"links[0].queue": ".queue_args", "flows": ".cc", "links[0].loss": ".loss", "duration": ".seconds"}
        where = next((name for start, name in field.items() if str(error).startswith(start)), "")
        raise ScenarioError(f"{case.where}{where}: {error}") from error


def _figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {
        "throughput_mbps": [run["throughput_mbps"] for run in runs],
        **{key: [run["qdelay_ms"][key] for run in runs] for key in DELAYS},
    }


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _nearest(value: float, kernel: Sequence[float]) -> float:
    """Returns the end of the kernel's range that is nearer to `value`."""
    return min(min(kernel), max(kernel), key=lambda end: abs(end - value))


def _distance(value: float, kernel: Sequence[float]) -> float:
    """Returns the distance of `value` from the range of the kernel's runs, 0 inside it."""
    return max(min(kernel) - value, value - max(kernel), 0.0)


def run_all(work: Sequence[Callable[[], Result]], jobs: int, progress: Progress | None) -> list[Result]:
    """Returns the results of the calls, in their order, running `jobs` at once."""
    # Threads do: a simulation, which is nearly all of the work, runs without the interpreter's lock.
    with pool_of(jobs) as pool:
        futures = [pool.submit(call) for call in work]
        runs = []
        for future in futures:
            runs.append(future.result())
            if progress is not None:
                progress(len(runs), len(work))
    return runs
