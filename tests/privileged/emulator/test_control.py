"""Running emulations that are changed through a socket."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccarena.errors import MachineError, ScenarioError
from ccarena.scenarios.emulation import EmulatorControl, LinkValues

Shell = Callable[..., "subprocess.CompletedProcess[str]"]

# Answers one byte for 20 kB.
SERVER = """
import os, socket
s = socket.create_server(("0.0.0.0", 9000))
while True:
    c, _ = s.accept()
    left = 20000
    while left > 0 and (piece := c.recv(left)):
        left -= len(piece)
    c.close()
"""

# For each line of its input, sends 20 kB and prints how long connecting and sending took, in ms, or that nothing came.
CLIENT = """
import os, socket, sys, time
for _ in sys.stdin:
    s = socket.socket()
    s.settimeout(0.5)
    s.bind((os.environ["CCARENA_SENDER_0"], 0))
    begun = time.monotonic()
    try:
        s.connect((os.environ["CCARENA_RECEIVER_0"], 9000))
    except TimeoutError:
        print("lost", flush=True)
        continue
    connected = time.monotonic()
    s.settimeout(5)
    s.sendall(bytes(20000))
    s.recv(1)
    print((connected - begun) * 1e3, (time.monotonic() - connected) * 1e3, flush=True)
"""

SCENARIO = {
    "links": [{"name": "a", "service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10}],
    "flows": [{"scheme": "cubic"}],
}


class Emulation:
    """A running emulation with a client inside."""

    def __init__(self, program: str, folder: Path) -> None:
        self.socket, self.summary = folder / "c.sock", folder / "summary.json"
        (folder / "s.json").write_text(json.dumps(SCENARIO))
        server = f"--far-command={sys.executable} -c '{SERVER}'"
        line = [program, "emulate", f"--control={self.socket}", f"--summary={self.summary}", server, "s.json"]
        self.process = subprocess.Popen(
            [*line, "--", sys.executable, "-c", CLIENT], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until = time.monotonic() + 10
        while time.monotonic() < until and not self.socket.exists() and self.process.poll() is None:
            time.sleep(0.01)
        self.transfer()

    def transfer(self) -> list[str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def end(self) -> str:
        return self.process.communicate(timeout=10)[1]


@pytest.fixture
def emulation(shell: Shell, program: str, tmp_path: Path) -> Iterator[Emulation]:
    running = Emulation(program, tmp_path)
    yield running
    if running.process.poll() is None:
        running.end()


def test_rate_delay_and_loss_change_as_the_run_goes_on(emulation: Emulation, shell: Shell, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(emulation.socket).st_mode) == 0o600
    with EmulatorControl(emulation.socket) as control:
        assert control.get() == {"a": LinkValues(20, 10, 0)}
        connecting, sending = map(float, emulation.transfer())
        assert 20 <= connecting < 40 and sending < 80
        times = [control.set("a", delay_ms=40), control.set(rate_mbps=1)]
        connecting, sending = map(float, emulation.transfer())
        # The way back takes 10 ms, as before.
        assert 50 <= connecting < 80 and sending >= 160
        times.append(control.set(loss=1))
        assert emulation.transfer() == ["lost"]
        assert control.get() == {"a": LinkValues(1, 40, 1)}
        times.append(control.set("a", rate_mbps=20, delay_ms=10, loss=0))
        connecting, sending = map(float, emulation.transfer())
        assert 20 <= connecting < 40 and sending < 80
    emulation.end()
    assert not emulation.socket.exists()
    result = json.loads(emulation.summary.read_text())
    assert [change["at_s"] for change in result["changes"]] == times == sorted(times)
    assert result["changes"][1] == {"at_s": times[1], "link": "a", "rate_mbps": 1.0}
    # The run can be run again.
    (tmp_path / "again.json").write_text(json.dumps(result["scenario"]))
    assert shell("emulate", "again.json", "true").returncode == 0
    (link,) = result["scenario"]["links"]
    assert link["service"]["steps"] == [
        {"at_s": at_s, "rate_mbps": rate} for at_s, rate in ((0, 20), (times[1], 1), (times[3], 20))
    ]
    assert [step["delay_ms"] for step in link["delay_ms"]["steps"]] == [10, 40, 10]
    assert [step["loss"] for step in link["loss"]["steps"]] == [0, 1, 0]
    assert result["scenario"]["flows"][0]["base_rtt_ms"] == 20


def test_two_clients_and_lines_that_are_wrong(emulation: Emulation) -> None:
    with EmulatorControl(emulation.socket) as first, EmulatorControl(emulation.socket) as second:
        first.set(rate_mbps=7)
        assert second.get()["a"].rate_mbps == 7
        for wrong, says in (
            ({"rate_mbps": -1}, "rate_mbps"), ({"loss": 1.01}, "loss"), ({"delay_ms": "x"}, "delay_ms"),
            ({"link": "b", "loss": 0}, "expected one of a"), ({"rate": 5}, "rate_mbps"), ([], "object"),
        ):  # fmt: skip
            with pytest.raises(ScenarioError, match=says):
                second._ask(wrong)  # type: ignore[arg-type]
        assert first.get() == second.get() == {"a": LinkValues(7, 10, 0)}
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(5)
        raw.connect(str(emulation.socket))
        answers = raw.makefile("rb")
        for line in (b"\n", b"\xff\xfe\n", b'{"loss": 1e999}\n', b"[" * 3000 + b"\n", b'{"loss":0,"loss":1}\n'):
            raw.sendall(line)
            assert "error" in json.loads(answers.readline()), line
        raw.sendall(b"x" * 5000)
        assert "longer than 4096 bytes" in json.loads(answers.readline())["error"]
        assert answers.readline() == b""
    assert emulation.transfer()


def test_a_path_that_is_taken(emulation: Emulation, shell: Shell, tmp_path: Path) -> None:
    done = shell("emulate", f"--control={emulation.socket}", "s.json", "true")
    assert done.returncode == 1 and "another emulation listens there" in done.stderr
    done = shell("emulate", "--control=s.json", "s.json", "true")
    assert done.returncode == 1 and "exists and is no socket" in done.stderr
    done = shell("emulate", "--control=/nosuch/c.sock", "s.json", "true")
    assert done.returncode == 1 and "--control /nosuch/c.sock: cannot make the socket" in done.stderr
    # Nobody removes the socket of an emulation that is killed; the next one replaces it.
    emulation.process.kill()
    emulation.process.wait()
    assert emulation.socket.exists()
    with pytest.raises(MachineError, match="cannot reach an emulation"):
        EmulatorControl(emulation.socket)
    assert shell("emulate", f"--control={emulation.socket}", "s.json", "true").returncode == 0
    assert not emulation.socket.exists()
