"""Policies that run in the kernel, and the scheme `pilot`.

Load one as a congestion control, choose which connections it gets, replace it, go back to the one before, read its
counters, unload it.

loaded = load("hyvar")
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, loaded.name.encode())
print(stats(loaded.name)[0].decisions)
unload(loaded.name)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.cc_kernel_bridge.bridge import ask
from ccarena.errors import RunnerError
from ccarena.operation.loaded import Loaded, read_loaded

__all__ = ["MAGIC", "PILOT", "canary", "image", "load", "policy_file", "records", "rollback", "stats", "unload"]

PILOT = "pilot"
"""The scheme that the kernel runs by its law, without a policy. A file or run of this name is given with its folder."""
MAGIC = b"CCCAIMA\0"
"""First bytes of an image from `ccarena export --to kernel`."""


def policy_file(policy: str) -> Path:
    """Returns the file of `policy`: an image, or the file of a policy's name. Raises PolicyError for anything else."""
    from ccarena.policies import artifact
    from ccarena.scenarios.entrants import find_policy

    path = Path(policy)
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return path
    except OSError:
        pass
    found = find_policy(policy)
    artifact.load(found)  # the program's errors are the machine's
    return found


def load(
    policy: str,
    name: str | None = None,
    *,
    unrestricted: bool = False,
    option: Path | None = None,
    desired_mbps: float | None = None,
    params: Mapping[str, float] | None = None,
    shadow: bool = False,
    guard: int | None = None,
) -> Loaded:
    """Makes `policy` (an artifact, a run, a shipped policy, an image or "pilot") the congestion control `name`.

    The default of `name` is the scheme's.

    If a policy of the same scheme is loaded under that name, it is replaced, and open sockets follow at the end of
    their next period.

    Arguments:
        unrestricted: every user may choose it.
        option: sockets of this cgroup write and answer ACCT's TCP option.
        desired_mbps: the rate that they ask for (None: 10,000).
        params: run-time parameters of the spec, or parameters of `pilot`.
        shadow: the policy decides, and CUBIC acts.
        guard: decisions in a row, outside the box of the policy's guard or the range in training, after which CUBIC
            takes a connection over (None: 32, or what is in force for a loaded name; 0: never). `pilot` has none.

    Raises PolicyError for a file that is no policy. Raises MachineError: no root, a kernel that cannot, a spec that
    cannot run in the kernel, or a policy of another scheme. The loaded policy then stays.
    """
    words = [PILOT] if policy == PILOT else [str(policy_file(policy)), "--label", policy]
    words += [] if name is None else ["--as", name]
    words += ["--unrestricted"] if unrestricted else []
    words += [] if option is None else ["--option", str(option)]
    words += [] if desired_mbps is None else ["--desired-mbps", repr(float(desired_mbps))]
    for key, value in (params or {}).items():
        words += ["--param", f"{key}={float(value)!r}"]
    words += ["--shadow"] if shadow else []
    return _loaded(_read(ask("load", *words, *_guard(guard))))


def canary(
    name: str, share: float, *, cgroup: Path | None = None, to: str | None = None, guard: int | None = None
) -> Loaded:
    """Gives the policy `name` the share of connections, from 0 to 1; CUBIC runs the others, under the same name.

    Open connections follow at their next acknowledgement. A connection's hash decides, so a larger share adds
    connections and keeps those that have the policy.

    Arguments:
        cgroup: only sockets that were made in this cgroup (version 2).
        to: only connections to this prefix of addresses.
        guard: as of `load` (None: what is in force).

    Raises MachineError if it is not loaded, or for a share, cgroup or prefix that is none.
    """
    words = [name, "--share", repr(float(share))]
    words += [] if cgroup is None else ["--cgroup", str(cgroup)]
    words += [] if to is None else ["--to", to]
    return _loaded(_read(ask("canary", *words, *_guard(guard))))


def rollback(name: str) -> Loaded:
    """Returns the name to the policy before; open sockets follow at the end of their next period.

    Shadow mode, share and guard stay as they are. A second call returns to the present one. Raises MachineError if it
    is not loaded, or has had one policy only.
    """
    return _loaded(_read(ask("rollback", name)))


def records(name: str, after: int = 0) -> list[dict[str, Any]]:
    """Returns the kernel's records of the policy's connections: open ones, and those ended after record `after`.

    Raises MachineError if it is not loaded.
    """
    return [_read(line) for line in ask("connections", name, "--after", str(after)).splitlines()]


def _guard(guard: int | None) -> list[str]:
    return [] if guard is None else ["--guard", str(guard)]


def unload(name: str | None = None) -> list[str]:
    """Unloads the policy `name`, or all (None); returns their names. Raises MachineError if it is not loaded."""
    return [str(name) for name in _read(ask("unload", *([] if name is None else [name])))["unloaded"]]


def stats(name: str | None = None) -> list[Loaded]:
    """Returns the loaded policies, or `name` alone. Raises MachineError if it is not loaded."""
    return [_loaded(found) for found in _read(ask("stats", *([] if name is None else [name])))]


def image(policy: str, out: Path) -> dict[str, Any]:
    """Writes the image of `policy` to `out` and returns its facts. Raises as `load`; needs no root."""
    manifest: dict[str, Any] = _read(ask("image", str(policy_file(policy)), str(out), "--label", policy))
    return manifest


def _loaded(found: dict[str, Any]) -> Loaded:
    return read_loaded(found, "ccarena-kernel")


def _read(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        raise RunnerError(f"ccarena-kernel's answer is not understood: {answer[:200]!r}") from error
