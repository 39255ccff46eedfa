"""`python -m ccarena.eval.bench_realtime`: the emulator and the kernel bridge, beside the figures to reach. Needs root.

| figure                                                              | to reach                              |
|---------------------------------------------------------------------|---------------------------------------|
| one kernel TCP flow at 1 Gbit/s, 10 ms each way                     | 940 Mbit/s of goodput                 |
| the emulator at 500 Mbit/s                                          | 0.35 cores (mahimahi: 0.7)            |
| lateness at 100 Mbit/s                                              | p99 1 ms                              |
| eight links of 12 Mbit/s at once                                    | all valid                             |
| from a report to the enforced action, otherwise idle                | p99 1 ms                              |
| flows that one agent drives at once                                 | 200                                   |
| CPU of `wcc-ai` in the kernel over the kernel's Reno, same rate     | 1.1                                   |
| rounds of attach, run, kill -9                                      | 100 that leave nothing                |

It reports; it fails on nothing. Nothing else should run meanwhile: a busy machine shows as lateness.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ccarena import programs
from ccarena.cc_kernel_bridge.run import Runner, run_scenario
from ccarena.errors import CcarenaError
from ccarena.eval.bench import line

GOODPUT_MBPS, EMULATOR_CORES, LATENESS_MS, ANSWER_MS, FLOWS, WCC_RATIO, ROUNDS = 940.0, 0.35, 1.0, 1.0, 200, 1.1, 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure the emulator and the kernel bridge.")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each run (10)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of attach, run, kill -9 ({ROUNDS})")
    args = parser.parse_args(arguments)
    try:
        emulator(args.seconds)
        bridge(args.seconds)
        in_kernel(args.seconds)
        leavings(args.rounds)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def scenario(rate_mbps: float, seconds: float, scheme: str = "cubic", flows: int = 1, **more: Any) -> dict[str, Any]:
    """`flows` of `scheme` over one link, 10 ms each way, with one BDP of buffer."""
    link = {"service": {"type": "constant", "rate_mbps": rate_mbps}, "delay_ms": 10}
    flow = {"name": "flow", "scheme": scheme, "count": flows, **more}
    return {"duration_s": seconds, "links": [link], "flows": [flow]}


def emulator(seconds: float) -> None:
    """One flow's goodput, CPU and lateness; several emulators at once."""
    for rate in (1000.0, 500.0, 100.0):
        result = run_scenario(scenario(rate, seconds))
        machine = result["machine"]
        goodput = goodput_mbps(result)
        goal = GOODPUT_MBPS if rate == 1000 else None
        line(f"kernel CUBIC at {rate:g} Mbit/s, 10 ms each way", goodput, "Mbit/s", goal)
        cores = machine["emulator_cpu_s"] / seconds
        line("  the emulator's CPU", cores, "cores", EMULATOR_CORES if rate == 500 else None, at_most=True)
        packets = result["links"][0]["delivered_packets"]
        line("  per data packet, acknowledgements included", 1e6 * machine["emulator_cpu_s"] / packets, "µs")
        late = machine["lateness"]["p99_ms"]
        line("  lateness, p99", late, "ms", LATENESS_MS if rate == 100 else None, at_most=True)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: run_scenario(scenario(12.0, seconds)), range(8)))
    line("of eight links of 12 Mbit/s at once, valid", sum(r["machine"]["valid"] for r in results), "", 8)
    line("  lateness, the worst p99", max(r["machine"]["lateness"]["p99_ms"] for r in results), "ms")


def bridge(seconds: float) -> None:
    """What it costs and takes to be driven from user space."""
    result = run_scenario(scenario(100.0, 2 * seconds, "reno"), bridge=True)
    machine = result["machine"]
    line("Reno from user space at 100 Mbit/s", goodput_mbps(result), "Mbit/s")
    line("  from report to answer, p99", machine["answer_latency_us"]["p99"] / 1e3, "ms")
    line("  to the action in force, at the next ACK, p50", machine["enforced_latency_us"]["p50"] / 1e3, "ms")
    line("  p99", machine["enforced_latency_us"]["p99"] / 1e3, "ms", ANSWER_MS, at_most=True)
    line("  the agent's CPU per report", 1e6 * machine["agent_cpu_s"] / machine["reports"], "µs")
    line("  and per flow", 50 * machine["agent_cpu_s"] / seconds, "% core")
    result = run_scenario(scenario(400.0, seconds, "reno", flows=FLOWS), bridge=True)
    machine = result["machine"]
    moving = sum(flow["delivered_bytes"] > 0 for flow in result["flows"])
    line(f"of {FLOWS} flows at 400 Mbit/s, those that move data", moving, "", FLOWS)
    line("  goodput", goodput_mbps(result), "Mbit/s")
    line("  the agent's CPU per report", 1e6 * machine["agent_cpu_s"] / machine["reports"], "µs")
    line("  and per flow", 100 * machine["agent_cpu_s"] / seconds / FLOWS, "% core")
    line("  from report to answer, p99", machine["answer_latency_us"]["p99"] / 1e3, "ms")


def in_kernel(seconds: float, repeats: int = 5) -> None:
    """The CPU of one of our modules over that of the kernel's own at the same rate, both of whole processes."""
    ratios = []
    for _ in range(repeats):
        spent = {}
        for scheme in ("reno", "wcc-ai"):
            before = os.times()
            run_scenario(scenario(400.0, seconds / 2, scheme))
            after = os.times()
            spent[scheme] = (after.children_user + after.children_system) - (
                before.children_user + before.children_system
            )
        ratios.append(spent["wcc-ai"] / spent["reno"])
    line("CPU of wcc-ai in the kernel over Reno's, 400 Mbit/s", statistics.median(ratios), "", WCC_RATIO, at_most=True)


def leavings(rounds: int) -> None:
    """Starts a run over the bridge and kills it without warning, again and again; counts what is left."""
    before = inventory()
    for _ in range(rounds):
        with Runner(scenario(12.0, 60.0, "copa"), bridge=True) as runner:
            time.sleep(0.15)
            os.kill(runner.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 5
    while (after := inventory()) != before and time.monotonic() < deadline_s:
        time.sleep(0.1)
    left = sum(max(0, after[kind] - before[kind]) for kind in before)
    line(f"left after {rounds} rounds of attach, run, kill -9", left, "", 0, at_most=True)
    if left:
        print(f"  before {before}, after {after}")


def inventory() -> dict[str, int]:
    """How many interfaces, network namespaces, BPF objects, pins and processes there are."""
    namespaces, processes = set(), 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                namespaces.add(os.readlink(process / "ns" / "net"))
                name = (process / "comm").read_text("ascii", errors="replace")
            except OSError:
                continue
            processes += name.startswith("ccarena-")
    check = subprocess.run(
        [str(programs.find("ccarena-kernel")), "check", "--objects"], check=True, capture_output=True, text=True
    )
    objects = dict(pair.split("=") for pair in check.stdout.split())
    return {
        "interfaces": len(list(Path("/sys/class/net").iterdir())),
        "namespaces": len(namespaces),
        "processes": processes,
        "pins": len(list(Path("/run/ccarena").rglob("*"))) if Path("/run/ccarena").is_dir() else 0,
        **{kind: int(count) for kind, count in objects.items()},
    }


def goodput_mbps(result: dict[str, Any]) -> float:
    """Payload of all flows over the duration."""
    return float(sum(flow["delivered_bytes"] for flow in result["flows"]) * 8e-6 / result["duration_s"])


if __name__ == "__main__":
    sys.exit(main())
