"""Comparison of the simulator with kernel TCP now: each scenario is simulated several times and run several times for
real.

The kernel's runs are real sockets over the emulated link, in real time. The simulated runs have other seeds, other
offsets on a trace, and the emulator's host on their links (`host.emulated`): no real run repeats to the nanosecond.
The same code reduces both to the same figures. Errors are those of `recorded.judge`. If a learned flow's scheme has a
shipped configuration, its reward is compared too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.configs.load import load_config, shipped
from ccarena.core.terminal import Progress
from ccarena.envs.rewards import Reward
from ccarena.eval.fidelity import recorded
from ccarena.eval.fidelity.host import emulated
from ccarena.eval.fidelity.recorded import Run
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.queueing import queueing_delay_ms
from ccarena.eval.measure.sample import percentile
from ccarena.eval.measure.throughput import throughput_mbps
from ccarena.policies.spec import spec_of
from ccarena.scenarios import backends
from ccarena.scenarios.backends import simulate
from ccarena.traces.recorded import find_trace

__all__ = ["POLICY_REL", "Setup", "compare", "duration_s", "figures", "live", "setups", "variant"]

Real = Callable[[Mapping[str, Any]], tuple[Mapping[str, Any] | None, int]]

POLICY_REL = 0.10
"""Largest difference of a policy's reward and mean queueing delay on the kernel, as a share of the simulated value."""
POLICY_DELAY_MS = 0.5
"""Smallest difference in delay that counts: a tenth of ACCT's delay budget."""

GRID = ((12.0, 40.0, 1.0), (24.0, 80.0, 0.5), (48.0, 20.0, 2.0), (96.0, 40.0, 1.0))
"""Grid of links: Mbit/s, base RTT in ms, buffer in bandwidth-delay products."""
SCHEMES = ("cubic", "bbr", "reno", "wcc-ai")
LEARNED = "acct"
"""Learned scheme among them, unless a policy of another is given."""
WEIGHT = 3.0
"""Weight of `wcc-ai`, which with 1 is Reno."""
CONSTANT_ACTION = 5.0
"""Action of the learned scheme without a policy."""
TRACE, PRESET = "Verizon-LTE-short.down", "lte-driving"
"""Cellular link, and the synthetic one that replaces it if the trace is missing."""


@dataclass(frozen=True)
class Setup:
    """Scenario on which simulator and kernel are compared."""

    name: str
    document: Mapping[str, Any]

    @property
    def schemes(self) -> tuple[str, ...]:
        """Returns the schemes of its flows, one by one."""
        return tuple(flow["scheme"] for flow in self.document["flows"] for _ in range(int(flow.get("count") or 1)))


def duration_s(setup: Setup) -> float:
    """Returns the length of one run."""
    return float(setup.document.get("duration_s") or 30.0)


def setups(policy: Path | None = None, duration_s: float = 15.0) -> list[Setup]:
    """Returns the usual scenarios: `GRID` and a cellular link, each with one bulk flow of each of `SCHEMES`."""
    paths: list[tuple[str, dict[str, Any], float, dict[str, float]]] = [
        (f"{rate:g} Mbit/s {rtt:g} ms {bdp:g} BDP", {"type": "constant", "rate_mbps": rate}, rtt, {"bdp": bdp})
        for rate, rtt, bdp in GRID
    ]
    trace = find_trace(TRACE)
    service: dict[str, Any] = {"type": "cellular", "preset": PRESET, "seed": 1}
    service = {"type": "trace", "file": str(trace)} if trace else service
    paths.append((f"{TRACE if trace else PRESET} 40 ms 100 packets", service, 40.0, {"packets": 100}))
    return [
        Setup(f"{name} {scheme}", _document(service, rtt_ms, limit, scheme, policy, duration_s))
        for name, service, rtt_ms, limit in paths
        for scheme in (*SCHEMES, LEARNED)
    ]


def live(
    chosen: Sequence[Setup],
    offsets: int = 5,
    repeats: int = 2,
    jobs: int = 2,
    progress: Progress | None = None,
    run: Real = recorded.timely,
) -> dict[str, Any]:
    """Simulates every setup `offsets` times, `jobs` at once, and runs it `repeats` times on the kernel, one at a time.

    The result is that of `recorded.summarise`, with the fields of `compare`, `backend` and `kernel`. `run` is
    `recorded.timely` or a substitute. Raises what `backends.execute` raises.
    """
    # First what may fail for the machine's sake. One at a time: in real time runs are in each other's way.
    real = [partial(_real, run, variant(setup.document, k)) for setup in chosen for k in range(repeats)]
    simulated = [partial(_simulated, variant(setup.document, k)) for setup in chosen for k in range(offsets)]
    total = len(real) + len(simulated)
    counted = progress or (lambda done, total: None)
    ran = recorded.run_all(real, 1, lambda done, _: counted(done, total))
    kernel, late = [run for run, _ in ran], sum(late for _, late in ran)
    ours = recorded.run_all(simulated, jobs, lambda done, _: counted(len(real) + done, total))
    cases, invalid = [], []
    for index, setup in enumerate(chosen):
        valid = [run for run in kernel[index * repeats :][:repeats] if run is not None]
        if valid:
            cases.append(compare(setup, valid, ours[index * offsets :][:offsets]))
        else:
            invalid.append(setup.name)
    return {**recorded.summarise(cases, invalid, late), **backends.about(backends.KERNEL)}


def compare(setup: Setup, kernel: Sequence[Run], simulated: Sequence[Run]) -> dict[str, Any]:
    """Returns the findings of `recorded.judge`; for a learned flow also `policy`: medians of reward and queueing delay,
    and gaps.

    Gaps are shares of the simulated value. `policy.within` is true if both are at most `POLICY_REL` apart, or the
    delays `POLICY_DELAY_MS`.
    """
    found = {"name": setup.name, **recorded.judge(setup.schemes, kernel, simulated)}
    if all("reward" in run for run in (*kernel, *simulated)):
        found["policy"] = _policy(kernel, simulated)
    return found


def figures(result: Mapping[str, Any]) -> Run:
    """Returns a run in the form of `recorded.reduce`, but exact: IP bytes, delays without packets' own serialisation.

    The figures are of all flows together on the first link. With reports of learned flows there is also `reward`, the
    mean over their intervals.
    """
    link, seconds = result["links"][0], float(result["duration_s"])
    log = PacketLog.from_arrays(link["log"])
    delay_ms = queueing_delay_ms(log)
    run: Run = {
        "throughput_mbps": throughput_mbps(log, 0.0, seconds),
        "qdelay_ms": {
            "mean": float(delay_ms.mean()) if delay_ms.size else float("nan"),
            "p95": percentile(delay_ms, 0.95),
        },
        "drops": link["dropped_packets"],
        "per_second": recorded.per_second(log.departure_ns / 1e6, delay_ms, log.bytes * 8e-6, seconds),
        "goodput_mbps": [flow["delivered_bytes"] * 8e-6 / seconds for flow in result["flows"]],
    }
    rewards = [
        reward(np.asarray(flow["reports"], np.float32))
        for flow in result["flows"]
        if len(flow.get("reports", ())) and (reward := _reward(flow["scheme"])) is not None
    ]
    if rewards:
        run["reward"] = float(np.concatenate(rewards).mean())
    return run


@cache
def _reward(scheme: str) -> Reward | None:
    """Returns the reward of the shipped configuration of `scheme`, if reports alone decide it."""
    if scheme not in shipped():
        return None
    record = load_config(scheme)
    reward = Reward(record.reward, spec_of(record))
    return None if reward.needs_privileged else reward


def variant(document: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Returns the document with the needed recordings, its k-th seed, and traces that begin k steps later."""
    varied = copy.deepcopy(dict(document))
    varied["seed"] = int(varied.get("seed") or 1) + k
    varied["record"] = {**(varied.get("record") or {}), "packets": True, "reports": True}
    for link in varied["links"]:
        service = link["service"]
        if service["type"] in ("trace", "cellular"):
            service["offset_ms"] = (service.get("offset_ms") or 0) + recorded.OFFSET_STEP_MS * k
    return varied


def _simulated(document: dict[str, Any]) -> Run:
    return figures(simulate(emulated(document)))


def _real(run: Real, document: Mapping[str, Any]) -> tuple[Run | None, int]:
    result, late = run(document)
    return None if result is None else figures(result), late


def _policy(kernel: Sequence[Run], simulated: Sequence[Run]) -> dict[str, Any]:
    def medians(runs: Sequence[Run]) -> tuple[float, float]:
        return (
            float(np.median([run["reward"] for run in runs])),
            float(np.median([run["qdelay_ms"]["mean"] for run in runs])),
        )

    (reward, delay_ms), (our_reward, our_delay_ms) = medians(kernel), medians(simulated)
    reward_gap = abs(reward - our_reward) / max(abs(our_reward), 1.0)
    delay_gap_ms = abs(delay_ms - our_delay_ms)
    return {
        "reward": {"kernel": reward, "simulated": our_reward},
        "delay_ms": {"kernel": delay_ms, "simulated": our_delay_ms},
        "reward_gap": reward_gap,
        "delay_gap": delay_gap_ms / our_delay_ms if our_delay_ms > 0 else float("nan"),
        "within": reward_gap <= POLICY_REL and delay_gap_ms <= max(POLICY_REL * our_delay_ms, POLICY_DELAY_MS),
    }


def _trained(policy: Path) -> dict[str, Any]:
    """Returns the fields of a flow that `policy` decides for, with the parameters of its training."""
    from ccarena.policies import artifact
    from ccarena.policies.trained_by import scheme_of

    trained = artifact.load(policy)
    return {"scheme": scheme_of(trained), "policy": str(policy.resolve()), "params": dict(trained.params)}


def _document(
    service: Mapping[str, Any], rtt_ms: float, limit: Mapping[str, float], scheme: str, policy: Path | None, s: float
) -> dict[str, Any]:
    flow: dict[str, Any] = {"scheme": scheme}
    if scheme == "wcc-ai":
        flow["weight"] = WEIGHT
    if scheme == LEARNED:
        constant = {"policy": {"constant": spec_of(load_config(LEARNED)).constant(CONSTANT_ACTION)}}
        flow |= _trained(policy) if policy else constant
    link = {"service": dict(service), "queue": {"type": "droptail", **limit}, "delay_ms": rtt_ms / 2, "router": True}
    return {"version": 1, "duration_s": s, "links": [link], "flows": [flow]}
