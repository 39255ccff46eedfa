"""Scenarios on real Linux TCP over the emulated link, in real time: a client of `ccarena-kernel run`.

Other programs that take the same request and answer in the same frames can be used too. Each run is a process with its
own network namespaces. Any number of runs may go side by side. Everything that a run has made is removed when its
process ends, however it ends.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ccarena import _core
from ccarena.cc_kernel_bridge.frames import ANSWER, Array, Decision, Decoder, Failure, Result, Started, assemble
from ccarena.core.programs import KERNEL_BRIDGE, find
from ccarena.errors import (
    CcarenaError,
    ConfigError,
    MachineError,
    PolicyError,
    RunnerError,
    ScenarioError,
    TraceError,
    did_you_mean,
)
from ccarena.scenarios.scenario import scenario_json

__all__ = ["HONEST_MBPS", "TRAFFIC", "Runner", "check_rates", "check_traffic", "run_scenario"]

TRAFFIC = ("own", "iperf3")
"""Programs that send and receive: `ccarena-kernel` itself, or a client and a server of iperf3 for each flow."""

HONEST_MBPS = 5000.0
"""Fastest link that the emulator serves on schedule; faster ones are refused."""

START_S = 20.0
"""Time limit for setting up a run, s."""
SILENCE_S = 30.0
"""Time after a run's end after which a silent process is given up, s."""
STOP_S = 3.0
"""Time limit for a process to stop when asked, s."""

ERRORS: dict[str, type[CcarenaError]] = {
    "scenario": ScenarioError,
    "trace": TraceError,
    "policy": PolicyError,
    "machine": MachineError,
}
CHUNK_BYTES = 1 << 20


def run_scenario(
    document: Mapping[str, Any],
    *,
    traffic: str = "own",
    bridge: bool = False,
    in_kernel: bool = False,
    lateness_bound_ms: float = 1.0,
) -> dict[str, Any]:
    """Runs a scenario document in real time. The result has the layout of `ccarena._core.simulate`'s.

    Its key `machine` describes the run: `valid` is False if the emulator's p99 lateness was above `lateness_bound_ms`.

    Arguments:
        traffic: the program that sends, one of `TRAFFIC`.
        bridge: run CUBIC, BBR and Reno of this package too, driven from user space, instead of the kernel's own.
        in_kernel: learned flows with a policy decide in the kernel.

    Raises ScenarioError, TraceError, PolicyError, MachineError or RunnerError.
    """
    with Runner(
        document, traffic=traffic, bridge=bridge, in_kernel=in_kernel, lateness_bound_ms=lateness_bound_ms
    ) as runner:
        while runner.wait() is not None:
            pass
        return runner.result


class Runner:
    """One run, by `program`. With `environment`, which the kernel's alone has, the caller decides for the flows of a
    learned scheme that have no policy:

        with Runner(document, environment=True) as runner:
            while (due := runner.wait()) is not None:
                runner.act(due.flow, choose(due.observation))
            print(runner.result["flows"])

    The flows start when the constructor returns, with the action that their scheme begins with.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        environment: bool = False,
        traffic: str = "own",
        bridge: bool = False,
        in_kernel: bool = False,
        lateness_bound_ms: float = 1.0,
        program: str = KERNEL_BRIDGE,
    ) -> None:
        scenario = json.loads(_core.validate_scenario(scenario_json(document)))
        check_rates(scenario)
        check_traffic(traffic)
        self._owner = os.getpid()
        self._program = program
        self._decoder = Decoder(program)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._frames: list[Any] = []
        self._result: dict[str, Any] | None = None
        self._errors = tempfile.TemporaryFile()  # unlike a pipe it never fills up
        path = find(program)
        try:
            self._process = subprocess.Popen(
                [path, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise MachineError(f"{path}: cannot be run: {error.strerror}; `make setup` builds it") from error
        self._output = self._process.stdout.fileno() if self._process.stdout else -1
        self._deadline_s = time.monotonic() + START_S
        request = {"scenario": scenario, "lateness_bound_ms": lateness_bound_ms}
        if program == KERNEL_BRIDGE:
            request |= {"environment": environment, "traffic": traffic, "bridge": bridge, "in_kernel": in_kernel}
        try:
            self._write(json.dumps(request).encode() + b"\n")
            started = self._next()
            if not isinstance(started, Started):
                raise RunnerError(f"{program} began with a frame of type {type(started).__name__}")
        except BaseException:
            self.close()
            raise
        self.flows: list[dict[str, Any]] = started.flows
        """`name`, `scheme`, `congestion_control` and `learned` of each."""
        self._deadline_s = time.monotonic() + scenario["duration_s"] + SILENCE_S

    @property
    def pid(self) -> int:
        """Returns the process id of the run."""
        return self._process.pid

    @property
    def result(self) -> dict[str, Any]:
        """Returns the result of a finished run, as `run_scenario` returns it."""
        if self._result is None:
            raise RunnerError("the run is not over: there is no result yet")
        return self._result

    def wait(self) -> Decision | None:
        """Waits for the next decision and returns it; None when the run is over. Raises what `run_scenario` does."""
        if self._result is not None:
            return None
        while True:
            frame = self._next()
            if isinstance(frame, Decision):
                return frame
            if isinstance(frame, Array):
                self._arrays[frame.name] = frame.values
            elif isinstance(frame, Result):
                self._result = assemble(frame, self._arrays)
                self._arrays.clear()
                self.close()
                return None
            else:
                raise RunnerError(f"{self._program} began twice")

    def drain(self) -> list[Decision]:
        """Returns the decisions that have become due since the last `wait`, without waiting for more."""
        came = []
        while self._result is None and (self._frames or self._readable(0.0)):
            due = self.wait()
            came += [due] if due is not None else []
        return came

    def act(self, flow: int, action: float) -> None:
        """Puts `action` in force for flow number `flow`, at once."""
        if self._result is None:
            self._write(ANSWER.pack(flow, action))

    def close(self) -> None:
        """Ends the run at once and removes everything that it created. Closing twice is harmless."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if not self._errors.closed:
            self._errors.close()
        if self._process.returncode is None and os.getpid() == self._owner:  # a fork leaves it to its parent
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def _write(self, data: bytes) -> None:
        if self._process.stdin is None or self._process.stdin.closed:
            raise RunnerError("the run was closed")
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._process.stdin.write(rest) :]
        except BrokenPipeError:
            # What it wrote before it died says why; if it is the result, the run was over before the answer came.
            pass

    def _next(self) -> Any:
        """Returns the next frame; a failure is raised."""
        while not self._frames:
            if self._process.stdout is None or self._process.stdout.closed:
                raise RunnerError("the run was closed")
            if not self._readable(max(0.0, self._deadline_s - time.monotonic())):
                raise RunnerError(
                    f"{self._program} said nothing until {SILENCE_S:g} s after the run's end and was stopped; is the "
                    f"machine overloaded?{self._last_words()}"
                )
            data = os.read(self._output, CHUNK_BYTES)
            if not data:
                self._died()
            self._frames += self._decoder.feed(data)
        frame = self._frames.pop(0)
        if isinstance(frame, Failure):
            if frame.kind in ERRORS:
                raise ERRORS[frame.kind](frame.message)
            raise RunnerError(f"{self._program} failed: {frame.message}; this is a bug in ccarena")
        return frame

    def _readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        return bool(poll.poll(timeout_s * 1e3))

    def _died(self) -> None:
        try:
            code: int | None = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            code = None
        how = "closed its output"
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        raise RunnerError(
            f"{self._program} {how} before the run was over{self._last_words()}; `ccarena doctor` says what this "
            "machine can run"
        )

    def _last_words(self) -> str:
        """Returns the last line that the process wrote to stderr, after a colon; empty if there is none."""
        written = os.pread(self._errors.fileno(), 4096, max(0, os.fstat(self._errors.fileno()).st_size - 4096))
        lines = [line.strip() for line in written.decode(errors="replace").splitlines() if line.strip()]
        return f": {lines[-1]}" if lines else ""


def check_traffic(traffic: str) -> None:
    """Raises ConfigError if the traffic is not one of `TRAFFIC`."""
    if traffic not in TRAFFIC:
        raise ConfigError(f'unknown traffic "{traffic}"{did_you_mean(traffic, TRAFFIC)}')


def check_rates(scenario: Mapping[str, Any]) -> None:
    """Raises ScenarioError if a link of the normalised document is faster than `HONEST_MBPS`."""
    for index, link in enumerate(scenario["links"]):
        rate_mbps, field = _fastest_mbps(link["service"])
        if rate_mbps > HONEST_MBPS:
            raise ScenarioError(
                f"links[{index}].service.{field}: {rate_mbps:g} Mbit/s; the emulator keeps its schedule up to "
                f"{HONEST_MBPS:g} Mbit/s: take a slower link, or the simulator (--backend sim)"
            )


def _fastest_mbps(service: Mapping[str, Any]) -> tuple[float, str]:
    kind = service["type"]
    if kind == "constant":
        return service["rate_mbps"], "rate_mbps"
    if kind == "steps":
        return max(step["rate_mbps"] for step in service["steps"]), "steps"
    if kind == "random_steps":
        return service["max_mbps"], "max_mbps"
    if kind == "trace":
        opportunities_ms = _core.read_trace(Path(service["file"]))
        return len(opportunities_ms) * 1504 * 8e-3 / max(1, int(opportunities_ms[-1])), "file"
    return 0.0, kind  # the generator's presets are all of cellular rates
