"""Runs of scenarios in real time by a program of ours, which takes one request and answers in frames.

Each run is a process with network namespaces of its own: any number of them may run side by side, and whatever a run
has made is gone when its process ends, however it ends.
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
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ccarena import _core
from ccarena.core.programs import find
from ccarena.errors import CcarenaError, MachineError, PolicyError, RunnerError, ScenarioError, TraceError
from ccarena.scenarios.frames import Array, Decision, Decoder, Failure, Result, Started, assemble
from ccarena.scenarios.scenario import scenario_json
from ccarena.traces import conditions, models

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HONEST_MBPS", "LATENESS_BOUND_MS", "RealTimeRun", "check_rates"]

HONEST_MBPS = 5000.0
"""Fastest link that the emulator serves on schedule; faster ones are refused."""
LATENESS_BOUND_MS = 1.0
"""The largest 99th percentile of a link's lateness in a valid run."""

START_S = 20.0
"""Time limit for setting up a run."""
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


class RealTimeRun:
    """One run of a scenario document by `program`; the flows start when the constructor returns.

    `request` is what the program takes besides the scenario and `lateness_bound_ms`.
    """

    def __init__(
        self,
        program: str,
        document: Mapping[str, Any],
        *,
        lateness_bound_ms: float = LATENESS_BOUND_MS,
        **request: Any,
    ) -> None:
        scenario = json.loads(_core.validate_scenario(scenario_json(document)))
        check_rates(scenario)
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
        request = {"scenario": scenario, "lateness_bound_ms": lateness_bound_ms, **request}
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
        """Process id of the run."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Returns whether the run has ended with a result."""
        return self._result is not None

    @property
    def result(self) -> dict[str, Any]:
        """Result of a finished run, laid out as `ccarena._core.simulate`'s, with the key `machine`.

        `machine.valid` is False if the emulator's p99 lateness was above `lateness_bound_ms`.
        """
        if self._result is None:
            raise RunnerError("the run is not over: there is no result yet")
        return self._result

    def wait(self) -> Decision | None:
        """Waits for the next decision that is due; None when the run is over.

        Raises ScenarioError, TraceError, PolicyError, MachineError or RunnerError.
        """
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
                raise RunnerError(f"{self._program} started twice")

    def drain(self) -> list[Decision]:
        """Returns the decisions that have become due since the last `wait`, without waiting for more."""
        came = []
        while self._result is None and (self._frames or self._readable(0.0)):
            due = self.wait()
            came += [due] if due is not None else []
        return came

    def to_its_end(self) -> dict[str, Any]:
        """Waits for the end of the run, and returns its `result`. Raises what `wait` does."""
        while self.wait() is not None:
            pass
        return self.result

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

    def __enter__(self) -> Self:
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
        """The next frame; a failure is raised."""
        while not self._frames:
            if self._process.stdout is None or self._process.stdout.closed:
                raise RunnerError("the run was closed")
            if not self._readable(max(0.0, self._deadline_s - time.monotonic())):
                raise RunnerError(
                    f"{self._program} was silent until {SILENCE_S:g} s after the run's end and was stopped; is the "
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


def check_rates(scenario: Mapping[str, Any]) -> None:
    """Raises ScenarioError if a link of the normalised document is faster than `HONEST_MBPS`."""
    for index, link in enumerate(scenario["links"]):
        rate_mbps, field = _fastest_mbps(link)
        if rate_mbps > HONEST_MBPS:
            raise ScenarioError(
                f"links[{index}].{field}: {rate_mbps:g} Mbit/s; the emulator keeps its schedule up to "
                f"{HONEST_MBPS:g} Mbit/s: take a slower link, or the simulator (--backend sim)"
            )


def _fastest_mbps(link: Mapping[str, Any]) -> tuple[float, str]:
    service = link["service"]
    kind = service["type"]
    if kind == "constant":
        return service["rate_mbps"], "service.rate_mbps"
    if kind == "steps":
        return max(step["rate_mbps"] for step in service["steps"]), "service.steps"
    if kind == "random_steps":
        return service["max_mbps"], "service.max_mbps"
    if kind == "trace":
        opportunities_ms = _core.read_trace(Path(service["file"]))
        return len(opportunities_ms) * 1504 * 8e-3 / max(1, int(opportunities_ms[-1])), "service.file"
    if kind == "conditions" and "model" in link["conditions"]:
        return models.fastest_mbps(link["conditions"]), "conditions.model"
    if kind == "conditions":
        rates_mbps, _ = conditions.load(link["conditions"]["file"]).weighted("rate_mbps")
        return float(rates_mbps.max()), "conditions.file"
    if "rate_mbps" in service:  # of a medium
        return service["rate_mbps"], "service.rate_mbps"
    if "rate" in service:
        rate_mbps, field = _fastest_mbps({**link, "service": service["rate"]})
        return rate_mbps, field.replace("service.", "service.rate.")
    return 0.0, kind  # the generator's presets are all of cellular rates
