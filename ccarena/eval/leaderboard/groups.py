"""Groups of entrants by name, and the board of programs of others: `ccarena leaderboard run --entrants stacks`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard.entrants import default_schemes
from ccarena.scenarios.backends import KERNEL, SIM
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.stacks import installed_stacks, shipped_stacks

__all__ = ["GROUPS", "STACKS", "backend_of", "controls_of_the_kernel", "expand", "not_here"]

STACKS = "stacks"
"""Group of the stacks that are installed, with their first congestion control, and of the running kernel's controls."""
OWN = "ccarena"
"""Name of the kernel bridge's congestion control (crates/ccarena-kernel/src/bpf/bridge.bpf.c)."""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def _stacks() -> list[str]:
    return [*(f"stack:{name}" for name in installed_stacks()), *(f"kernel:{c}" for c in controls_of_the_kernel())]


GROUPS = {
    STACKS: _stacks,
    "schemes": default_schemes,
    "policies": lambda: [f"shipped:{name}" for name in shipped_policies()],
}
"""Functions that list the entrants of a group, by its name."""


def expand(words: Iterable[str]) -> list[str]:
    """Returns the texts of entrants, with those of each group in its place. Raises ConfigError for an empty group."""
    out: list[str] = []
    for word in words:
        members = GROUPS[word]() if word in GROUPS else [word]
        if not members:
            raise ConfigError(f"--entrants {word}: none is here; `ccarena stacks get all` gets stacks of others")
        out += members
    return list(dict.fromkeys(out))


def backend_of(entrants: Iterable[str]) -> str:
    """Returns the backend of a board if none is named: Linux TCP if somebody else's program takes part."""
    return KERNEL if any(parse(text).theirs is not None for text in entrants) else SIM


def not_here(words: Iterable[str]) -> str:
    """Returns a sentence on the stacks of the group `stacks` that cannot run here; empty if there are none."""
    lacking = [stack for stack in shipped_stacks().values() if stack.lacks] if STACKS in words else []
    if not lacking:
        return ""
    names = " ".join(stack.name for stack in lacking)
    return f"Not installed, and not in the table: {names.replace(' ', ', ')}; `ccarena stacks get {names}` gets them."


def controls_of_the_kernel() -> list[str]:
    """Returns the TCP congestion controls that the running kernel has loaded, by their names; none without Linux.

    Leaves out this package's own one, which the kernel has while a daemon of the bridge runs.
    """
    try:
        return sorted(set(_AVAILABLE.read_text().split()) - {OWN})
    except OSError:
        return []
