"""Policy in the kernel's BPF, run by test runs without a socket or an attached congestion control."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import scratch
from ccarena.core.programs import find
from ccarena.errors import MachineError
from ccarena.policies.artifact import Artifact
from ccarena.policies.integer import IntegerPolicy, Integers

__all__ = ["BpfRuntime"]


class BpfRuntime:
    """Loaded policy, unloaded with this object."""

    spent_ns: int = 0
    """Time of the last batch of decisions, measured in the kernel."""

    def __init__(self, policy: Artifact) -> None:
        """Loads the policy. Raises PolicyError if it has no integer form, MachineError if it does not load here."""
        integer = IntegerPolicy.of(policy)
        self._outputs, self._state = integer.output[1], integer.state
        with scratch() as folder:
            file = folder / "policy.safetensors"
            # The network alone is compared with other runtimes, which answer without a guard.
            replace(policy, guard={}).save(file)
            command = [str(find("ccarena-kernel")), "replay", str(file)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
            # It answers no rows once the policy is loaded, and the file may go.
            self(np.zeros((0, integer.observation), np.int64), np.zeros((0, self._state), np.int32))

    def __call__(self, raw: Integers, state: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns outputs `[N, outputs]` for raw observations; `state` `[N, numbers]` is updated in place."""
        rows = len(raw)
        request = [np.uint32(rows).astype("<u4"), raw.astype("<i8"), state.astype("<i4")]
        answer = self._ask(b"".join(part.tobytes() for part in request), 8 + 4 * rows * (self._outputs + self._state))
        self.spent_ns = int.from_bytes(answer[:8], "little")
        numbers = np.frombuffer(answer[8:], "<i4").astype(np.int32)
        outputs = numbers[: rows * self._outputs].reshape(rows, self._outputs)
        state[...] = numbers[rows * self._outputs :].reshape(state.shape)
        return outputs

    def _ask(self, request: bytes, length: int) -> bytes:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None, "all three are pipes"
        try:
            stdin.write(request)
            stdin.flush()
            answer = stdout.read(length)
        except BrokenPipeError:
            answer = b""
        if len(answer) == length:
            return answer
        said = stderr.read().decode(errors="replace").strip().removeprefix("ccarena-kernel: ")
        raise MachineError(said.splitlines()[0] if said else "ccarena-kernel ended without an answer")

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):  # what was not sent to one that has ended
                    pipe.close()
            process.wait()
