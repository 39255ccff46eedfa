"""Giving a policy traffic: shadow, canary, guard, telemetry, rollback, on real connections."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import HTTPServer
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.cc_kernel_bridge import bridge, policies
from ccarena.configs import load_config
from ccarena.core.programs import EMULATOR, find
from ccarena.errors import ConfigError, MachineError
from ccarena.operation.command import DEFAULT_GUARD
from ccarena.operation.connections import Connection, follow
from ccarena.operation.connections import connections as connections_at
from ccarena.operation.report import report
from ccarena.policies import artifact
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import spec_of
from ccarena.scenarios.entrants import find_policy
from tests.policies.made import constant
from tests.privileged.test_kernel_policies import unified_cgroup

pytestmark = pytest.mark.usefixtures("kernel", "free")

NAME = "operated"


@pytest.fixture
def free() -> Iterator[None]:
    """Nothing is loaded, before and afterwards."""
    if policies.stats() or bridge.status() is not None:
        pytest.skip("SKIPPED, operating policies is not tested: something is attached; `ccarena kernel detach`")
    yield
    policies.unload()


class Pair:
    """A connection under a policy, and its other end."""

    def __init__(self, server: socket.socket, name: str) -> None:
        self.sender = socket.socket()
        self.sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        self.sender.connect(server.getsockname())
        self.local = "{}:{}".format(*self.sender.getsockname())
        self.receiver, _ = server.accept()
        self.sender.settimeout(10)
        self.receiver.settimeout(10)

    def send(self, kilobytes: int = 64) -> None:
        """Sends so much, and reads all of it."""
        data, left = bytes(kilobytes << 10), kilobytes << 10
        thread = threading.Thread(target=self.sender.sendall, args=(data,))
        thread.start()
        while left:
            left -= len(self.receiver.recv(left))
        thread.join()

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@contextmanager
def pairs(count: int, name: str = NAME) -> Iterator[list[Pair]]:
    """`count` connections under a policy."""
    with socket.create_server(("127.0.0.1", 0), backlog=count) as server, ExitStack() as stack:
        made = [Pair(server, name) for _ in range(count)]
        for each in made:
            stack.callback(each.close)
        yield made


def connections(name: str) -> list[Connection]:
    return connections_at(policies, name)


def living(name: str = NAME) -> dict[str, Connection]:
    """The open connections by their local address, the senders' alone."""
    return {each.local: each for each in connections(name) if each.ended is None}


def paced(connection: Connection) -> float:
    """Pacing rate by window and RTT, in no unit."""
    return connection.pacing_mbps * connection.srtt_ms / connection.window_packets


def test_a_shadow_decides_and_does_not_act(capsys: pytest.CaptureFixture[str]) -> None:
    assert policies.load("acct", NAME, shadow=True, guard=0).traffic == "shadow"
    with pairs(1) as (pair,):
        for _ in range(50):
            pair.send(256)
        found = living()[pair.local]
        assert found.role == "shadow" and found.decisions > 20
        assert found.compared == found.decisions - 1 and found.agreement is not None
        assert found.policy_mbps and found.running_mbps
        (stats,) = policies.stats(NAME)
        assert (stats.compared, stats.decisions) == (found.compared, found.decisions)
        assert cli.main(["kernel", "canary", NAME, "--share", "1"]) == 0
        assert "all connections" in capsys.readouterr().out
        for _ in range(5):
            pair.send(256)
        acting = living()[pair.local]
        # In slow start TCP's own rate is twice the window by RTT; ACCT paces close to the window by RTT.
        assert acting.role == "policy" and paced(found) > 1.5 * paced(acting)
    moved = [each for each in connections(NAME) if each.ended == "moved"]
    assert [each.decisions for each in moved] == [found.decisions]


def test_a_share_of_connections_gets_the_policy_and_the_report_compares() -> None:
    policies.load("acct", NAME, guard=0)
    policies.canary(NAME, 0.5)
    with pairs(40) as made:
        for pair in made:
            pair.send(512)
        roles = {local: each.role for local, each in living().items()}
        chosen = {local for local, role in roles.items() if role == "policy"}
        assert set(roles.values()) == {"policy", "control"} and 8 <= len(chosen) <= 32
        assert all((each.decisions > 0) == (each.local in chosen) for each in living().values())
        # More get it, and nobody loses it; then nobody has it.
        policies.canary(NAME, 0.8)
        for pair in made:
            pair.send(64)
        more = {local for local, each in living().items() if each.role == "policy"}
        assert chosen < more
        policies.canary(NAME, 0)
        for pair in made:
            pair.send(64)
        assert {each.role for each in living().values()} == {"control"}
    found = report(NAME, connections(NAME), 1)
    assert (found.policy, found.control, found.handed_back) == (len(more), 40, 0)
    throughput, rtt, retransmitted = found.figures
    assert throughput.policy.mean > 0 and throughput.difference.low < throughput.difference.high
    assert 0 < rtt.policy.mean < 1000 and retransmitted.policy.mean >= 0


def test_a_prefix_and_a_cgroup_choose_connections() -> None:
    policies.load("acct", NAME)
    policies.canary(NAME, 1, to="127.0.0.0/8")
    with pairs(2) as made:
        assert {each.role for each in living().values()} == {"policy"}
        policies.canary(NAME, 1, to="10.0.0.0/8")
        for pair in made:
            pair.send()
        assert {each.role for each in living().values()} == {"control"}
        # With a share below 1, CUBIC beside the policy is that of the same addresses alone.
        policies.canary(NAME, 0.5, to="10.0.0.0/8")
        for pair in made:
            pair.send()
        assert {each.role for each in living().values()} == {"apart"}
        own = Path("/proc/self/cgroup").read_text().split("0::/")[1].strip()
        policies.canary(NAME, 1, cgroup=unified_cgroup() / own)
        for pair in made:
            pair.send()
        assert {each.role for each in living().values()} == {"policy"}
    assert report(NAME, connections(NAME), 1).policy == 2


def elsewhere(tmp_path: Path) -> str:
    """A policy whose training saw a throughput that no link has."""
    policy = artifact.load(find_policy("acct"))
    seen = policy.interface.observation_len
    file = tmp_path / "elsewhere.safetensors"
    replace(policy, observed={"low": [0.5e-9] * seen, "high": [1e-9] * seen}).save(file)
    return str(file)


def test_the_guard_hands_a_connection_back_once_until_another_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies.load(elsewhere(tmp_path), NAME, guard=4)
    with pairs(1) as (pair,):
        for _ in range(20):
            pair.send()
        found = living()[pair.local]
        assert (found.role, found.decisions) == ("handed_back", 0)
        (handed,) = [each for each in connections(NAME) if each.ended == "guard"]
        assert (handed.outside, handed.decisions, handed.local) == (4, 4, pair.local)
        assert policies.stats(NAME)[0].handed_back == 1
        assert report(NAME, connections(NAME), 1).handed_back == 1
        # The operator's change keeps it with CUBIC; another policy begins anew.
        for share in (0, 1):
            policies.canary(NAME, share, guard=0)
            pair.send()
            assert living()[pair.local].role == "handed_back"
        policies.load("acct", NAME)
        for _ in range(20):
            pair.send()
        assert living()[pair.local].role == "policy"
    assert cli.main(["kernel", "report", NAME]) == 0
    assert "policy number 2: 1 connections with the policy (0 handed back), 0 with cubic" in capsys.readouterr().out
    assert report(NAME, connections(NAME), 1).handed_back == 1


def test_a_shadow_keeps_its_connections_whatever_they_show(tmp_path: Path) -> None:
    policies.load(elsewhere(tmp_path), NAME, shadow=True, guard=4)
    with pairs(1) as (pair,):
        for _ in range(20):
            pair.send()
        found = living()[pair.local]
        assert found.role == "shadow" and found.outside == found.decisions > 4
        policies.canary(NAME, 1)
        for _ in range(20):
            pair.send()
        assert living()[pair.local].role == "handed_back"
    assert policies.stats(NAME)[0].handed_back == 1


def always(folder: Path, name: str, act: object, base: object, action: float) -> str:
    """A policy of a small spec that answers `action`, whatever it observes."""
    document = {
        **{"learned": 1, "name": name, "clock": {"kind": "fixed", "period_ms": 10}, "report": ["interval_ms"]},
        **{"observe": {"signals": ["rtt_ratio"]}, "act": act, "base": base},
    }
    interface = spec_of(load_config({"spec": document})).interface
    Artifact.of(constant(interface, action), interface).save(file := folder / f"{name}.safetensors")
    return str(file)


@pytest.mark.parametrize(
    ("act", "base", "action"),
    [
        ({"kind": "rate", "bounds": [1, 5000]}, "none", 4000),
        ({"kind": "window_exp2", "bounds": [-1, 1]}, "none", 0.0),
        ({"kind": "cap", "bounds": [0.5, 4]}, "cubic", 1.0),
    ],
)
def test_a_shadow_is_compared_over_every_base(act: object, base: str, action: float, tmp_path: Path) -> None:
    policies.load(always(tmp_path, "small", act, base, action), NAME, shadow=True)
    with pairs(1) as (pair,):
        while (found := living()[pair.local]).decisions <= 5:
            pair.send(256)
        assert found.role == "shadow" and found.policy_mbps and found.running_mbps
        assert found.compared == found.decisions - (base != "cubic")
        if act["kind"] == "rate":  # type: ignore[index]
            # Its wish is its rate, or less where its window of some RTTs is smaller.
            assert found.policy_mbps <= 4001
        # It acts, and hands over, and acts again.
        for share, role in ((1, "policy"), (0, "control"), (1, "policy")):
            policies.canary(NAME, share)
            for _ in range(5):
                pair.send(256)
            assert living()[pair.local].role == role


SENDER = """
import os, socket, sys
sock = socket.socket()
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
sock.connect((os.environ["MAHIMAHI_BASE"], int(sys.argv[1])))
while True:
    sock.sendall(bytes(1 << 16))
"""


@contextmanager
def over_link(folder: Path, rate: str) -> Iterator[Callable[[float], None]]:
    """A transfer under NAME over 40 ms and a link of the trace `rate`; the value receives for some seconds."""
    (folder / "link").write_text(rate)
    log = folder / "up.log"
    shells = [str(find(EMULATOR)), "delay", "20", str(find(EMULATOR)), "link", "link", "link", f"--uplink-log={log}"]
    with socket.create_server(("0.0.0.0", 0)) as server:
        server.settimeout(10)
        command = [*shells, "--", sys.executable, "-c", SENDER, str(server.getsockname()[1]), NAME]
        sender = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        try:
            receiver, _ = server.accept()
            receiver.settimeout(10)

            def receive(seconds: float) -> None:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    receiver.recv(1 << 16)

            yield receive
        finally:
            sender.terminate()
            sender.wait(10)
            receiver.close()


def test_a_policy_by_rate_leaves_cubic_a_window_of_its_rate(tmp_path: Path) -> None:
    """6 Mbit/s over 40 ms are 21 segments; the policy's own window allows 20 times as many in flight."""
    act = {"kind": "rate", "bounds": [6, 6.01]}
    policies.load(always(tmp_path, "fast", act, {"kind": "none", "window_rtts": 20}, 6.0), NAME, guard=0)
    with over_link(tmp_path, "1\n" * 10) as receive:  # 120 Mbit/s
        receive(1.5)
        (before,) = (each for each in living().values() if each.decisions)
        policies.canary(NAME, 0)
        receive(0.4)
        after = living()[before.local]
    log = tmp_path / "up.log"
    assert before.role == "policy" and before.window_packets > 300 and 5.5 < before.pacing_mbps < 6.5
    assert after.role == "control" and after.window_packets < 60
    arrivals = [int(line.split()[0]) for line in log.read_text().splitlines() if line[:1].isdigit() and " + " in line]
    burst = max(sum(1 for each in arrivals if at <= each < at + 5) for at in range(max(arrivals)))
    assert burst <= 40, "packets that leave within 5 ms: about those of an RTT at the most"


def test_pilot_is_operated_as_a_policy_is(capsys: pytest.CaptureFixture[str]) -> None:
    first = policies.load("pilot", NAME, shadow=True)
    assert (first.scheme, first.policy, first.guard, first.traffic) == ("pilot", "pilot", 0, "shadow")
    with pairs(16) as made:

        def send() -> None:
            for _ in range(4):
                for pair in made:
                    pair.send(64)
                time.sleep(0.012)  # longer than a period of the law

        send()
        shadows = living().values()
        assert {each.role for each in shadows} == {"shadow"}
        assert all(each.decisions >= (each.compared or 0) > 0 and each.policy_mbps for each in shadows)
        policies.canary(NAME, 0.5)
        send()
        found = living()
        chosen = {local for local, each in found.items() if each.role == "policy"}
        assert {each.role for each in found.values()} == {"policy", "control"} and 2 <= len(chosen) <= 14
        assert all((each.decisions > 0) == (each.local in chosen) for each in found.values())
        second = policies.load("pilot", NAME, params={"preference": 1})
        assert (second.policy, second.before) == ("pilot@preference=1", first.sha256)
        assert second.sha256 != first.sha256 and second.traffic == "50 % of connections"
        send()
        assert {each.generation for each in living().values()} == {2}
        assert cli.main(["kernel", "rollback", NAME]) == 0
        assert f"policy pilot ({first.sha256[:12]}) is in force again" in capsys.readouterr().out
        send()
        assert {each.generation for each in living().values()} == {3}
        (stats,) = policies.stats(NAME)
        assert (stats.before, stats.handed_back, stats.sockets) == (second.sha256, 0, 16)
        assert stats.decisions > 0 and stats.ns_per_decision
        assert stats.agreement is None, "nothing was compared since the policy is in force again"
        with pytest.raises(ConfigError, match="pilot has no guard"):
            policies.canary(NAME, 1, guard=5)
        assert policies.stats(NAME)[0].traffic == "50 % of connections"
    assert {each.ended for each in connections(NAME)} == {"moved", "replaced", "closed"}
    compared = report(NAME, connections(NAME), 3)
    assert (compared.policy, compared.control) == (len(chosen), 16 - len(chosen))
    assert cli.main(["kernel", "status"]) == 0
    assert f"policy pilot, number 3, {first.sha256[:12]}; 50 % of connections" in capsys.readouterr().out
    assert cli.main(["kernel", "stats", NAME, "--prometheus"]) == 0
    assert f'policy="pilot",sha256="{first.sha256}"' in capsys.readouterr().out


def test_pilot_acts_in_its_role_alone(tmp_path: Path) -> None:
    """Over 12 Mbit/s with an endless buffer, CUBIC lets the queue grow, and pilot lets it drain."""
    policies.load("pilot", NAME, params={"preference": 1}, shadow=True)
    with over_link(tmp_path, "1\n") as receive:
        receive(2)
        (shadow,) = (each for each in living().values() if each.decisions)
        policies.canary(NAME, 1)
        receive(3)
        pilot = living()[shadow.local]
        policies.canary(NAME, 0)
        receive(3)
        cubic = living()[shadow.local]
    assert (shadow.role, pilot.role, cubic.role) == ("shadow", "policy", "control")
    assert shadow.policy_mbps and shadow.running_mbps and shadow.policy_mbps < shadow.running_mbps / 2
    assert pilot.srtt_ms < 90 and min(shadow.srtt_ms, cubic.srtt_ms) > 1.5 * pilot.srtt_ms, "it acted"
    assert cubic.window_packets > pilot.window_packets


def test_records_of_cubic_end_with_the_policy_beside_them_too() -> None:
    policies.load("acct", NAME, guard=0)
    policies.canary(NAME, 0)
    with pairs(1) as (pair,):
        pair.send()
        policies.load("acct", NAME, desired_mbps=5000)
        for _ in range(5):
            pair.send()
        (old,) = [each for each in connections(NAME) if each.local == pair.local and each.ended]
        now = living()[pair.local]
        assert (old.role, old.generation, old.ended) == ("control", 1, "replaced")
        assert (now.role, now.generation) == ("control", 2)
    found = report(NAME, connections(NAME), 2)
    assert (found.policy, found.control) == (0, 1)


def test_rollback_returns_to_the_policy_before_and_sockets_follow(capsys: pytest.CaptureFixture[str]) -> None:
    first = policies.load("acct", NAME, guard=0)
    with pytest.raises(MachineError, match="has had one policy"):
        policies.rollback(NAME)
    with pairs(1) as (pair,):
        pair.send()
        second = policies.load("acct", NAME, desired_mbps=5000, guard=0)
        assert second.sha256 != first.sha256 and second.before == first.sha256
        pair.send(1024)
        assert cli.main(["kernel", "rollback", NAME]) == 0
        assert f"policy acct ({first.sha256[:12]}) is in force again" in capsys.readouterr().out
        (now,) = policies.stats(NAME)
        assert (now.generation, now.sha256, now.before) == (3, first.sha256, second.sha256)
        for _ in range(10):
            pair.send(256)
        found = living()[pair.local]
        assert (found.generation, found.role) == (3, "policy") and found.decisions > 0
        assert policies.rollback(NAME).sha256 == second.sha256
    assert cli.main(["kernel", "status"]) == 0
    assert f"number 4, {second.sha256[:12]}; all connections" in capsys.readouterr().out


def test_connections_are_lines_and_metrics(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = policies.load("acct", NAME)
    with pairs(1) as (pair,):
        pair.send(512)
        assert cli.main(["kernel", "connections", NAME]) == 0
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (line["local"], line["role"], line["acked_bytes"]) == (pair.local, "policy", 512 << 10)
        assert line["throughput_mbps"] > 0 and line["rtt_ms"] > 0
        assert cli.main(["kernel", "stats", NAME, "--prometheus"]) == 0
        text = capsys.readouterr().out
        assert f'policy="acct",sha256="{loaded.sha256}"' in text
        assert f'ccarena_policy_sockets{{name="{NAME}"}} 1\n' in text
        assert f'connection="1",remote="{line["remote"]}"}} {512 << 10}\n' in text
    # The same over HTTP; the server ends as an interrupt would end it.
    servers: list[HTTPServer] = []
    monkeypatch.setattr(HTTPServer, "serve_forever", served := HTTPServer.serve_forever)
    monkeypatch.setattr(HTTPServer, "serve_forever", lambda self: (servers.append(self), served(self)))
    thread = threading.Thread(target=cli.main, args=(["kernel", "stats", "--listen", "127.0.0.1:0"],))
    thread.start()
    while not servers:
        thread.join(0.01)
    url = f"http://127.0.0.1:{servers[0].server_port}"
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert "ccarena_policy_info" in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url, timeout=10)
    servers[0].shutdown()
    thread.join(10)
    # What has ended is told once.
    reader = follow(policies, NAME, 0.01)
    assert [each.ended for each in next(reader)] == ["closed"] and next(reader) == []


REFUSED = {
    "canary absent --share 1": 'no policy is loaded as "absent"',
    "canary operated --share 1.5": "--share: got 1.5; expected a number from 0 to 1",
    "canary operated --share -1": "--share: got -1; expected a number from 0 to 1",
    "canary operated --share 1 --to ten": "got ten; expected an address or a prefix of addresses",
    "canary operated --share 1 --cgroup /tmp": "/tmp is no folder of a cgroup2 file system",
    "rollback absent": 'no policy is loaded as "absent"',
    "connections absent": 'no policy is loaded as "absent"',
    "report ../operated": 'no policy is loaded as "../operated"',
    "load acct --guard -1": "--guard: got -1; expected a whole number",
    "load pilot --guard 3": "guard 3: pilot has no guard",
    "load pilot --param preference=2": "preference",
    "load pilot --desired-mbps 7": "load pilot --desired-mbps: pilot has neither",
    "load pilot --as operated": 'runs a policy of scheme "acct", and this one is for "pilot"',
    "stats --listen 9100": "--listen 9100: expected ADDRESS:PORT",
    "connections operated --follow 0": "--follow 0: expected 0.01 to 3600 seconds",
}
"""Each refusal names its reason. One loaded policy serves all: the verifier takes seconds."""


def test_what_cannot_be_is_refused_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert policies.load("acct", NAME).guard == DEFAULT_GUARD
    policies.canary(NAME, 0.25, to="10.0.0.0/8")
    before = policies.stats()
    assert [each.traffic for each in before] == ["25 % of connections to 10.0.0.0/8"]
    for command, message in REFUSED.items():
        assert cli.main(["kernel", *command.split()]) != 0, command
        assert message in capsys.readouterr().err, command
        assert [(each.name, each.generation, each.traffic) for each in policies.stats()] == [
            (each.name, each.generation, each.traffic) for each in before
        ], command
