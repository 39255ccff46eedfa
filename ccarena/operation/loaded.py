"""A policy that an operator runs, in the kernel or at a QUIC server: what is in force, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ccarena.errors import RunnerError

__all__ = ["Loaded", "Place", "read_loaded"]


@dataclass(frozen=True)
class Loaded:
    """Policy in force under a name, and its counters since it is in force, over all connections."""

    name: str
    """Name in the kernel for `TCP_CONGESTION`, or at a server for its clients."""
    scheme: str
    spec: str
    """Digest of the scheme's spec."""
    policy: str
    """Origin of the policy."""
    sha256: str
    """Digest: in the kernel of the policy's image, which `ccarena export --to kernel` prints, too; at a server of its
    file."""
    generation: int
    """Number of the policy among those that this name has had, from 1."""
    before: str | None
    """Digest of the policy that this one replaced, to which `rollback` returns."""
    fallback: str
    """Scheme in the policy's place: `cubic` in the kernel."""
    shadow: bool
    """The policy decides, and the fallback acts."""
    share: float
    """Share of connections that get the policy, by hash."""
    cgroup: int
    """Inode of the cgroup whose sockets get the policy; 0 for any, as at a server."""
    to: str | None
    """Prefix of the remote addresses that get the policy; None for any."""
    guard: int
    """Decisions in a row, outside the guard's box or training, that hand a connection back; 0: none do."""
    option: bool
    """Sockets write, read and echo ACCT's TCP option."""
    age_s: float
    """Time since the name was loaded."""
    sockets: int
    """Number of open connections that have chosen it."""
    periods: int | None
    """Number of periods; None at a server, which does not count them."""
    decisions: int
    ns_per_decision: float | None
    """Mean time of a decision, signals included; 0 before the first, None at a server."""
    ns_most: int | None
    """Time of the longest decision since the name was loaded; None at a server."""
    clamps: int
    """Number of decisions with an entry of the observation beyond the policy's limits."""
    outside: int
    """Number of decisions on an observation outside the range in training; 0 if the policy does not store the range."""
    held: int | None
    """Number of decisions whose action was held back, by the window limit for instance; None at a server."""
    missed: int
    """Number of decisions for which the CPU had no buffer left; the previous action stayed in force."""
    handed_back: int
    """Number of connections that were handed back to the fallback."""
    compared: int
    """Number of decisions in shadow mode that were compared with the fallback."""
    agreed: int
    """Number of these whose rate was within 10 % of the fallback's."""
    cases: dict[str, float]
    """Shares of periods by the reasoner's case; empty for other clocks, and at a server."""
    zones: dict[str, float]
    """Shares of periods by ACCT's zone; empty over other bases, and at a server."""

    @property
    def traffic(self) -> str:
        """Connections that the policy gets, in words: all, none, in shadow, or a share of some."""
        limits = [f"to {self.to}" if self.to else "", f"in cgroup {self.cgroup}" if self.cgroup else ""]
        limited = " ".join(limit for limit in limits if limit)
        if self.shadow:
            return "shadow"
        if self.share in (0, 1) and not limited:
            return "all connections" if self.share else "no connection"
        return f"{100 * self.share:.4g} % of connections {limited}".strip()

    @property
    def agreement(self) -> float | None:
        """Share of the shadow's decisions within 10 % of the fallback's rate; None without one."""
        return self.agreed / self.compared if self.compared else None


class Place(Protocol):
    """Place where policies run: the kernel (`cc_kernel_bridge.policies`) or a server (`quic.server`)."""

    def stats(self, name: str | None = None) -> list[Loaded]:
        """Returns all policies, or `name` alone. Raises MachineError if it is not there."""

    def records(self, name: str, after: int = 0) -> list[dict[str, Any]]:
        """Returns the records of the policy's connections: open ones, and those ended after record `after`."""

    def rollback(self, name: str) -> Loaded:
        """Returns the name to the policy before."""


_FIELDS = (
    *("name", "scheme", "spec", "policy", "sha256", "generation", "before", "option", "age_s"),
    *("fallback", "shadow", "share", "cgroup", "to", "guard"),
    *("sockets", "periods", "decisions", "ns_most", "outside", "held", "missed", "handed_back", "compared", "agreed"),
)


def read_loaded(found: dict[str, Any], program: str) -> Loaded:
    """Returns the policy that `program` describes as `found`. Raises RunnerError if it is not understood."""
    try:
        fields = {key: found[key] for key in _FIELDS}
        mean = None if found["ns"] is None else found["ns"] / max(found["decisions"], 1)
        cases = {name: count for name, count in found["cases"].items() if name != "none"}
        return Loaded(
            **fields,
            ns_per_decision=mean,
            clamps=found["beyond"],
            cases=_shares(cases),
            zones=_shares(found["zones"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RunnerError(f"{program}'s answer is not understood: {str(found)[:200]!r}") from error


def _shares(counts: dict[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}
