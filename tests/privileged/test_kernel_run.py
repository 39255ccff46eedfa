"""Scenarios on real TCP over the emulated link: figures that are possible, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: kernel TCP is not tested (run make)")

from ccarena import _core
from ccarena.cc_kernel_bridge.run import Runner, run_scenario
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import PolicyError, RunnerError, ScenarioError, TraceError
from ccarena.eval.measure.buffers import SHARES
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.policies import artifact
from ccarena.policies.artifact import Artifact
from ccarena.policies.published import spec_text
from ccarena.policies.spec import Spec
from ccarena.scenarios.backends import simulate
from ccarena.scenarios.entrants import find_policy
from ccarena.scenarios.run import run
from ccarena.scenarios.tables import flow_rows
from tests.envs.acct import REPORT_FIELDS
from tests.policies.made import constant, linear
from tests.privileged import controls
from tests.run_figures import figures_of

pytestmark = pytest.mark.usefixtures("kernel")


def scenario(*schemes: str, seconds: float = 2.0, **flow: Any) -> dict[str, Any]:
    """Bulk flows over 24 Mbit/s, 20 ms and about 1 BDP."""
    link = {
        "service": {"type": "constant", "rate_mbps": 24},
        "queue": {"type": "droptail", "packets": 50},
        "delay_ms": 10,
        "router": True,
    }
    flows = [{"scheme": scheme, **flow} for scheme in schemes]
    return {"duration_s": seconds, "links": [link], "flows": flows, "record": {"packets": True, "reports": True}}


def with_policies(names: Sequence[str], seconds: float = 3.0) -> dict[str, Any]:
    """A flow under each policy, on a link of its own as above."""
    document = scenario(seconds=seconds)
    [link], flows = document["links"], []
    for name in names:
        policy = artifact.load(find_policy(name))
        flow = {"scheme": policy.spec["name"], "policy": str(find_policy(name)), "params": policy.params}
        flows.append({**flow, "name": name, "path": [name]})
    return {**document, "links": [{**link, "name": name} for name in names], "flows": flows, "record": {}}


def test_policies_think_in_the_kernel_as_they_do_in_user_space() -> None:
    by_scheme: dict[str, list[str]] = {}
    for name in shipped_policies():
        by_scheme.setdefault(artifact.load(find_policy(name)).spec["name"], []).append(name)
    here = run_scenario(with_policies(list(shipped_policies())), in_kernel=False)
    assert here["machine"]["reports"] > 0
    as_daemons = {flow["name"]: flow for flow in here["flows"]}
    # In the kernel one policy of a run may have packets with ACCT's option.
    for names in zip_longest(*by_scheme.values()):
        there = run_scenario(with_policies([name for name in names if name]), in_kernel=True)
        assert there["machine"]["reports"] == 0
        for flow in there["flows"]:
            as_daemon = as_daemons.pop(flow["name"])
            decisions = (flow["decisions"], as_daemon["decisions"])
            # Of Hyvar's clocks one asks only when a queue or a loss lasts: now and then.
            assert min(decisions) > 3 and max(decisions) < 2 * min(decisions) + 20, (flow["name"], decisions)
            assert flow["delivered_bytes"] == pytest.approx(as_daemon["delivered_bytes"], rel=0.25), flow["name"]
    assert not as_daemons


def test_a_flow_says_how_long_socket_buffers_bounded_it() -> None:
    """A queue without a limit takes all that a window may hold; a short one ends its growth before."""
    document = scenario("reno", seconds=4.0)
    [link] = document["links"]
    document["links"] = [{**link, "service": {"type": "constant", "rate_mbps": 100}, "queue": {"type": "infinite"}}]
    bounded, free = (run_scenario({**each, "record": {}}) for each in (document, scenario("reno")))
    shares = [[of["flows"][0][key] for key in SHARES] for of in (bounded, free)]
    assert 0.01 < sum(shares[0]) <= 1 and sum(shares[1]) < 0.01, shares


def test_rates_timers_and_windows_without_a_base_do_in_the_kernel_what_they_do_in_the_simulator(tmp_path: Path) -> None:
    texts = {name: spec_text(name) for name in ("astraea", "indigo")}
    texts["aurora"] = files("ccarena.aurora").joinpath("spec.json").read_text()
    document = scenario(seconds=3.0)
    [link] = document["links"]
    flows = []
    for name, text in texts.items():
        interface = Spec.of(_core.learned(text)).interface
        if name == "indigo":
            # Ten segments more, or half of the window where the queue delays by 10 ms.
            graph = linear(interface, {(0, 0): 1.0}, [0.0, -1.0, -1.0, 0.05, -1.0])
        else:
            graph = constant(interface, {"astraea": 0.2, "aurora": 0.5}[name])
        policy = tmp_path / f"{name}.safetensors"
        Artifact.of(graph, interface).save(policy)
        flows.append({"scheme": json.loads(text), "policy": str(policy), "name": name, "path": [name]})
    document |= {"links": [{**link, "name": name} for name in texts], "flows": flows, "record": {}}
    there, expected = run_scenario(document, in_kernel=True), simulate(document)
    assert there["machine"]["reports"] == 0
    for flow, simulated in zip(there["flows"], expected["flows"], strict=True):
        assert flow["decisions"] == pytest.approx(simulated["decisions"], rel=0.1), flow["name"]
        assert flow["delivered_bytes"] == pytest.approx(simulated["delivered_bytes"], rel=0.1), flow["name"]


def test_pilot_in_the_kernel_fills_links_as_in_the_simulator() -> None:
    document = scenario(seconds=3.0)
    [link] = document["links"]
    services = {
        "slow": {"type": "constant", "rate_mbps": 6},
        "fast": {"type": "constant", "rate_mbps": 48},
        "outage": {
            "type": "steps",
            "steps": [{"at_s": 0, "rate_mbps": 24}, {"at_s": 1, "rate_mbps": 0}, {"at_s": 1.2, "rate_mbps": 24}],
        },
    }
    document |= {
        "links": [{**link, "name": name, "service": service} for name, service in services.items()],
        "flows": [{"scheme": "pilot", "name": name, "path": [name]} for name in services],
        "record": {},
    }
    document["flows"][0]["params"] = {"preference": 1.0}
    there, expected = run_scenario(document, in_kernel=True), simulate(document)
    assert there["machine"]["reports"] == 0
    for flow, simulated in zip(there["flows"], expected["flows"], strict=True):
        assert flow["delivered_bytes"] == pytest.approx(simulated["delivered_bytes"], rel=0.15), flow["name"]
        # A buffer of 50 packets takes 100 ms at 6 Mbit/s.
        assert flow["rtt_mean_ms"] < simulated["rtt_mean_ms"] + 15, flow["name"]


@pytest.mark.parametrize("name", shipped_policies())
def test_a_policy_in_the_kernel_reports_nothing(name: str) -> None:
    with pytest.raises(
        PolicyError, match=r"with the policy in the kernel; leave it out|a report, which counts several"
    ):
        run_scenario({**with_policies([name]), "record": {"reports": True}}, in_kernel=True)


def namespaces(pid: int) -> set[int]:
    """Inodes of the network namespaces that a process's threads are in or hold open."""
    held = [*Path(f"/proc/{pid}/task").glob("*/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()]
    found = set()
    for link in held:
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("net:["):
            found.add(int(target[5:-1]))
    return found - {int(os.readlink("/proc/self/ns/net")[5:-1])}


def in_use(inodes: set[int]) -> set[int]:
    """Which of these network namespaces some process is still in."""
    present = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            present |= {int(os.readlink(task)[5:-1]) for task in process.glob("task/*/ns/net")}
        except OSError:
            continue  # it has ended meanwhile
    return inodes & present


def await_removal(pid: int, within_s: float = 5.0) -> None:
    """Waits until no congestion control of that process is left: the kernel frees namespaces in its time."""
    deadline_s = time.monotonic() + within_s
    while left := controls.of_process(pid):
        assert time.monotonic() < deadline_s, f"{left} are still there"
        time.sleep(0.05)


def await_end(pid: int, within_s: float = 5.0) -> None:
    """Waits until no such process exists, or only one that its parent has not looked at."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} still runs after {within_s} s")


def test_one_flow_fills_its_link() -> None:
    """In the kernel, as a BPF program of ours, and from user space over the bridge: each on a link of its own."""
    schemes = ("cubic", "wcc-ai", "vegas")
    document = scenario(*schemes)
    [link] = document["links"]
    document["links"] = [{**link, "name": scheme} for scheme in schemes]
    document["flows"] = [{**flow, "path": [flow["scheme"]]} for flow in document["flows"]]
    result = run_scenario(document)
    for number, scheme in enumerate(schemes):
        figures = figures_of(document, result, number)
        assert 20 < figures["throughput_mbps"] <= 24.1, scheme
        # 50 packets of 1500 bytes wait for at most 25 ms.
        assert 0 < figures["queueing_delay_mean_ms"] < figures["queueing_delay_p95_ms"] <= 26, scheme
        flow = result["flows"][number]
        assert 19.5 < flow["rtt_min_ms"] < 25 and flow["rtt_min_ms"] < flow["rtt_mean_ms"] < 50, scheme
        assert flow["delivered_bytes"] * 8e-6 / 2 == pytest.approx(figures["goodput_mbps"]), scheme
        assert 0.9 * 24 * 0.96 / 1.05 < figures["goodput_mbps"] < figures["throughput_mbps"], scheme
        log = PacketLog.from_arrays(result["links"][number]["log"])
        assert (np.diff(log.departure_ns) >= 500_000).all(), "a packet of 1500 bytes takes 0.5 ms"
        assert (log.departure_ns > log.arrival_ns).all()
        assert log.departure_ns[-1] < 2.01e9, "the emulator stops within its host's next wake"
    machine = result["machine"]
    assert machine["lateness"]["count"] > 1000 and machine["kernel"] == os.uname().release


def test_the_simulator_and_the_kernel_agree_on_cubic() -> None:
    document = scenario("cubic", seconds=3.0)
    real, simulated = (figures_of(document, run(document)) for run in (run_scenario, simulate))
    assert real["throughput_mbps"] == pytest.approx(simulated["throughput_mbps"], rel=0.05)
    assert real["queueing_delay_mean_ms"] == pytest.approx(simulated["queueing_delay_mean_ms"], rel=0.15, abs=5)


def test_acct_hears_the_network_on_real_packets() -> None:
    """The option goes out on data, the emulated router lowers it, and the receiver echoes it."""
    document = scenario("acct", policy={"constant": 4})
    result = run_scenario(document)
    reports = result["flows"][0]["reports"]
    advertised = reports[:, REPORT_FIELDS.index("advertised_mbps")]
    assert len(reports) > 30 and result["flows"][0]["decisions"] == len(reports)
    assert np.median(advertised) == pytest.approx(24, rel=0.05)
    assert figures_of(document, result)["queueing_delay_p95_ms"] < 15


def test_two_flows_and_an_application() -> None:
    document = scenario("cubic", "reno")
    document["flows"][1] |= {"start_s": 0.5, "app": {"type": "cbr", "rate_mbps": 4}}
    rows = flow_rows(run(document, backend="kernel"))
    assert [row["scheme"] for row in rows] == ["cubic", "reno"]
    assert {row["backend"] for row in rows} == {"kernel"} and all("valid" in row for row in rows)
    assert rows[1]["goodput_mbps"] == pytest.approx(4, rel=0.2)
    assert rows[0]["goodput_mbps"] > 10


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"flows": [{"scheme": "acct"}]}, (PolicyError, ScenarioError), "policy"),
        ({"flows": [{"scheme": "acct", "policy": "absent.safetensors"}]}, PolicyError, "absent"),
        ({"links": [{"service": {"type": "trace", "file": "/absent.trace"}}]}, TraceError, "absent"),
        ({"flows": [{"scheme": "cubic", "mss_bytes": 9000}]}, ScenarioError, "mss_bytes"),
        ({"flows": [{"scheme": "cubic", "ack_bytes": 40}]}, ScenarioError, r"flows\[0\]\.ack_bytes"),
    ],
)
def test_what_real_tcp_cannot_do_is_refused(change: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run_scenario({**scenario("cubic"), **change})


def test_closing_in_the_middle_ends_it_at_once() -> None:
    runner = Runner(scenario("vegas", seconds=60.0))
    held = namespaces(runner.pid)
    assert len(held) >= 2 and controls.of_process(runner.pid)
    time.sleep(0.3)
    begun_s = time.monotonic()
    runner.close()
    assert time.monotonic() - begun_s < 1
    assert not Path(f"/proc/{runner.pid}").exists() and not in_use(held)
    await_removal(runner.pid)


def test_a_decider_that_is_silent_does_not_stall_its_flow() -> None:
    with Runner(scenario("acct", seconds=2.5), environment=True) as runner:
        runner.act(0, 4)
        for _ in range(10):
            assert runner.wait() is not None
        time.sleep(1.2)
        silent = runner.drain()
        assert len(silent) > 20, "intervals went on ending"
        assert sum(due.report[REPORT_FIELDS.index("acked_packets")] for due in silent) > 1000
        while (due := runner.wait()) is not None:
            runner.act(due.flow, 2)
        assert runner.result["flows"][0]["reports"][-1][REPORT_FIELDS.index("alpha")] == 3
        assert figures_of(scenario("acct", seconds=2.5), runner.result)["throughput_mbps"] > 18


@pytest.mark.parametrize("victim", ["caller", "group", "runner"])
def test_a_kill_leaves_nothing(victim: str, tmp_path: Path) -> None:
    """`kill -9` of the Python that asked for the run, of its process group, and of the process that carries it."""
    told = tmp_path / "told"
    document = json.dumps(scenario("acct", "wcc-ai", seconds=60.0))
    code = f"""
import json, os
from pathlib import Path
from ccarena.cc_kernel_bridge.run import Runner
runner = Runner(json.loads({document!r}), environment=True)
runner.act(0, 3)
runner.wait()
Path({str(told) + ".part"!r}).write_text(str(runner.pid))
os.rename({str(told) + ".part"!r}, {str(told)!r})
while True:
    runner.act(runner.wait().flow, 3)
"""
    caller = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + 20
    while not told.exists() and caller.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert told.exists(), caller.stderr.read() if caller.poll() is not None and caller.stderr else "no run began"
    pid = int(told.read_text())
    held = namespaces(pid)
    assert len(held) >= 2
    if victim == "group":
        os.killpg(caller.pid, signal.SIGKILL)
    else:
        os.kill(caller.pid if victim == "caller" else pid, signal.SIGKILL)
    await_end(pid)
    _, errors = caller.communicate(timeout=10)
    if victim == "runner":
        assert caller.returncode == 1 and RunnerError.__name__ in errors and "signal 9" in errors
    assert not in_use(held)
    await_removal(pid)
    assert "tun" not in Path("/proc/net/dev").read_text(), "its interfaces are in no namespace of ours"
