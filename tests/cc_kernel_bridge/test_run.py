"""The client of `ccarena-kernel run`, against programs that die, lie and keep silent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import kernel_frames as wire
import pytest
from kernel_frames import Program

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the client was not tested (run make)")

from ccarena.cc_kernel_bridge.run import Runner, run_scenario
from ccarena.errors import (
    CcarenaError,
    ConfigError,
    MachineError,
    PolicyError,
    RunnerError,
    ScenarioError,
    TraceError,
)
from ccarena.scenarios import real_time

SCENARIO: dict[str, Any] = {
    "duration_s": 1,
    "links": [{"service": {"type": "constant", "rate_mbps": 12}}],
    "flows": [{"scheme": "acct"}],
}


def says(*frames: bytes) -> str:
    """Code that takes the request and writes frames."""
    return f"heard.write(read.readline())\nwrite.write({b''.join(frames)!r})\nwrite.flush()\n"


def gone(pid: int) -> bool:
    """Whether no such process exists, not even as a zombie."""
    return not Path(f"/proc/{pid}").exists()


def test_a_run_and_its_decisions(program: Program) -> None:
    heard = program(
        says(wire.started(), wire.decision(0, 10**9, [1.0], [2.0]))
        + f"heard.write(read.read(12))\nwrite.write({wire.result()!r})"
    )
    with Runner(SCENARIO, environment=True) as runner:
        assert runner.flows[0]["congestion_control"] == "cca.hold.1"
        due = runner.wait()
        assert due is not None and due.observation.tolist() == [1.0]
        with pytest.raises(RunnerError, match="not over"):
            _ = runner.result
        runner.act(due.flow, 7)
        assert runner.wait() is None
        assert runner.wait() is None
    assert runner.result["flows"][0]["reports"].shape == (2, 3)
    assert gone(runner.pid)
    request, _, answer = heard.read_bytes().partition(b"\n")
    assert b'"environment": true' in request and b'"duration_s": 1.0' in request
    assert answer == b"\x00\x00\x00\x00" + b"\x00\x00\x00\x00\x00\x00\x1c\x40"


def test_decisions_that_came_meanwhile_are_drained(program: Program) -> None:
    frames = [wire.decision(0, k, [float(k)], []) for k in range(5)]
    heard = program(says(wire.started(), *frames) + f"heard.write(read.read(12))\nwrite.write({wire.result()!r})")
    with Runner(SCENARIO) as runner:
        while not heard.stat().st_size:
            time.sleep(0.01)
        time.sleep(0.1)
        assert [due.time_ns for due in runner.drain()] == [0, 1, 2, 3, 4]
        assert runner.drain() == []
        runner.act(0, 1.0)
        assert runner.wait() is None
        runner.act(0, 1.0)  # an answer to a run that is over is nobody's error


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("scenario", ScenarioError),
        ("trace", TraceError),
        ("policy", PolicyError),
        ("machine", MachineError),
        ("internal", RunnerError),
        ("news", RunnerError),
    ],
)
def test_a_failure_is_the_error_of_its_kind(program: Program, kind: str, error: type[CcarenaError]) -> None:
    program(says(wire.document("E", {"kind": kind, "message": "no root: use sudo"})) + "sys.exit(4)")
    with pytest.raises(error, match="no root: use sudo"):
        run_scenario(SCENARIO)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("read.readline()\nprint('assertion failed: here', file=sys.stderr)\nsys.exit(101)", "code 101.*assertion"),
        (
            says(wire.started()) + "print('first\\nlast', file=sys.stderr, flush=True)\nos.kill(os.getpid(), 9)",
            "signal 9.*: last",
        ),
        (says(wire.started()[:20]), "code 0 before"),
        ("sys.exit(3)", "code 3"),
        (says(wire.decision(0, 1, [], [])), "began with a frame of type Decision"),
        (says(wire.started(), wire.started()) + "time.sleep(60)", "started twice"),
        (says(wire.started(), b"Segmentation fault\n") + "time.sleep(60)", "no frame"),
    ],
)
def test_a_program_that_dies_or_lies(
    program: Program, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    monkeypatch.setattr(real_time, "STOP_S", 1)
    program(code)
    with pytest.raises(RunnerError, match=message):
        run_scenario(SCENARIO)


def test_silence_ends(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program(says(wire.started()) + "time.sleep(600)")
    monkeypatch.setattr(real_time, "SILENCE_S", 0.0)
    monkeypatch.setattr(real_time, "STOP_S", 1)
    begun_s = time.monotonic()
    runner = Runner({**SCENARIO, "duration_s": 0.2})
    with pytest.raises(RunnerError, match="was silent"):
        runner.wait()
    runner.close()
    assert time.monotonic() - begun_s < 5 and gone(runner.pid)


def test_closing_ends_it_wherever_it_is(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program(says(wire.started()) + "read.read()")  # the end of its input tells the program
    runner = Runner(SCENARIO)
    begun_s = time.monotonic()
    runner.close()
    runner.close()
    assert time.monotonic() - begun_s < 1 and gone(runner.pid)
    for use in (runner.wait, lambda: runner.act(0, 1.0)):
        with pytest.raises(RunnerError, match="was closed"):
            use()
    program("import signal\nsignal.signal(15, signal.SIG_IGN)\n" + says(wire.started()) + "time.sleep(600)")
    monkeypatch.setattr(real_time, "STOP_S", 1)
    deaf = Runner(SCENARIO)
    deaf.close()
    assert gone(deaf.pid)


def test_a_forked_child_leaves_the_run_to_its_parent(program: Program) -> None:
    program(says(wire.started()) + "read.read()")
    with Runner(SCENARIO) as runner:
        child = os.fork()
        if child == 0:
            runner.close()
            os._exit(0)
        os.waitpid(child, 0)
        os.kill(runner.pid, 0)


def test_a_run_dies_with_an_interrupted_caller(program: Program) -> None:
    program(says(wire.started()) + "read.read()")
    with pytest.raises(KeyboardInterrupt), Runner(SCENARIO) as runner:
        pid = runner.pid
        os.kill(os.getpid(), signal.SIGINT)
        runner.wait()
    assert gone(pid)


def test_what_cannot_be_run_starts_nothing(program: Program, tmp_path: Path) -> None:
    heard = program(says(wire.started()))
    with pytest.raises(ScenarioError, match='did you mean "acct"'):
        run_scenario({**SCENARIO, "flows": [{"scheme": "akct"}]})
    with pytest.raises(ConfigError, match="unknown traffic"):
        run_scenario(SCENARIO, traffic="iperf")
    for service, where in (
        ({"type": "constant", "rate_mbps": 5001}, "rate_mbps: 5001 Mbit/s"),
        ({"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 1}, {"at_s": 1, "rate_mbps": 6001}]}, "steps: 6001"),
        ({"type": "random_steps", "min_mbps": 1, "max_mbps": 7500, "period_s": 1}, "max_mbps: 7500"),
    ):
        with pytest.raises(ScenarioError, match=rf"links\[0\]\.service\.{where}.*--backend sim"):
            run_scenario({**SCENARIO, "links": [{"service": service}]})
    fast = tmp_path / "fast.trace"
    fast.write_text("1\n" * 500)
    with pytest.raises(ScenarioError, match=r"file: 6016 Mbit/s"):
        run_scenario({**SCENARIO, "links": [{"service": {"type": "trace", "file": str(fast)}}]})
    assert not heard.exists()


def test_no_program_and_one_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    with pytest.raises(CcarenaError, match="ccarena-kernel") as caught:
        run_scenario(SCENARIO)
    assert caught.value.exit_code == 4
    (tmp_path / "ccarena-kernel").write_text("not a program")
    (tmp_path / "ccarena-kernel").chmod(0o755)
    with pytest.raises(MachineError, match="cannot be run"):
        run_scenario(SCENARIO)
