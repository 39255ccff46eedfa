"""Runs of a submitted entrant, each in a process of its own with limited time and memory.

`python -m ccarena.eval.leaderboard.trial` is that process. It takes a request in JSON, limits itself before it touches
the entrant, and answers with figures. It runs the simulator alone, writes no file, and ends when its parent stops
waiting.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.core.files import scratch
from ccarena.core.machine import is_linux
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.submission import Claim, SubmissionError

__all__ = ["Limits", "figures_of"]

PACKETS = 0.1
"""Factor on the simulator's own limits (docs/scenario.md) on packets and memory of a run."""
MOST = 1_000_000
"""Highest limit, s or MB."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    cpu_s: int = 120
    memory_mb: int = 2048

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 1 <= value <= MOST:
                raise ConfigError(f"{name} = {value}: expected 1 to {MOST:,}")


def figures_of(entrant: Path, claim: Claim, limits: Limits) -> dict[str, float]:
    """Returns the figures of the policy or module in a file on the link of `claim`. Raises SubmissionError if it
    exceeds `limits`.
    """
    request = {"entrant": str(entrant), "claim": vars(claim), "limits": vars(limits)}
    # No variable of ours but what a run needs: nothing of the caller's session reaches it.
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG") if key in os.environ}
    environment = {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CCARENA_LIMITS": str(PACKETS)}
    at = f"{claim.trace}, {claim.delay_ms:g} ms, {claim.buffer_packets} packets, seed {claim.seed}"
    with scratch() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "ccarena.eval.leaderboard.trial"],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                cwd=folder,
                env=environment,
                timeout=4 * limits.cpu_s + 30,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SubmissionError(f"{at}: it was not done after {4 * limits.cpu_s + 30} s; it was ended") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise SubmissionError(f"{at}: it took more than {limits.cpu_s} s of CPU; it has to decide faster")
    if done.returncode in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS) or "MemoryError" in done.stderr:
        raise SubmissionError(f"{at}: it took more than {limits.memory_mb} MB of memory")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SubmissionError(f"{at}: the run ended with code {done.returncode} and without figures") from None
    if "error" in answer:
        raise SubmissionError(f"{at}: {answer['error']}")
    return {name: float(value) for name, value in answer["figures"].items()}


def _main() -> int:
    request = json.loads(sys.stdin.read())
    limits = Limits(**request["limits"])
    _limit(limits)
    from ccarena.eval.leaderboard.measured_entrant import measure_entrant

    try:
        answer: dict[str, Any] = {"figures": measure_entrant(Path(request["entrant"]), Claim(**request["claim"]))}
    except CcarenaError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
    return 0


def _limit(limits: Limits) -> None:
    memory = [(resource.RLIMIT_AS, limits.memory_mb * 1_000_000)] if is_linux() else []  # others have no such limit
    for kind, most in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        *memory,
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A second more until the kernel kills what does not listen.
        resource.setrlimit(kind, (most, most + 1 if kind == resource.RLIMIT_CPU else most))


if __name__ == "__main__":
    sys.exit(_main())
