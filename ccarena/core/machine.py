"""The machine: its operating system, processor and cores. Whatever depends on the operating system asks here."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from ccarena.errors import MachineError

__all__ = ["is_linux", "lines_of", "processor", "require_linux", "usable_cores"]

NAMES = {"Darwin": "macOS"}
"""Names of operating systems that differ from what they call themselves."""


def is_linux() -> bool:
    """Returns whether this is Linux, which alone has TUN devices, network namespaces and BPF."""
    return sys.platform.startswith("linux")


def require_linux(what: str) -> None:
    """Raises MachineError if this is not Linux, which `what` needs."""
    if not is_linux():
        here = NAMES.get(platform.system(), platform.system())
        raise MachineError(
            f"{what} needs Linux, and this is {here}; use a Linux machine or a virtual one (the simulator, "
            "environments, training, evaluations and pages work here)"
        )


def usable_cores() -> int:
    """Returns the number of cores that this process may use; outside Linux all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor() -> str:
    """Returns the processor's model; empty if the system does not say."""
    if is_linux():
        models = [line.partition(":")[2].strip() for line in lines_of("/proc/cpuinfo") if line.startswith("model name")]
        return models[0] if models else ""
    try:
        words = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(words, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def lines_of(path: str) -> list[str]:
    """Returns the lines of a file under /proc; none if it does not exist, as outside Linux."""
    try:
        return Path(path).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
