"""C code of a policy, compiled on this machine and called from Python, for comparison with its other runtimes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import scratch
from ccarena.errors import MachineError
from ccarena.policies import c_source
from ccarena.policies.artifact import Artifact
from ccarena.policies.integer import Integers

__all__ = ["CRuntime", "compiler"]

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared", "-ffreestanding")

_REPLAY = """#include "policy.h"
/* Row by row; every row has a state of its own, which it leaves behind. */
void replay(ccarena_u32 rows, const ccarena_s64 *observations, ccarena_s32 *state, ccarena_s32 *answers,
            ccarena_s32 *outputs);
void replay(ccarena_u32 rows, const ccarena_s64 *observations, ccarena_s32 *state, ccarena_s32 *answers,
            ccarena_s32 *outputs)
{
    static ccarena_s32 values[POLICY_VALUES];
    ccarena_u32 row, i;

    for (row = 0; row < rows; row++) {
        answers[row] = policy_decide(observations + row * POLICY_OBSERVATION, state + row * POLICY_STATE, values);
        for (i = 0; i < POLICY_OUTPUTS; i++)
            outputs[row * POLICY_OUTPUTS + i] = values[POLICY_OUTPUT + i];
    }
}
"""


def compiler() -> str | None:
    """Returns the C compiler: the one in CC, else the first of cc, gcc and clang on PATH; None if there is none."""
    return next(
        (found for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and (found := shutil.which(name))), None
    )


class CRuntime:
    """Compiled policy."""

    def __init__(self, policy: Artifact, observations: NDArray[np.float32]) -> None:
        """Compiles the policy. Raises PolicyError if it has no integer form, MachineError without a C compiler."""
        command = compiler()
        if command is None:
            raise MachineError("no C compiler: neither cc, gcc nor clang is on PATH; install one, or name it in CC")
        self._outputs = policy.interface.outputs
        with scratch() as folder:
            # The network alone is compared with other runtimes, which answer without a guard.
            c_source.write(replace(policy, guard={}), observations, folder, "policy")
            Path(folder, "replay.c").write_text(_REPLAY, "utf-8")
            compile_c([command, *FLAGS, "policy.c", "replay.c", "-o", "policy.so"], folder)
            # The library stays mapped when its file is gone.
            self._library = ctypes.CDLL(str(Path(folder, "policy.so")))

    def __call__(self, raw: Integers, state: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns answers `[N]` and outputs `[N, outputs]` for raw observations; `state` `[N, state]` is updated in
        place.
        """
        raw = np.ascontiguousarray(raw, np.int64)
        answers = np.zeros(len(raw), np.int32)
        outputs = np.zeros((len(raw), self._outputs), np.int32)
        arrays = (raw, state, answers, outputs)
        self._library.replay(ctypes.c_uint32(len(raw)), *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays))
        return answers, outputs


def compile_c(command: Sequence[str], folder: str | Path) -> None:
    """Runs the compiler in `folder`. Raises MachineError with the compiler's message."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(f"{command[0]} does not compile the policy: {done.stderr.strip()}")
