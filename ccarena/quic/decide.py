"""Policy inside QUIC's datapath, on recorded observations: a client of `ccarena-quic decide`."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import scratch
from ccarena.core.programs import QUIC, find
from ccarena.errors import PolicyError
from ccarena.policies.interface import continuous

__all__ = ["decide"]

LIMIT_S = 300.0


def decide(artifact: bytes, observations: NDArray[np.float32], starts: NDArray[np.bool_]) -> tuple[NDArray[Any], float]:
    """Returns actions for raw observations `[decisions, flows, length]`, row by row, and ns per decision.

    They are `[N]`, or `[N, numbers]` if an action has several.

    Where `starts[decision, flow]` is true, the policy's memory is reset. Raises PolicyError if the program refuses the
    artifact and MachineError if the program is missing.
    """
    head = json.dumps({"decisions": observations.shape[0], "flows": observations.shape[1]}).encode() + b"\n"
    recording = head + starts.astype(np.uint8).tobytes() + observations.astype("<f4").tobytes()
    with scratch() as folder:
        file = folder / "policy.safetensors"
        file.write_bytes(artifact)
        program = [str(find(QUIC)), "decide", str(file)]
        done = subprocess.run(program, input=recording, capture_output=True, timeout=LIMIT_S)
    if done.returncode:
        raise PolicyError(f"QUIC does not run this policy: {done.stderr.decode(errors='replace').strip()}")
    told, _, actions = done.stdout.partition(b"\n")
    rows = np.frombuffer(actions, "<f4").reshape(starts.size, -1)
    return continuous(rows), float(json.loads(told)["ns_per_decision"])
