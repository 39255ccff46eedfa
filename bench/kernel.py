"""Policies that think in the kernel, beside user space and the kernel's own congestion controls. Needs root."""

from __future__ import annotations

import ctypes
import os
import resource
import selectors
import socket
import statistics
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench.sheet import Sheet
from ccarena.cc_kernel_bridge import policies
from ccarena.cc_kernel_bridge.run import Runner, run_scenario
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.measurements import Target
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.queueing import queueing_delay_ms
from ccarena.eval.measure.sample import confidence_interval
from ccarena.eval.measure.throughput import throughput_mbps
from ccarena.policies import artifact
from ccarena.policies.bpf_runtime import BpfRuntime
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.recording import record
from ccarena.scenarios.entrants import find_policy

NS_GOALS = {"acct": 10_000, "hyvar": 25_000}
"""Shipped policies that are measured in full, and what a decision of each may take in BPF."""
NS_GOAL = 25_000
"""Bound of a decision of every other policy, and of each in a transfer."""
BPF_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
CONNECTIONS = 1000
CONNECTION_BYTES = 1 << 18
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
WARM_UP_S = 1.5
LOSS_WEIGHT = 5.0
"""Of Hyvar's reward (ccarena/hyvar/rewards.py)."""


def measure(sheet: Sheet) -> None:
    """All of it: some ten minutes."""
    for name in shipped_policies():
        decisions(sheet, name, NS_GOALS.get(name, NS_GOAL))
        in_transfer(sheet, name)
    acknowledgement(sheet)
    cpu(sheet)
    connections(sheet)
    daemon(sheet)
    for name in (*NS_GOALS, "pilot"):
        returns(sheet, name)


def flow(name: str) -> dict[str, Any]:
    """A flow under the shipped policy `name`, with what it was trained with, or under `pilot`."""
    if name == "pilot":
        return {"scheme": name}
    policy = artifact.load(find_policy(name))
    return {"scheme": name, "policy": str(find_policy(name)), "params": dict(policy.params)}


def scenario(rate_mbps: float, seconds: float, flow: dict[str, Any], delay_ms: float = 10) -> dict[str, Any]:
    """One flow over one link with one BDP of buffer, whose router knows ACCT."""
    queue = {"type": "droptail", "packets": round(rate_mbps * 2 * delay_ms / 12)}
    link = {
        "service": {"type": "constant", "rate_mbps": rate_mbps},
        "delay_ms": delay_ms,
        "router": True,
        "queue": queue,
    }
    return {"duration_s": seconds, "links": [link], "flows": [flow]}


def decisions(sheet: Sheet, name: str, most_ns: float) -> None:
    """Time of a decision on recorded observations, network and normalisation alone: the best round of some seconds.

    The machine's host leaves it alone in some of them.
    """
    policy = artifact.load(find_policy(name))
    runtime, integer = BpfRuntime(policy), IntegerPolicy.of(policy)
    raw = integer.raw(record(policy, 512).rows)
    spent_ns = []
    for _ in range(80):
        runtime(raw, np.zeros((len(raw), integer.state), np.int32))
        spent_ns.append(runtime.spent_ns / len(raw))
        time.sleep(0.05)
    what = f"a decision of the shipped policy `{name}` in BPF"
    sheet.add(f"kernel/decision-{name}", what, min(spent_ns) / 1e3, "µs", Target(at_most=most_ns / 1e3))


def in_transfer(sheet: Sheet, name: str, seconds: float = 3.0, rounds: int = 3) -> None:
    """Mean time of a decision in a real transfer, as the program counts it: the best of some transfers."""
    spent_ns = []
    for _ in range(rounds):
        loaded = policies.load(name, f"bench_{os.getpid()}")
        try:
            own = {"scheme": name, "foreign": {"type": "kernel", "name": loaded.name}}
            run_scenario(scenario(24.0, seconds, own))
            (stats,) = policies.stats(loaded.name)
        finally:
            policies.unload(loaded.name)
        assert stats.ns_per_decision is not None, "the kernel counts"
        spent_ns.append(stats.ns_per_decision)
    what = f"a decision of the shipped policy `{name}` in a transfer at 24 Mbit/s, signals and action included"
    sheet.add(f"kernel/transfer-{name}", what, min(spent_ns) / 1e3, "µs", Target(at_most=NS_GOAL / 1e3))


def acknowledgement(sheet: Sheet, seconds: float = 6.0) -> None:
    """Time of `pilot`'s program per acknowledgement, by the kernel's statistics of BPF programs."""
    before = BPF_STATISTICS.read_text()
    BPF_STATISTICS.write_text("1")
    try:
        with Runner(scenario(24.0, seconds, flow("pilot")), in_kernel=True) as runner:
            time.sleep(seconds - 1)
            spent_ns, runs = statistics_of(b"pilot_cong_cont")
            while runner.wait() is not None:
                pass
    finally:
        BPF_STATISTICS.write_text(before)
    what = "`pilot` in the kernel at 24 Mbit/s: its program, per acknowledgement"
    sheet.add("kernel/acknowledgement-pilot", what, spent_ns / runs / 1e3, "µs", Target(at_most=NS_GOAL / 1e3))


def statistics_of(name: bytes) -> tuple[int, int]:
    """Nanoseconds and runs of the BPF programs of this name (15 bytes) (include/uapi/linux/bpf.h)."""
    bpf, get_next, get_fd, get_info, name_at = 321, 11, 13, 15, 64
    libc, spent_ns, runs, number = ctypes.CDLL(None, use_errno=True), 0, 0, 0
    while True:
        ids = (ctypes.c_uint32 * 4)(number)
        if libc.syscall(bpf, get_next, ids, ctypes.sizeof(ids)):
            return spent_ns, runs
        number = ids[1]
        fd = libc.syscall(bpf, get_fd, (ctypes.c_uint32 * 4)(number), 16)
        if fd < 0:
            continue
        info = (ctypes.c_uint8 * 256)()
        words = struct.pack("IIQ", fd, len(info), ctypes.addressof(info))
        done = libc.syscall(bpf, get_info, words, len(words))
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
        os.close(fd)
        if done == 0 and bytes(info)[name_at : name_at + 16].rstrip(b"\0") == name:
            fields = dict(line.split(":\t") for line in lines)
            spent_ns, runs = spent_ns + int(fields["run_time_ns"]), runs + int(fields["run_cnt"])


def run_cpu_s(document: dict[str, Any], in_kernel: bool, from_s: float) -> tuple[float, float]:
    """Bytes that the flow delivers from `from_s` on, and the CPU that the run's process takes for them."""
    before_s = children_s()
    with Runner(document | {"record": {"series": True}}, in_kernel=in_kernel) as runner:
        time.sleep(from_s)
        fields = Path(f"/proc/{runner.pid}/stat").read_text().rpartition(")")[2].split()
        begun_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        while runner.wait() is not None:
            pass
        payload = runner.result["flows"][0]["series"]["payload_bytes"]
    delivered = payload[round(len(payload) * from_s / document["duration_s"]) :].sum()
    return float(delivered), children_s() - before_s - begun_s


def children_s() -> float:
    """CPU of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def cpu(sheet: Sheet, seconds: float = 6.0, from_s: float = 4.0, rounds: int = 3) -> None:
    """CPU per byte of a flow at 1 Gbit/s, once it has got there, over that of the kernel's CUBIC; whole processes."""
    flows = {"cubic": {"scheme": "cubic"}} | {name: flow(name) for name in NS_GOALS}
    spent: dict[str, list[float]] = {name: [] for name in flows}
    rates: dict[str, list[float]] = {name: [] for name in flows}
    for _ in range(rounds):
        for name, one in flows.items():
            delivered, cpu_s = run_cpu_s(scenario(1000.0, seconds, one), name != "cubic", from_s)
            spent[name].append(cpu_s / delivered)
            rates[name].append(delivered * 8e-6 / (seconds - from_s))
    for name in flows:
        where = "the kernel's CUBIC" if name == "cubic" else f"`{name}` in the kernel"
        rate = statistics.median(rates[name])
        sheet.add(f"kernel/goodput-{name}", f"{where} at 1 Gbit/s, 10 ms each way: goodput", rate, "Mbit/s")
    for name in NS_GOALS:
        ratios = [ours / cubics for ours, cubics in zip(spent[name], spent["cubic"], strict=True)]
        what = f"`{name}` in the kernel at 1 Gbit/s: CPU per byte over the kernel's CUBIC's, emulator included"
        sheet.add(f"kernel/cpu-{name}", what, statistics.median(ratios), "×", Target(at_most=1.1))


def connections(sheet: Sheet) -> None:
    """Many connections at once over a loaded policy, on the loopback: all finish, and nothing is left."""
    name = f"bench_{os.getpid()}"
    policies.load("acct", name)
    try:
        before_s = time.monotonic()
        finished = transfer(name)
        spent_s = time.monotonic() - before_s
        deadline_s = time.monotonic() + 5
        while (left := policies.stats(name)[0].sockets) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        (stats,) = policies.stats(name)
    finally:
        policies.unload(name)
    what = f"of {CONNECTIONS} connections at once under `acct` in the kernel, those that finish"
    sheet.add("kernel/connections", what, finished, target=Target(at_least=CONNECTIONS))
    sheet.add("kernel/connections-left", "of these, left in the kernel afterwards", left, target=Target(at_most=0))
    each = f"time per connection of {CONNECTION_BYTES >> 10} kB, handshake included"
    sheet.add("kernel/connections-time", each, 1e3 * spent_s / CONNECTIONS, "ms")
    sheet.add("kernel/connections-decisions", "decisions that they took", stats.decisions)


def transfer(name: str) -> int:
    """Opens all connections, then sends over all of them; how many delivered everything."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * CONNECTIONS)), hard))
    selector, chunk, finished = selectors.DefaultSelector(), bytes(1 << 16), 0
    open_sockets: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as server:
        for _ in range(CONNECTIONS):
            sender = socket.socket()
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            sender.connect(server.getsockname())
            receiver, _ = server.accept()
            for end, event in ((sender, selectors.EVENT_WRITE), (receiver, selectors.EVENT_READ)):
                end.setblocking(False)
                selector.register(end, event, [CONNECTION_BYTES])
                open_sockets.append(end)
    deadline_s = time.monotonic() + 60
    while selector.get_map() and time.monotonic() < deadline_s:
        for key, event in selector.select(1.0):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if event == selectors.EVENT_WRITE:
                key.data[0] -= connection.send(chunk[: key.data[0]])
                over = key.data[0] == 0
            else:
                got = len(connection.recv(1 << 18))
                key.data[0] -= got
                over = not got
                finished += over and key.data[0] == 0
            if over:
                selector.unregister(connection)
                connection.close()
    for end in open_sockets:
        end.close()
    return finished


def daemon(sheet: Sheet, seconds: float = 4.0, rounds: int = 5) -> None:
    """The bridge daemon's CPU for Hyvar over that for Orca, at an RTT of 20 ms, and how often a question wakes it."""
    orca = {"scheme": "orca", "policy": {"constant": 0}}
    runtimes = (("orca", orca, False), ("bridge", flow("hyvar"), False), ("kernel", flow("hyvar"), True))
    ratios: dict[str, list[float]] = {"bridge": [], "kernel": []}
    wakeups = questions = 0
    for _ in range(rounds):
        spent = {}
        for key, one, in_kernel in runtimes:
            result = run_scenario(scenario(24.0, seconds, one), in_kernel=in_kernel)
            spent[key] = result["machine"]["daemon_cpu_s"]
            if key == "bridge":
                wakeups += result["machine"]["wakeups"]
                questions += result["flows"][0]["decisions"]
        for key, values in ratios.items():
            values.append(spent[key] / spent["orca"])
    what, target = "CPU of the bridge daemon for Hyvar over Orca's at 20 ms", Target(at_most=0.2)
    for key, where in (("bridge", "over the bridge"), ("kernel", "thinking in the kernel")):
        sheet.add(f"kernel/daemon-{key}", f"{what}, {where}", statistics.median(ratios[key]), "×", target)
    each = "how often the daemon wakes per question of Hyvar's over the bridge"
    sheet.add("kernel/daemon-wakeups", each, wakeups / questions, target=Target(at_most=1.2))


def returns(sheet: Sheet, name: str, seconds: float = 6.0, repeats: int = 8) -> None:
    """The return in the kernel over that in user space, on the same links: Hyvar's reward of the whole run."""
    one, links = flow(name), ((12.0, 20.0), (24.0, 10.0), (48.0, 5.0))
    jobs = [(link, in_kernel) for _ in range(repeats) for link in links for in_kernel in (False, True)]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: run_return(job[0], seconds, one, job[1]), jobs))
    quotients = [kernel / bridge for bridge, kernel in zip(results[::2], results[1::2], strict=True)]
    interval = confidence_interval(quotients)
    what = f"`{name}` thinking in the kernel: return over that in user space, {len(quotients)} pairs of runs"
    sheet.add(f"kernel/return-{name}", what, interval.mean, "×", Target(at_least=0.98))
    sheet.add(f"kernel/return-{name}-low", "lower end of its 95 % interval", interval.low, "×")
    sheet.add(f"kernel/return-{name}-high", "upper end", interval.high, "×")


def run_return(link_of: tuple[float, float], seconds: float, one: dict[str, Any], in_kernel: bool) -> float:
    """((throughput - 5 loss) / RTT) / (capacity / smallest RTT) after the first 1.5 s, all as the link saw it.

    `link_of`: its rate in Mbit/s and its delay in ms.
    """
    rate_mbps, delay_ms = link_of
    document = scenario(rate_mbps, seconds, one, delay_ms) | {"record": {"packets": True}}
    (link,) = run_scenario(document, in_kernel=in_kernel)["links"]
    log = PacketLog.from_arrays(link["log"])
    log = log.where(log.departure_ns > WARM_UP_S * 1e9)
    throughput = throughput_mbps(log, WARM_UP_S, seconds)
    loss = throughput * link["dropped_packets"] / max(link["delivered_packets"], 1)
    rtt_ms = 2 * delay_ms + float(np.mean(queueing_delay_ms(log)))
    return (throughput - LOSS_WEIGHT * loss) / rtt_ms / (rate_mbps / (2 * delay_ms))
