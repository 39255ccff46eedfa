"""Marks of figures whose code has changed since they were measured."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ccarena.core.measurements import Source

__all__ = ["CHANGED", "FOLDERS", "UNKNOWN", "mark"]

CHANGED = "†"
UNKNOWN = "‡"

_SIMULATOR = ("crates/ccarena-cc/src", "crates/ccarena-net/src", "crates/ccarena-sim/src")
_BATCHES = (*_SIMULATOR, "crates/ccarena-py/src", "ccarena/envs")
_POLICIES = (*_BATCHES, "ccarena/policies", "ccarena/agents", "ccarena/configs")
_EMULATOR = ("crates/ccarena-net/src", "crates/ccarena-link/src")
_KERNEL = ("crates/ccarena-cc/src", *_EMULATOR, "crates/ccarena-kernel/src", "crates/ccarena-kernel/build.rs")

FOLDERS: Mapping[str, tuple[str, ...]] = {
    "simulator": (*_SIMULATOR, "bench/simulator.py"),
    "training": (*_POLICIES, "bench/training.py", "bench/saturation.py"),
    "leaderboard": (*_SIMULATOR, "ccarena/eval/leaderboard", "ccarena/eval/measure", "bench/leaderboard.py"),
    "realtime": (*_EMULATOR, "bench/realtime.py"),
    "bridge": (*_KERNEL, "ccarena/cc_kernel_bridge", "bench/realtime.py"),
    "kernel": (*_KERNEL, "bench/kernel.py"),
    "quic": ("crates/ccarena-cc/src", *_EMULATOR, "crates/ccarena-quic/src", "ccarena/quic", "bench/quic.py"),
    "web": (*_SIMULATOR, "crates/ccarena-web/src", "crates/ccarena-web/page/src", "bench/web.py"),
    "fidelity": (*_SIMULATOR, *_KERNEL, "ccarena/eval/fidelity", "ccarena/eval/measure"),
    "learned": (*_POLICIES, "ccarena/eval/heldout", "ccarena/eval/measure"),
    "papers": (*_SIMULATOR, "ccarena/eval/reproduce", "ccarena/eval/suites", "ccarena/eval/measure"),
}
"""Folders and files that the figures of each group measure, from the repository's root."""


def mark(group: str, source: Source, root: Path | None = None) -> str:
    """Returns CHANGED if files that a group measures differ from the commit at which a figure was recorded.

    UNKNOWN if that cannot be told: the source names no commit, or one that is not in this clone, or a tree with changes
    that no commit has. Else nothing.
    """
    return _mark(group, source.version, root or Path(__file__).parents[1])


@functools.cache
def _mark(group: str, version: str, root: Path) -> str:
    named = re.fullmatch(r"[^+]+\+([0-9a-f]{7,40})(-dirty)?", version)
    if named is None:
        return UNKNOWN
    commit, dirty = named.groups()
    command = ["git", "-C", str(root), "diff", "--quiet", commit, "--", *FOLDERS[group]]
    code = subprocess.run(command, capture_output=True, check=False).returncode
    return {0: UNKNOWN if dirty else "", 1: CHANGED}.get(code, UNKNOWN)
