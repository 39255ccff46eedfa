"""Names of the kernel's congestion controls."""

from pathlib import Path

_ALL = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> set[str]:
    """Returns those for all of the machine. Those of a run, `cca.…`, come and go with it."""
    return {name for name in _ALL.read_text().split() if not name.startswith("cca.")}


def of_process(pid: int) -> list[str]:
    """Returns those that a process has loaded for its run."""
    return [name for name in _ALL.read_text().split() if name.endswith(f".{pid}")]
