"""Policies that run in the kernel: load one as a congestion control, replace it, read its counters, unload it.

loaded = load("hyvar")
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, loaded.name.encode())
print(stats(loaded.name)[0].decisions)
unload(loaded.name)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.cc_kernel_bridge.bridge import ask
from ccarena.errors import RunnerError

__all__ = ["MAGIC", "Loaded", "image", "load", "policy_file", "stats", "unload"]

MAGIC = b"CCCAIMA\0"
"""First bytes of an image from `ccarena export --to kernel`."""


@dataclass(frozen=True)
class Loaded:
    """Policy in the kernel, and its counters since its name was loaded, over all sockets."""

    name: str
    """Name of the congestion control, for `TCP_CONGESTION`."""
    scheme: str
    spec: str
    """Digest of the scheme's spec."""
    policy: str
    """Origin of the policy."""
    generation: int
    """Number of the policy among those that this name has had, from 1."""
    option: bool
    """Sockets write, read and echo ACCT's TCP option."""
    age_s: float
    sockets: int
    """Number of sockets that use it now."""
    periods: int
    decisions: int
    ns_per_decision: float
    """Mean time of a decision, signals included; 0 before the first."""
    ns_most: int
    """Time of the longest decision."""
    clamps: int
    """Number of decisions with an entry of the observation beyond the policy's limits."""
    outside: int
    """Number of decisions on an observation outside the range in training; 0 if the policy does not store the range."""
    held: int
    """Number of decisions whose action was held back, by the window limit for instance."""
    missed: int
    """Number of decisions for which the CPU had no buffer left; the previous action stayed in force."""
    cases: dict[str, float]
    """Shares of periods by the reasoner's case; empty for other clocks."""
    zones: dict[str, float]
    """Shares of periods by ACCT's zone; empty over other bases."""


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
) -> Loaded:
    """Makes `policy` (an artifact, a run, a shipped policy or an image) the congestion control `name` (default: the
    scheme's).

    If a policy of the same scheme is loaded under that name, it is replaced, and open sockets follow at the end of
    their next period.

    Arguments:
        unrestricted: every user may choose it.
        option: sockets of this cgroup write and answer ACCT's TCP option.
        desired_mbps: the rate that they ask for (None: 10,000).
        params: run-time parameters of the spec.

    Raises PolicyError for a file that is no policy. Raises MachineError: no root, a kernel that cannot, a spec that
    cannot run in the kernel, or a policy of another scheme. The loaded policy then stays.
    """
    words = [str(policy_file(policy)), "--label", policy]
    words += [] if name is None else ["--as", name]
    words += ["--unrestricted"] if unrestricted else []
    words += [] if option is None else ["--option", str(option)]
    words += [] if desired_mbps is None else ["--desired-mbps", repr(float(desired_mbps))]
    for key, value in (params or {}).items():
        words += ["--param", f"{key}={float(value)!r}"]
    return _loaded(_read(ask("load", *words)))


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


def _read(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        raise RunnerError(f"ccarena-kernel's answer is not understood: {answer[:200]!r}") from error


def _loaded(found: dict[str, Any]) -> Loaded:
    try:
        fields = {key: found[key] for key in ("name", "scheme", "spec", "policy", "generation", "option", "age_s")}
        counts = {key: found[key] for key in ("sockets", "periods", "decisions", "ns_most", "held", "missed")}
        mean = found["ns"] / found["decisions"] if found["decisions"] else 0.0
        cases = {name: count for name, count in found["cases"].items() if name != "none"}
        return Loaded(
            **fields,
            **counts,
            ns_per_decision=mean,
            clamps=found["beyond"],
            outside=found["outside"],
            cases=_shares(cases),
            zones=_shares(found["zones"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RunnerError(f"ccarena-kernel's answer is not understood: {str(found)[:200]!r}") from error


def _shares(counts: dict[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}
