"""Where scenarios run, and what a result says about it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from ccarena.errors import ConfigError, did_you_mean

__all__ = ["BACKENDS", "KERNEL", "SIM", "about", "validity"]

SIM, KERNEL = BACKENDS = ("sim", "kernel")
"""The simulator; Linux TCP over the emulated link (`ccarena.cc_kernel_bridge.run`), in real time."""


def about(backend: str) -> dict[str, Any]:
    """What is recorded of where figures were measured: `backend`, and the `kernel`'s version if it was a real one.

    Raises ConfigError for an unknown backend.
    """
    if backend not in BACKENDS:
        raise ConfigError(f'unknown backend "{backend}"{did_you_mean(backend, BACKENDS)}')
    return {"backend": backend, **({"kernel": platform.release()} if backend == KERNEL else {})}


def validity(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of a real-time run: `valid`, whether the emulator kept its schedule, and `lateness_p99_ms`. Else nothing."""
    machine = result.get("machine")
    if machine is None:
        return {}
    return {"valid": bool(machine["valid"]), "lateness_p99_ms": float(machine["lateness"]["p99_ms"])}
