"""An operator of a QUIC server: shadow, canary, guard, records, swap and rollback, under real connections."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.core.programs import QUIC, find
from ccarena.errors import MachineError
from ccarena.operation.command import DEFAULT_GUARD
from ccarena.operation.connections import Connection, connections
from ccarena.operation.report import report
from ccarena.policies import artifact
from ccarena.quic.server import Server
from ccarena.scenarios.entrants import find_policy
from tests.policies.made import continuous

WAIT_S = 30.0


@pytest.fixture
def program() -> str:
    """The path of `ccarena-quic`."""
    try:
        return str(find(QUIC))
    except MachineError as error:
        pytest.skip(f"SKIPPED, operating a QUIC server is not tested: {error}")


class Served:
    """A server of one policy, its lines, and its clients."""

    def __init__(self, program: str, folder: Path, file: Path, *options: str) -> None:
        self.program, self.server = program, Server(folder / "control.sock")
        words = ["serve", "--listen", "127.0.0.1:0", "--policy", f"mine={file}", "--default-policy", "mine"]
        self.lines = folder / "lines"
        with self.lines.open("wb") as out:
            self.process = subprocess.Popen(
                [program, *words, "--control", str(self.server.control), *options], stdout=out
            )
        self.address = self.wait(lambda: next((line["listening"] for line in self.told()), None))
        self.clients: list[subprocess.Popen[str]] = []

    def told(self) -> list[dict[str, Any]]:
        """Lines of the server so far."""
        return [json.loads(line) for line in self.lines.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def wait(self, found: Callable[[], Any]) -> Any:
        """Waits for something true."""
        until = time.monotonic() + WAIT_S
        while not (value := found()):
            assert self.process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        return value

    def connect(self, count: int) -> None:
        """Opens connections that get data until `close`."""
        command = [self.program, "get", self.address, "--connections", str(count), "--duration-s", "60"]
        self.clients.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        self.wait(lambda: self.server.stats("mine")[0].sockets >= count)

    def roles(self) -> dict[int, str]:
        return {each.connection: each.role for each in self.living()}

    def living(self) -> list[Connection]:
        return [each for each in self.records() if each.ended is None]

    def records(self) -> list[Connection]:
        return connections(self.server, "mine")

    def moved(self) -> bool:
        """Each connection delivers, whatever was done to its policy."""
        before = {each.connection: each for each in self.living()}
        counts = {number: each.acked_bytes for number, each in before.items()}
        self.wait(
            lambda: all(
                each.acked_bytes > counts[each.connection] or each.seconds < before[each.connection].seconds
                for each in self.living()
            )
        )
        return True


@contextmanager
def served(program: str, folder: Path, file: Path, *options: str) -> Iterator[Served]:
    """A server, whose connections all live until the end."""
    at = Served(program, folder, file, *options)
    try:
        yield at
        for client in at.clients:
            assert client.poll() is None, client.communicate()
        assert not [line for line in at.told() if line.get("closed")], "nobody was closed"
    finally:
        for client in at.clients:
            client.kill()
            client.communicate()
        at.process.terminate()
        at.process.wait(10)
    assert not at.server.control.exists()


def elsewhere(folder: Path, name: str = "acct") -> Path:
    """A policy whose training saw a throughput that no link has."""
    policy = artifact.load(find_policy(name))
    seen, file = policy.interface.observation_len, folder / "elsewhere.safetensors"
    replace(policy, observed={"low": [0.5e-9] * seen, "high": [1e-9] * seen}).save(file)
    return file


def test_a_share_gets_the_policy_and_the_report_compares(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control = ["--control", str(tmp_path / "control.sock")]
    with served(program, tmp_path, find_policy("acct"), "--guard", "0") as at:
        assert cli.main(["quic", "canary", "mine", "--share", "0.5", *control]) == 0
        assert "mine: 50 % of connections" in capsys.readouterr().out
        at.connect(24)
        chosen = {number for number, role in at.roles().items() if role == "policy"}
        assert set(at.roles().values()) == {"policy", "control"} and 3 <= len(chosen) <= 21
        at.wait(lambda: all((each.decisions > 0) == (each.connection in chosen) for each in at.living()))
        # More get it, and nobody loses it; then nobody has it.
        at.server.canary("mine", 0.8)
        assert chosen < {number for number, role in at.roles().items() if role == "policy"}
        at.server.canary("mine", 1, to="10.0.0.0/8")
        assert set(at.roles().values()) == {"control"} and at.moved()
        at.server.canary("mine", 0.5, to="10.0.0.0/8")
        assert set(at.roles().values()) == {"apart"}
        assert cli.main(["quic", "report", "mine", *control]) == 0
        assert "24 with cubic" in capsys.readouterr().out
        found = report("mine", at.records(), 1)
        assert found.policy >= len(chosen) and found.control == 24 and found.figures[0].policy.mean > 0
        assert cli.main(["quic", "stats", "mine", "--prometheus", *control]) == 0
        text = capsys.readouterr().out
        assert 'ccarena_policy_sockets{name="mine"} 24\n' in text and 'fallback="cubic"' in text
        assert "held_total" not in text, "what is not measured is not there"
        assert cli.main(["quic", "connections", "mine", *control]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {line["sha256"] for line in lines} == {at.server.stats("mine")[0].sha256}


def test_the_guard_hands_connections_back_and_says_so(program: str, tmp_path: Path) -> None:
    with served(program, tmp_path, elsewhere(tmp_path), "--guard", "4") as at:
        at.connect(2)
        at.wait(lambda: set(at.roles().values()) == {"handed_back"})
        handed = [each for each in at.records() if each.ended == "guard"]
        assert [(each.outside, each.decisions) for each in handed] == [(4, 4)] * 2
        assert at.server.stats("mine")[0].handed_back == report("mine", at.records(), 1).handed_back == 2
        said = at.wait(lambda: [line for line in at.told() if line.get("after") == "guard"])
        assert said[0]["role"] == "handed_back"
        # It stays so whatever the operator sets, until another policy is in force.
        at.server.canary("mine", 0)
        at.server.canary("mine", 1)
        assert set(at.roles().values()) == {"handed_back"} and at.moved()
        assert at.server.load(find_policy("acct"), "mine", guard=0).generation == 2
        assert set(at.roles().values()) == {"policy"} and at.moved()


def test_a_shadow_decides_and_the_fallback_acts(program: str, tmp_path: Path) -> None:
    with served(program, tmp_path, elsewhere(tmp_path), "--shadow", "--fallback", "reno") as at:
        at.connect(1)
        at.wait(lambda: at.living()[0].decisions > 40)
        (loaded,), (found,) = at.server.stats("mine"), at.living()
        assert (loaded.traffic, loaded.fallback, found.role) == ("shadow", "reno", "shadow")
        assert found.outside == found.decisions, "no guard takes the connection"
        assert found.compared == found.decisions - 1 and found.agreement is not None
        assert found.policy_mbps and found.running_mbps
        at.server.canary("mine", 1, guard=0)
        assert set(at.roles().values()) == {"policy"} and at.moved()


def test_policies_are_swapped_and_rolled_back_while_connections_send(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control = ["--control", str(tmp_path / "control.sock")]
    other = tmp_path / "other.safetensors"
    replace(artifact.load(find_policy("acct")), seed=99).save(other)
    with served(program, tmp_path, find_policy("acct"), "--guard", "0") as at:
        at.connect(3)
        (first,) = at.server.stats("mine")
        with pytest.raises(MachineError, match="had one policy only"):
            at.server.rollback("mine")
        assert cli.main(["quic", "load", str(other), "--as", "mine", *control]) == 0
        (second,) = at.server.stats("mine")
        assert second.sha256 != first.sha256 and second.before == first.sha256 and at.moved()
        assert cli.main(["quic", "rollback", "mine", *control]) == 0
        assert f"({first.sha256[:12]}) is in force again" in capsys.readouterr().out
        assert {each.generation for each in at.living()} == {3} and at.moved()
        assert [each.ended for each in at.records() if each.ended] == ["replaced"] * 6
        # A rate-based policy hands over to CUBIC and takes over again.
        aurora = tmp_path / "aurora.safetensors"
        continuous("aurora", 0.1).save(aurora)
        with pytest.raises(MachineError, match="mine runs a policy of scheme acct"):
            at.server.load(aurora, "mine")
        assert at.server.load(aurora, "fast").generation == 1


def test_what_cannot_be_is_refused_and_changes_nothing(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(program, tmp_path, find_policy("acct")) as at:
        at.server.canary("mine", 0.25, to="10.0.0.0/8")
        for command, message in (
            ("canary absent --share 1", 'policy: got "absent"; expected one of the server\'s: mine'),
            ("canary mine --share 1.5", "--share: got 1.5; expected a number from 0 to 1"),
            ("canary mine --share 1 --to ten", "got ten; expected an address or a prefix of addresses"),
            ("rollback absent", 'policy: got "absent"'),
            ("connections absent", 'policy: got "absent"'),
            ("report mine --control nowhere.sock", "no server answers at nowhere.sock"),
        ):
            words = command.split()
            words += [] if "--control" in words else ["--control", str(at.server.control)]
            assert cli.main(["quic", *words]) != 0
            assert message in capsys.readouterr().err
        (loaded,) = at.server.stats("mine")
        assert (loaded.traffic, loaded.guard) == ("25 % of connections to 10.0.0.0/8", DEFAULT_GUARD)
