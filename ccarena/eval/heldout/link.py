"""Link of a link set, and the scenario of an entrant over it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ccarena.scenarios.entrants import Entrant

__all__ = ["LEAGUE", "LEAGUE_CELLULAR", "PACKET_BYTES", "TRACES", "Link", "bdp_packets", "scenario"]

LEAGUE = "league"
"""Link set of `ccarena.eval.heldout.league`."""
LEAGUE_CELLULAR = "league, cellular"
"""Group of its recorded links."""
TRACES = "traces"
"""Link set of the traces that a user names."""
PACKET_BYTES = 1500


@dataclass(frozen=True)
class Link:
    """Link of a link set, for one seed."""

    link_set: str
    name: str
    """Name without the seed: rows of one name are repetitions."""
    seed: int
    duration_s: float
    delay_ms: float
    """One-way propagation; the base RTT is twice that."""
    buffer_packets: int
    service: dict[str, Any]
    """Service of the scenario's `links[0]`."""
    group: str = ""
    """Group that an expectation refers to: the link set, and for cellular the buffer."""
    synthetic: bool = False
    """The link replaces a recorded trace that was not found."""
    back: dict[str, Any] | None = None
    """Service of the link that acknowledgements cross; None is pure delay."""
    router: bool | dict[str, Any] = True
    """Router of the scenario's `links[0]`, which advertises a rate."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of the scenario's `links[0]`."""
    others: Sequence[Mapping[str, Any]] = ()
    """Flows of the scenario beside the entrant's, which comes first. Bounds of a lone sender are then not run."""
    start_s: float = 0.0
    """Start of the entrant's flow."""
    copies: Sequence[Mapping[str, Any]] = ()
    """Further flows of the entrant: the fields in which they differ from its first one."""
    shared: Literal["", "own", "rival", "short"] = ""
    """Flows of the league that share the link: the entrant's own, one of another scheme, or short ones."""
    pictured: bool = True
    """Pages draw its runs over time and repeat them in the browser."""

    @property
    def base_rtt_ms(self) -> float:
        """Returns the round-trip propagation delay."""
        return 2.0 * self.delay_ms

    @property
    def capacity_window_ms(self) -> float:
        """Returns the window over which capacity must be counted to be known: the router's 100 ms on a trace,
        else 0.
        """
        return 100.0 if self.recorded or "conditions" in self.more else 0.0

    @property
    def recorded(self) -> bool:
        """Returns whether its capacity is a trace's, or replaces one."""
        return self.link_set.startswith("cellular") or self.link_set == TRACES or self.group == LEAGUE_CELLULAR

    @property
    def alone(self) -> bool:
        """Returns whether the entrant's flow is the only one."""
        return not (self.others or self.copies)

    @property
    def league(self) -> bool:
        """Returns whether it is a link of the league, on which every run has a score."""
        return self.link_set == LEAGUE

    @property
    def services(self) -> list[dict[str, Any]]:
        """Returns the services of both directions that have one."""
        return [self.service, *([self.back] if self.back else [])]


def scenario(link: Link, entrant: Entrant) -> dict[str, Any]:
    """Returns the scenario of a bulk flow of `entrant` over `link`, and the link's other flows after it, with packets
    and reports recorded, in 1 ms bins.
    """
    flow = entrant.as_flow(name="flow0", base_rtt_ms=link.base_rtt_ms)
    flow |= {"start_s": link.start_s} if link.start_s else {}
    queue = {"type": "droptail", "packets": link.buffer_packets}
    one_way = {"queue": queue, "delay_ms": link.delay_ms}
    links = [{"name": "bottleneck", "service": link.service, "router": link.router, **one_way, **link.more}]
    if link.back is not None:
        links.append({"name": "back", "service": link.back, **one_way})
        flow |= {"path": ["bottleneck"], "return_path": ["back"]}
    return {
        "version": 1,
        "duration_s": link.duration_s,
        "seed": link.seed,
        "links": links,
        "flows": [flow, *({**flow, **fields} for fields in link.copies), *link.others],
        "record": {"packets": True, "reports": entrant.policy is not None, "bin_ms": 1},
    }


def bdp_packets(rate_mbps: float, rtt_ms: float) -> int:
    """Returns packets of 1500 bytes in one bandwidth-delay product, rounded up, and at least 32.

    Below 32, the figures would mostly show the burst of an initial window and its delayed ACKs.
    """
    return max(32, math.ceil(rate_mbps * rtt_ms * 125.0 / PACKET_BYTES))
