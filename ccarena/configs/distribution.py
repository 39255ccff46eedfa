"""Link distribution of training: bottlenecks that an episode draws, and the flows that share them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ccarena.configs.sections import Count, IntPair, Pair, Range, Section


class LinkKinds(Section):
    """Relative weights of the kinds of bottleneck capacity, at least one of which is positive."""

    constant: float = Field(0.0, ge=0)
    """Weight of links with one rate, drawn from `rate_mbps`."""
    random_steps: float = Field(0.0, ge=0)
    """Weight of links with a new rate from `rate_mbps` every `step_s`."""
    cellular: float = Field(0.0, ge=0)
    """Weight of synthetic cellular links, one of `presets`."""
    trace: float = Field(0.0, ge=0)
    """Weight of recorded traces, one of `traces`."""
    conditions: float = Field(0.0, ge=0)
    """Weight of conditions traces, one of `conditions`. What a trace lacks (rate, delay or loss) is drawn."""
    wifi: float = Field(0.0, ge=0)
    """Weight of Wi-Fi links, with parameters from `wifi` and frames at a rate from `rate_mbps`."""
    grants: float = Field(0.0, ge=0)
    """Weight of links that send in granted slots, with parameters from `grants` and a rate from `rate_mbps`."""
    adversarial: float = Field(0.0, ge=0)
    """Weight of scenarios that attacks have found, one of `adversarial` (docs/attack.md)."""
    model: float = Field(0.0, ge=0)
    """Weight of satellite, 5G, Wi-Fi and cable links, whose rate, delay and loss one of `models` draws."""

    @model_validator(mode="after")
    def _some_weight(self) -> LinkKinds:
        if sum(self.model_dump().values()) <= 0:
            raise ValueError("all weights are 0; give at least one kind of link a positive weight")
        return self


class Augment(Section):
    """Changes to a recorded trace, so that few recordings stand for many links.

    A piece is cut, stretched in time, thinned or repeated to another rate, put on a coarser clock, and given outages.
    """

    length_s: Annotated[Pair, Range(1, 600)] = (60.0, 60.0)
    """Length of the piece that is cut, s, before stretching. It starts anywhere in the recording and repeats."""
    stretch: Annotated[Pair, Range(0.1, 10)] = (0.5, 2.0)
    """Factor on its times."""
    mean_mbps: Annotated[Pair, Range(0.01, 1000)] = (0.2, 20.0)
    """Mean rate after random opportunities are dropped or repeated, Mbit/s."""
    grid_ms: Annotated[Pair, Range(1, 1000)] = (1.0, 8.0)
    """Times are rounded up to multiples of this, ms."""
    outages: float = Field(0.5, ge=0, le=1)
    """Probability that outages are added."""
    outage_every_s: Annotated[Pair, Range(0.01, 3600)] = (2.0, 30.0)
    """Mean time between two outages, s."""
    outage_s: Annotated[Pair, Range(0.001, 60)] = (0.05, 1.0)
    """Mean length of an outage, s."""
    outage_mbps: Annotated[Pair, Range(0, 1000)] = (0.0, 0.0)
    """Rate during an outage, Mbit/s, in evenly spaced packets: 0.012 is a packet per second."""


class RouterConfig(Section):
    """Faults of the router (docs/scenario.md, routers): each episode draws it, uniformly within each range."""

    every_ms: Annotated[Pair, Range(0, 10_000)] = (0.0, 0.0)
    """Time between two measurements of the capacity, ms."""
    late_ms: Annotated[Pair, Range(0, 10_000)] = (0.0, 0.0)
    """Age of the measurement that is offered, ms."""
    noise: Annotated[Pair, Range(0, 0.99)] = (0.0, 0.0)
    """Largest relative error of a measurement."""
    bits: Annotated[IntPair, Range(0, 64, integer=True)] = (0, 0)
    """Significant bits of the rate that are written; 0 is all."""
    missing: Annotated[Pair, Range(0, 1)] = (0.0, 0.0)
    """Share of measurements that are skipped; packets then keep their rate."""
    single: float = Field(0.0, ge=0, le=1)
    """Probability that a router lacks only one of these, each equally often. Errors and gaps keep their `every_ms`."""


class AttackConfig(Section):
    """Attacks on the policy during its training: an automatic curriculum (docs/attack.md).

    Every `every_decisions`, the current policy is attacked, and worlds begin new episodes with the new finds.
    """

    every_decisions: Count = Field(500_000, ge=1)
    """Decisions between two attacks; the first one is after as many."""
    candidates: int = Field(120, ge=1, le=1_000_000)
    """Links that an attack tries."""
    each: int = Field(8, ge=1, le=1000)
    """Most finds of one attack and harm that become training links."""
    finds: int = Field(24, ge=1, le=10_000)
    """Most finds that are drawn at a time; the oldest are forgotten first."""
    harms: list[str] = Field(["regret"], min_length=1)
    """Harms that attacks look for."""
    space: dict[str, Any] = Field({})
    """Keys of the space of links that differ from the default one."""


class LinkConfig(Section):
    """Distribution of the bottleneck: each episode draws one link from it, uniformly within each range."""

    kinds: LinkKinds = LinkKinds(constant=1.0, random_steps=2.0, cellular=2.0)
    """Weights of the kinds of capacity."""
    rate_mbps: Annotated[Pair, Range(0.1, 10_000)] = (5.0, 100.0)
    """Capacity of constant and stepped links, and rate of frames and slots of wifi and grants links, Mbit/s."""
    step_s: Annotated[Pair, Range(0.01, 3600)] = (2.0, 6.0)
    """Time between two steps, s."""
    presets: Literal["auto"] | list[str] = "auto"
    """Names of synthetic cellular presets (`ccarena traces list`); `auto` is all that are not fitted to tested or
    validation recordings."""
    traces: Literal["auto"] | list[str] = "auto"
    """Names or files of recorded traces; `auto` is every trace in CCARENA_TRACE_DIR and the other trace folders,
    without tested and validation recordings. If none is left, such links are not drawn."""
    models: Literal["auto"] | list[str] = "auto"
    """Names of link models (`ccarena traces list`) or of their families (`satellite`, `5g`, `wifi`, `cable`); `auto` is
    all. A model gives the link's rate, base RTT and loss, in place of `rtt_ms` and `loss`."""
    conditions: list[str] = Field([])
    """Names or files of conditions traces (docs/traces.md). An episode starts somewhere in one. Its base RTT is twice
    the trace's least delay."""
    adversarial: list[str] = Field([])
    """Folders of `ccarena attack`, or scenario files. An episode has the links, the other flows and the length of one;
    learners take the place of its first flow."""
    attack: AttackConfig | None = None
    """Attacks during the training, whose finds join `adversarial`; null is none."""
    wifi: dict[str, Annotated[Pair, Range(0, 1e9)]] = Field(
        {"packets": (8, 64), "busy_us": (0, 2000), "retry": (0, 0.3)}
    )
    """Ranges of parameters of wifi links (docs/scenario.md), drawn uniformly; others have their defaults."""
    grants: dict[str, Annotated[Pair, Range(0, 1e9)]] = Field(
        {"slot_ms": (0.5, 5), "request_ms": (0, 10), "grant_ms": (2, 12)}
    )
    """The same of grants links."""
    augment: Augment | None = None
    """Changes to a recorded trace each time it is drawn; null keeps it."""
    uplinks: float = Field(0.0, ge=0, le=1)
    """Probability that acknowledgements cross another recorded trace, at its recorded rate."""
    delayed_acks: float = Field(1.0, ge=0, le=1)
    """Probability that receivers delay acknowledgements."""
    rtt_ms: Annotated[Pair, Range(0.1, 10_000)] = (10.0, 100.0)
    """Round-trip propagation delay, ms."""
    queues: list[dict[str, Any]] = Field([{"type": "droptail"}], min_length=1)
    """Queue disciplines, as `queue` of a scenario's link (docs/scenario.md); each is drawn equally often. If a
    discipline needs a limit and has none here, the limit is drawn from `buffer_bdp` or `buffer_packets`."""
    buffer_bdp: Annotated[Pair, Range(0.01, 1000)] = (0.5, 4.0)
    """Limit of the queue in bandwidth-delay products of the drawn rate and RTT; unused if `buffer_packets` is given."""
    buffer_packets: Annotated[IntPair, Range(1, 10_000_000, integer=True)] | None = None
    """Limit of the queue in packets."""
    unlimited: float = Field(0.0, ge=0, le=1)
    """Probability that the queue has no limit, whatever `queues` says."""
    loss: Annotated[Pair, Range(0, 0.5)] = (0.0, 0.0)
    """Probability that a packet is lost before the queue, independently, on lossy links."""
    lossy: float = Field(1.0, ge=0, le=1)
    """Probability that a link is lossy."""
    signal: float = Field(0.9, ge=0, le=1)
    """Probability that the link has ACCT's router, which advertises a rate to the sender."""
    router_headroom: float = Field(1.0, gt=0, le=2)
    """Share of the capacity that the router offers; 1 in the ACCT paper."""
    router: RouterConfig | None = None
    """Faults of the router; null is the paper's router, which knows the capacity at any time."""

    @model_validator(mode="after")
    def _named_lists(self) -> LinkConfig:
        kinds = self.kinds
        for key, weight in (("presets", kinds.cellular), ("traces", kinds.trace), ("models", kinds.model)):
            if weight > 0 and not getattr(self, key):
                raise ValueError(
                    f'"{key}" is an empty list, but links of that kind have a positive weight; name some or give "auto"'
                )
        if self.kinds.conditions > 0 and not self.conditions:
            raise ValueError('"conditions" is empty, but links of that kind have a positive weight; name some traces')
        if kinds.adversarial > 0 and not self.adversarial and self.attack is None:
            raise ValueError(
                '"adversarial" is empty, but links of that kind have a positive weight; name an attack, or let the '
                'training attack itself ("attack: {}")'
            )
        if kinds.adversarial == 0 and self.attack is not None:
            raise ValueError('"attack" has no effect without a weight: give "kinds.adversarial" one, or leave it out')
        return self


class Competitor(Section):
    """Competing flow: its scheme, and keys of a scenario's flow (docs/scenario.md)."""

    scheme: str
    """Scheme of the flow."""
    params: dict[str, float] = Field({})
    """Parameters of the scheme."""
    ecn: bool | Literal["accurate"] | None = None
    """Feedback of congestion marks that it asks for; null is what its scheme needs."""
    l4s: bool = False
    """Flag that its packets leave as ECT(1)."""

    @property
    def flow(self) -> dict[str, Any]:
        """Returns it as a flow of a scenario."""
        return self.model_dump(exclude_defaults=True)


class CrossTraffic(Section):
    """Flows that compete on the same bottleneck."""

    probability: float = Field(0.2, ge=0, le=1)
    """Probability that an episode has competing flows."""
    schemes: list[str | Competitor] = Field(["cubic", "reno"], min_length=1)
    """Schemes of competing flows, drawn uniformly; a scheme that is listed twice is drawn twice as often. `{scheme:
    cubic, ecn: true}` sets keys of the flow, too. `self` is one more flow with the learner's policy, in whole runs only
    (evolution, search of baseline rules, validation scores)."""
    flows: Annotated[IntPair, Range(1, 1000, integer=True)] = (1, 2)
    """Number of competing flows."""
    on_off: float = Field(0.5, ge=0, le=1)
    """Probability that a competing flow is on and off; others always have something to send."""


class EnvConfig(Section):
    """Link distribution of training: worlds with one bottleneck and one or several learning flows."""

    worlds: int = Field(64, ge=1, le=65_536)
    """Worlds that are simulated in parallel; A3C divides them evenly among its workers."""
    learners: int = Field(1, ge=1, le=64)
    """Learning flows per bottleneck. They share one policy; each is a row of the batch."""
    episode_s: Annotated[Pair, Range(0.1, 86_400)] = (10.0, 30.0)
    """Length of an episode in simulated time, s."""
    desired_mbps: float = Field(10_000.0, gt=0, le=1_000_000)
    """Rate that the application wants, Mbit/s: an ACCT sender's request, which routers lower."""
    drawn: dict[str, Annotated[Pair, Range(-1e9, 1e9)]] = Field({})
    """Parameters and inputs of the spec to draw for each episode, such as `preference: [0.1, 1]`; log-uniformly if the
    range is above 0."""
    link: LinkConfig = LinkConfig()
    """The bottleneck."""
    cross_traffic: CrossTraffic = CrossTraffic()
    """Other flows on it."""
