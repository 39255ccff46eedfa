"""The emulator and the kernel bridge, on real packets. Needs root."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.sheet import Sheet
from ccarena.cc_kernel_bridge.run import Runner, run_scenario
from ccarena.core import programs
from ccarena.core.measurements import Target
from ccarena.scenarios.real_time import HONEST_MBPS

FLOWS = 200
"""Flows that one bridge daemon drives at once."""


def measure(sheet: Sheet, seconds: float, rounds: int) -> None:
    """Everything that runs in real time; `seconds` per run."""
    emulator(sheet, seconds)
    shells(sheet, seconds)
    bridge(sheet, seconds)
    in_kernel(sheet, seconds)
    leavings(sheet, rounds)


def scenario(rate_mbps: float, seconds: float, scheme: str = "cubic", flows: int = 1, **more: Any) -> dict[str, Any]:
    """`flows` of `scheme` over one link, 10 ms each way, with one BDP of buffer."""
    link = {"service": {"type": "constant", "rate_mbps": rate_mbps}, "delay_ms": 10}
    flow = {"name": "flow", "scheme": scheme, "count": flows, **more}
    return {"duration_s": seconds, "links": [link], "flows": [flow]}


def emulator(sheet: Sheet, seconds: float) -> None:
    """One flow's goodput, CPU and lateness; several emulators at once."""
    for rate in (HONEST_MBPS, 1000.0, 500.0, 100.0):
        result = run_scenario(scenario(rate, seconds))
        machine, link = result["machine"], f"one kernel CUBIC flow at {rate:g} Mbit/s, 10 ms each way"
        at_rate = f"at {rate:g} Mbit/s"
        target = {1000.0: Target(at_least=940.0), HONEST_MBPS: Target(at_least=0.9 * HONEST_MBPS)}.get(rate)
        sheet.add(f"realtime/goodput-{rate:g}", f"{link}: goodput", goodput_mbps(result), "Mbit/s", target)
        # At 100 Mbit/s mahimahi took 0.21 cores on a machine of this kind, at 500 0.67.
        most = {100.0: 0.21, 500.0: 0.35, 1000.0: 0.7}.get(rate)
        target = Target(at_most=most) if most else None
        what = f"CPU of the emulator {at_rate}, TCP's receiving side in it"
        sheet.add(f"realtime/cores-{rate:g}", what, machine["emulator_cpu_s"] / seconds, "cores", target)
        per_packet = 1e6 * machine["emulator_cpu_s"] / result["links"][0]["delivered_packets"]
        what = f"CPU of the emulator {at_rate}, per data packet and its acknowledgements"
        sheet.add(f"realtime/cpu-per-packet-{rate:g}", what, per_packet, "µs")
        late, target = machine["lateness"]["p99_ms"], Target(at_most=1.0) if rate in (100.0, HONEST_MBPS) else None
        sheet.add(f"realtime/lateness-{rate:g}", f"lateness {at_rate}, 99th percentile", late, "ms", target)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: run_scenario(scenario(12.0, seconds)), range(8)))
    valid = sum(r["machine"]["valid"] for r in results)
    sheet.add("realtime/eight-links", "of eight links of 12 Mbit/s at once, valid", valid, target=Target(at_least=8))
    late = max(r["machine"]["lateness"]["p99_ms"] for r in results)
    sheet.add("realtime/eight-links-lateness", "lateness of the worst of them, 99th percentile", late, "ms")


STACKED = "Stacked shells: a delay of 20 ms around a link, one kernel TCP flow to the command"
CLIENT = """
import os, resource, socket, sys, time
connection = socket.create_connection((os.environ["MAHIMAHI_BASE"], int(sys.argv[1])))
until, received = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < until:
    received += len(connection.recv(1 << 20))
used = resource.getrusage(resource.RUSAGE_SELF)
print(received, used.ru_utime + used.ru_stime)
"""


def shells(sheet: Sheet, seconds: float) -> None:
    """CPU of two shells on one command line, and of mahimahi's in turns with them if they are on PATH."""
    ours = str(programs.find(programs.EMULATOR))
    lines = {"ccarena": ([ours, "delay", "20"], [ours, "link"])}
    if shutil.which("mm-link") and shutil.which("mm-delay"):
        lines["mahimahi"] = (["mm-delay", "20"], ["mm-link"])
    else:
        print("NOT MEASURED: mahimahi's shells beside ours; mm-delay and mm-link are not on PATH")
    for rate in (12, 100, 500, 1000):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace")
            # Opportunities of 1500 bytes: so many in 3 ms.
            trace.write_text("".join(f"{1 + k * 3 // (rate // 4)}\n" for k in range(rate // 4)), "ascii")
            queue = [f"--{way}-queue=droptail" for way in ("uplink", "downlink")]
            queue += [f"--{way}-queue-args=packets={max(rate * 10 // 3, 20)}" for way in ("uplink", "downlink")]
            for name, (delay, link) in lines.items():
                cores, mbps = stacked([*delay, *link, str(trace), str(trace), *queue, "--"], seconds)
                at, key = f"at {rate} Mbit/s", f"realtime/stacked-{name}-{rate}"
                sheet.add(f"{key}-cores", f"CPU {at}", cores, "cores", table=STACKED, case=name)
                sheet.add(f"{key}-mbps", f"received {at}", mbps, "Mbit/s", table=STACKED, case=name)


def stacked(line: Sequence[str], seconds: float) -> tuple[float, float]:
    """Returns the cores that the shells of `line` take while a flow crosses them to the command, and its Mbit/s."""
    with socket.create_server(("0.0.0.0", 0)) as listener:

        def send() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(bytes(1 << 20))

        threading.Thread(target=send, daemon=True).start()
        client = [sys.executable, "-c", CLIENT, str(listener.getsockname()[1]), str(seconds)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*line, *client], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    received, own_s = done.stdout.split()
    used_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime - float(own_s)
    return used_s / seconds, int(received) * 8e-6 / seconds


def bridge(sheet: Sheet, seconds: float) -> None:
    """What it costs, and how long it takes, to be driven from user space."""
    result = run_scenario(scenario(100.0, 2 * seconds, "reno"), bridge=True)
    machine = result["machine"]
    sheet.add("bridge/goodput", "Reno from user space at 100 Mbit/s: goodput", goodput_mbps(result), "Mbit/s")
    answer, enforced = machine["answer_latency_us"], machine["enforced_latency_us"]
    sheet.add("bridge/answer", "from report to answer, 99th percentile", answer["p99"] / 1e3, "ms")
    what = "from report to the action in force, at the next ACK"
    sheet.add("bridge/enforced-median", f"{what}, median", enforced["p50"] / 1e3, "ms")
    sheet.add("bridge/enforced", f"{what}, 99th percentile", enforced["p99"] / 1e3, "ms", Target(at_most=1.0))
    _daemon(sheet, "one", "one flow", machine, 2 * seconds, 1)
    result = run_scenario(scenario(400.0, seconds, "reno", flows=FLOWS), bridge=True)
    machine = result["machine"]
    moving = sum(flow["delivered_bytes"] > 0 for flow in result["flows"])
    what = f"of {FLOWS} flows at 400 Mbit/s, those that move data"
    sheet.add("bridge/flows", what, moving, target=Target(at_least=FLOWS))
    sheet.add("bridge/flows-goodput", "their goodput together", goodput_mbps(result), "Mbit/s")
    _daemon(sheet, "flows", f"{FLOWS} flows", machine, seconds, FLOWS)
    answer_ms = machine["answer_latency_us"]["p99"] / 1e3
    sheet.add("bridge/flows-answer", f"{FLOWS} flows: from report to answer, 99th percentile", answer_ms, "ms")


def _daemon(sheet: Sheet, key: str, who: str, machine: dict[str, Any], seconds: float, flows: int) -> None:
    """The CPU of the bridge daemon."""
    per_report = 1e6 * machine["daemon_cpu_s"] / machine["reports"]
    sheet.add(f"bridge/{key}-cpu-per-report", f"{who}: CPU of the bridge daemon per report", per_report, "µs")
    share = 100 * machine["daemon_cpu_s"] / seconds / flows
    sheet.add(f"bridge/{key}-cpu", f"{who}: CPU of the bridge daemon per flow", share, "% of a core")


def in_kernel(sheet: Sheet, seconds: float, repeats: int = 5) -> None:
    """The CPU of one of our modules over that of the kernel's own at the same rate, both of whole processes.

    Loading a module is paid once, so a shorter run is subtracted from each run, and the difference stands for itself.
    """
    long_s, short_s = 0.6 * seconds, 0.1 * seconds
    running: dict[str, list[float]] = {"reno": [], "wcc-ai": []}
    starting: dict[str, list[float]] = {"reno": [], "wcc-ai": []}
    for _ in range(repeats):
        for scheme in running:
            short, long = (_cpu_s(scenario(400.0, length_s, scheme)) for length_s in (short_s, long_s))
            per_second = (long - short) / (long_s - short_s)
            running[scheme].append(per_second)
            starting[scheme].append(short - short_s * per_second)
    ratios = [ours / theirs for ours, theirs in zip(running["wcc-ai"], running["reno"], strict=True)]
    what = "`wcc-ai` in the kernel at 400 Mbit/s: CPU over the kernel's Reno's, once it runs"
    sheet.add("bridge/wcc-ai-ratio", what, statistics.median(ratios), "×", Target(at_most=1.1))
    loading_s = statistics.median(starting["wcc-ai"]) - statistics.median(starting["reno"])
    sheet.add("bridge/loading", "CPU that a run takes to load the modules and to remove them", loading_s, "s")


def _cpu_s(document: dict[str, Any]) -> float:
    before = os.times()
    run_scenario(document)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def leavings(sheet: Sheet, rounds: int) -> None:
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
    what = f"interfaces, namespaces, BPF objects and processes left after {rounds} rounds of attach, run, `kill -9`"
    sheet.add("bridge/left", what, left, target=Target(at_most=0))
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
