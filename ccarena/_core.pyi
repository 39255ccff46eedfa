"""The native extension: the simulator, its worlds for training, policies and traces. Built from `crates/ccarena-py`.

Arrays that a method fills must be C-contiguous and of the stated type and shape; nothing is converted or copied.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

def check_json(text: str, origin: str) -> None:
    """Raises ConfigError, with line and column, if `text` is not JSON or an object in it has a key twice."""

def check_rules(text: str, origin: str) -> int:
    """Returns how many rules a rule file for scheme `remy` has. Raises PolicyError with `origin` and the field at
    fault, or with a memory that no rule covers.
    """

def simulate(
    scenario_json: str,
    make: Callable[[int, str, dict[str, Any]], Any] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Runs a scenario document in virtual time and returns its record (docs/results.md).

    The GIL is released meanwhile, unless a flow's controller is a Python class, of which `make(flow, class, facts)`
    returns an instance. Raises ScenarioError, TraceError or PolicyError, and ControllerError if a user's controller
    raises. Raises KeyboardInterrupt after Ctrl-C in the main thread; in others as soon as `stopped()` is true.
    """

def result_digest(scenario_json: str) -> str:
    """Returns the SHA-256 of the result of a run in virtual time, of its figures and of the arrays that the scenario
    records: the one that a web page shows for the same scenario.

    Raises ScenarioError, TraceError or PolicyError; KeyboardInterrupt after Ctrl-C.
    """

def module_about(module: bytes | str | PathLike[str]) -> dict[str, Any]:
    """Checks and compiles a WebAssembly controller, bytes or a file, and returns what it says about itself.

    `name`, `summary`, `params` (each with `name`, `unit`, `doc`, `default`, `min`, `max`), `exports`, `random`,
    `owns_recovery`, `every_segment`, `rate_samples`, `memory_bytes`, `module_bytes` and `digest` (SHA-256). Raises
    ConfigError if no such module runs here.
    """

class Ack:
    """Acknowledgement, as `Controller.on_ack` gets it."""

    now_s: float
    """Time of the simulation, s."""
    acked_packets: int
    """Packets that it reports as delivered for the first time."""
    acked_bytes: int
    """Payload of these packets."""
    rtt_ms: float | None
    """RTT of the newest packet among them; None if all were retransmitted."""
    min_rtt_ms: float | None
    """Smallest RTT so far; None before a sample."""
    srtt_ms: float | None
    """Smoothed RTT (RFC 6298); None before a sample."""
    in_flight_packets: float
    """Packets in flight after it; losses that it reveals are taken off."""
    in_flight_before_packets: float
    """Packets in flight before it."""
    delivered_bytes: int
    """Payload delivered in all, this acknowledgement included."""
    lost_packets: float
    """Packets newly marked lost by it."""
    delivery_rate_mbps: float | None
    """Delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation); None without one."""
    app_limited: bool
    """Whether the application limited the sample, and not the window."""
    window_limited: bool
    """Whether the window limited sending in the last round trip (Linux's `is_cwnd_limited`)."""
    recovery: str
    """Loss recovery after it: "open", "reduction" (after an ECN echo), "recovery" or "loss" (after a timeout)."""
    marked_packets: int
    """Packets that it reports as marked by routers (ECN)."""
    acked_to: int
    """First byte that is not yet cumulatively acknowledged."""
    sent_to: int
    """First byte that is not yet sent."""

class Loss:
    """Packets marked lost, a timeout, or a congestion mark, as `Controller.on_loss` gets it."""

    now_s: float
    """Time of the simulation, s."""
    lost_packets: int
    """Packets newly marked lost."""
    lost_bytes: int
    """Payload of these packets."""
    in_flight_packets: float
    """Packets in flight after the marking."""
    delivered_bytes: int
    """Payload delivered in all."""
    new_episode: bool
    """Whether it is the first loss of a recovery episode: multiplicative decrease answers this one."""
    timeout: bool
    """Whether the retransmission timer expired; everything in flight counts as lost."""
    marked: bool
    """Whether it is an ECN echo instead of a loss, once per window of data (RFC 3168)."""
    sent_to: int
    """First byte that is not yet sent."""

class Sent:
    """Packet that leaves, as `Controller.on_sent` gets it."""

    now_s: float
    """Time of the simulation, s."""
    bytes: int
    """Payload of the packet."""
    in_flight_packets: float
    """Packets in flight before it."""
    app_limited: bool
    """Whether the application, and not the window, has limited sending."""
    retransmission: bool
    """Whether the same data was sent before."""
    sent_to: int
    """First byte that is not yet sent, this packet excluded."""

def drive(scenario_json: str, acks: int) -> None:
    """Drives the controller of a scenario's first flow with made-up acknowledgements, for measuring what they cost.

    Nobody decides for a learned scheme. Raises ScenarioError.
    """

def validate_scenario(scenario_json: str) -> str:
    """The normalised document, every default filled in (docs/scenario.md). Raises ScenarioError."""

def schemes() -> list[dict[str, Any]]:
    """Every congestion control: `name`, `summary`, `learned`, `params`; a learned one's interface as well."""

def learned(spec_json: str) -> dict[str, Any]:
    """A learned scheme's document, checked: what `VecWorlds.spec` has, and what is for readers.

    `canonical` is the text that `digest` is of, `spec` the whole spec with every default; `summary`, `source`
    and `departures` as it gives them. Raises ScenarioError, which names the path, the value, what was expected and
    the nearest right name.
    """

def shipped_specs() -> dict[str, str]:
    """The documents of the shipped learned schemes as JSON, by name, every default filled in."""

def signals() -> list[dict[str, Any]]:
    """What a document can observe and report: `name`, `unit`, `channels`, bounds `low` and `high`, the natural
    normalisation `offset`, `scale` and `clip`, `source`, `doc`, `options`, and the `backends` that measure it: sim,
    quic, bridge (kernel TCP with the controller in user space), kernel (with the policy in the kernel); `each`: it has
    a value at each acknowledgement."""

def derived_signals() -> list[dict[str, Any]]:
    """What a document can make of signals: `name` (its field), how it is `written`, `doc`."""

def clocks() -> list[dict[str, Any]]:
    """When a document can decide: `name`, `source`, `doc`, `options`, `kernel`."""

def actuators() -> list[dict[str, Any]]:
    """What actions can move: `name`, `takes` (`numbers`, `operations` or `schemes`), `unit`, `moves`, `bounds`,
    `range`, `source`, `doc`, `options`, `kernel`.
    """

def bases() -> list[dict[str, Any]]:
    """Over what a document can decide: `name`, what of it an action `moves`, `source`, `doc`, `options`, `kernel`."""

def queue_disciplines() -> list[dict[str, Any]]:
    """Every queue discipline: `name`, `summary`, `params`."""

def routers() -> list[dict[str, Any]]:
    """Every kind of router that a link's `router` can be: `name`, `summary`, `params`, `on_the_wire`."""

def accesses() -> list[dict[str, Any]]:
    """Every kind of access to a medium that a link's `service` can have: `name`, `summary`, `params`."""

def estimate(scenario_json: str) -> dict[str, float]:
    """What a run would ask for: `memory_bytes`, and `packets` counted at every link. Raises ScenarioError."""

def one_rtt_late(
    served_most: NDArray[np.float64],
    known: NDArray[np.float64],
    late: int,
    gain: float,
    limit_bytes: float,
    packet_bytes: float,
    carries: bool = False,
    infers: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Bytes sent, served, lost and queued so far, `[slots + 1]` each, of a sender that hears of capacity `late` slots
    later (`ccarena.eval.heldout.oracle`). Slots serve `served_most` bytes at most; of that it hears `known`. What is
    sent is a fluid, or whole packets of `packet_bytes` above 0. If it `carries`, the part of a packet that a slot
    leaves over is sent with the next one's. If `infers` is above 0, it is told nothing, and takes the capacity from its
    own packets, over so many slots."""

def oracle_waits(accepted: NDArray[np.float64], served: NDArray[np.float64]) -> NDArray[np.int64]:
    """Slots until the bytes that were accepted by the end of each slot are served, `[slots]` of totals `[slots + 1]`;
    to the end of the run if they never are."""

def percentiles(values: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """For each share q, the element at index floor(q n) of the n sorted values; NaN if there are none."""

def rows_by_flow(flow: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Rows in the order of their flows, those of one flow in their own order."""

def signal_spans(
    arrival_ns: NDArray[np.int64],
    departure_ns: NDArray[np.int64],
    pauses_after_ns: int | None,
    gone_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Least signal delay and number of milliseconds between two arrivals (`ccarena.eval.measure.signal_delay`)."""

def sums_of_flows(
    packets: Mapping[str, NDArray[Any] | None],
    gone: Sequence[tuple[NDArray[np.int64], NDArray[np.uint32]]],
    window_ns: tuple[int, int],
    active_ns: Sequence[tuple[int, int]],
    all_ns: tuple[int, int],
) -> list[tuple[int, int, int, int, int, list[int]]]:
    """For each flow and, last, for all packets, over those that left or went in (from, to]: packets, bytes, bytes in
    the flow's time, sums of queueing delays and of times from arrival to departure in ns, packets that went by each of
    `gone`."""

def percentiles_of_flows(
    packets: Mapping[str, NDArray[Any] | None],
    window_ns: tuple[int, int],
    pauses: Sequence[tuple[int | None, NDArray[np.int64]] | None],
    shares: Sequence[float],
    tail: float,
) -> list[tuple[list[float], float, float] | None]:
    """For each flow, percentiles in ms of its queueing delays at each of `shares`, and of times from arrival to
    departure and signal delays at `tail`; None of a flow that is None in `pauses`."""

def delays_ms(
    arrival_ns: NDArray[np.int64],
    departure_ns: NDArray[np.int64],
    sending_ns: NDArray[np.uint32] | None,
    further_ms: float,
) -> NDArray[np.float64]:
    """Time from arrival to departure of each packet, less its own sending if given, plus `further_ms`."""

def time_in_queue_length_ns(
    arrival_ns: NDArray[np.int64],
    departure_ns: NDArray[np.int64],
    sending_ns: NDArray[np.uint32],
    from_ns: int,
    to_ns: int,
) -> NDArray[np.int64]:
    """Time in [from, to) during which exactly k packets were queued, `[k]`; the last is not 0, or the only one."""

def time_over_delay_ns(
    arrival_ns: NDArray[np.int64], departure_ns: NDArray[np.int64], budget_ns: int, from_ns: int, to_ns: int
) -> int:
    """Time in [from, to) with more than `budget_ns` of work in the queue."""

def percentile_of_spans(low: NDArray[np.int64], count: NDArray[np.int64], q: float) -> float:
    """The same of low, low + 1, ... low + count - 1 of every span, as `percentiles`; NaN of none."""

def read_trace(path: str | PathLike[str]) -> NDArray[np.uint32]:
    """Delivery opportunities in ms, `[n]`. Raises TraceError, naming file and line."""

def read_conditions(path: str | PathLike[str]) -> dict[str, Any]:
    """Columns of a conditions trace by name, each `float64[n, 2]`: rows (time in ms, value), each from its time on.

    `period_ms` is the time after which it repeats, None if one row holds for ever. Raises TraceError, naming file and
    line.
    """

def write_trace(path: str | PathLike[str], opportunities_ms: NDArray[np.uint32]) -> None:
    """Writes a trace file. Raises TraceError if the times are no trace, OSError if it cannot be written."""

def generate_cellular(preset: str, duration_s: float, seed: int, mean_mbps: float | None = None) -> NDArray[np.uint32]:
    """A synthetic cellular trace in ms, `[n]`; `mean_mbps` scales the preset's rates. Raises TraceError."""

def cellular_presets() -> list[dict[str, Any]]:
    """The generator's presets: `name`, `summary`, `mean_mbps`, `published`."""

def draw_conditions(model: str, duration_s: float, seed: int, mean_mbps: float | None = None) -> NDArray[np.float64]:
    """Rows of a conditions trace, `[n, 4]`: time in ms, rate in Mbit/s, delay in ms, loss. Raises TraceError."""

def base_delay_ms(model: str, seed: int) -> float:
    """Base delay of the trace that a link model draws from a seed. Raises TraceError."""

def link_models() -> list[dict[str, Any]]:
    """The link models: name, family, summary, source, the table they were fitted to, mean and delay."""

class Reward:
    """Reward of a shipped scheme: of the columns `(privileged, number)` of the reports or the privileged state. Raises
    ValueError if there is none of this name with as many columns and coefficients."""

    def __init__(
        self,
        name: str,
        columns: Sequence[tuple[bool, int]],
        coefficients: Sequence[float],
        actions: Sequence[float] = (),
    ) -> None: ...
    def __call__(
        self, reports: NDArray[np.float32], privileged: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], bool]:
        """Rewards `[n]` of n intervals, and whether all are finite. Raises ValueError if a table lacks a column."""

class Policy:
    """A trained policy, with inference in float32 by the same code as in the simulator. Raises PolicyError."""

    def __init__(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def of(data: bytes) -> Policy:
        """From a file's bytes. Raises PolicyError."""

    def with_weights(self, weights: dict[str, NDArray[np.float32]]) -> Policy:
        """The same with other weights, by the names of its tensors. Raises PolicyError."""

    @property
    def digest(self) -> str:
        """Of the document that it was trained for."""

    @property
    def state_len(self) -> int:
        """Numbers that a recurrent policy remembers; 0 of another."""

    def act(
        self, observations: NDArray[np.float32], state: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Best actions `[n]` and logits `[n, actions]` for raw observations `[n, length]`.

        `state` `[n, state_len]` is what the policy remembers, replaced in place; zeros if None. Raises PolicyError.
        """

POLICY_HEADER: str
"""`ccarena_policy.h`: inference in integers, in C."""

class IntegerPolicy:
    """A policy in integers (docs/export.md), with inference by the same code as in the simulator."""

    def __init__(self, data: bytes) -> None:
        """From an artifact's bytes. Raises PolicyError, which names the node that has no integer form."""

    def program(self) -> dict[str, Any]:
        """What is computed: the fields of `ccarena.policies.integer.IntegerPolicy`, `steps` as `int64[n, 12]`."""

    def act(
        self, observations: NDArray[np.float32], state: NDArray[np.int32] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The largest output's index `[n]` and all outputs `[n, outputs]` for observations `[n, length]`.

        `state` `[n, state]` is what the policy remembers, replaced in place; zeros if None. Raises PolicyError.
        """

def draw_scenario(
    distribution_json: str | None = None,
    scenario_json: str | None = None,
    seed: int = 0,
    world: int = 0,
    episode: int = 0,
) -> str:
    """The normalised document that an episode of a world runs, the same as in `VecWorlds` and `SharedWorld`.

    `world` is 0 in a `SharedWorld`. Raises ScenarioError; traces and policies are not looked at.
    """

class VecWorlds:
    """Many worlds with as many learners each, drawn from a domain or running one scenario; one of the two is given.

    Arrays have a row per learner: those of the first world, of the second and so on. Raises ScenarioError, TraceError
    or PolicyError.
    """

    def __init__(
        self,
        distribution_json: str | None = None,
        scenario_json: str | None = None,
        worlds: int = 1,
        seed: int = 0,
        threads: int = 1,
        learners: int = 1,
    ) -> None: ...
    @property
    def observation(self) -> str:
        """What the learners observe, such as "acct-1"."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the learners observe, report and take.

        `name` and `digest` of the document; `observation`, a list of `{name, signal, length, low, high, offset,
        scale, clip, unit, doc}`, and its `observation_len`; `actions` (empty if continuous) and
        `action_names`, or `bounds`, a pair for each number of an action (None if discrete); names of the `report`'s and
        the `privileged`'s columns; `params` and `inputs`.
        """

    @property
    def learners(self) -> int:
        """Learners of each world."""

    def __len__(self) -> int: ...
    def limit_episodes(self, decisions: int) -> None:
        """Ends every episode after `decisions`, unless it ends before."""

    def reset(self, observations: NDArray[np.float32], seed: int | None = None) -> None:
        """Starts every world anew from its first episode, of a run seeded with `seed`; fills `[worlds, length]`."""

    def step(
        self,
        actions: NDArray[np.float32],
        observations: NDArray[np.float32],
        reports: NDArray[np.float32],
        intervals_s: NDArray[np.float32],
        truncated: NDArray[np.bool_],
        final_observations: NDArray[np.float32],
        rewards: NDArray[np.float32] | None = None,
        reward: Reward | None = None,
        privileged: NDArray[np.float32] | None = None,
        held: NDArray[np.bool_] | None = None,
    ) -> tuple[bool, bool]:
        """Runs every world until each of its learners has decided and fills the arrays; the GIL is released meanwhile.

        A learner that decides more often keeps its action and reports its last interval. `intervals_s`, `[rows]`, gets
        the lengths of the intervals, `rewards`, `[rows]`, what `reward` gives for them, and `privileged`,
        `[rows, columns]`, what only the simulator knows of the step. `final_observations` is written in the rows alone
        whose episode is over.

        A world whose episode is over starts the next one. With `held`, `[rows]`, it does so in the next step, which
        ignores its actions: `held` is True for its rows in between.

        Returns whether an episode has ended, and whether all rewards are finite. Raises ActionError, before any world
        has moved.
        """

    def rollout(
        self,
        policy: Policy,
        noise: NDArray[np.float32],
        spread: NDArray[np.float32],
        observations: NDArray[np.float32],
        drawn: NDArray[np.float32],
        reports: NDArray[np.float32],
        truncated: NDArray[np.bool_],
        final_observations: NDArray[np.float32],
        following: NDArray[np.float32],
        privileged: NDArray[np.float32] | None = None,
    ) -> None:
        """Lets every world run as many decisions of `policy` as `drawn` has room for, and fills the arrays.

        They are `[worlds, steps, learners, ...]`, `following` is `[rows, length]`. `noise` is what chance adds to the
        policy's outputs, times `spread` where actions are continuous; `drawn` are indices, or continuous actions before
        they are squashed into their bounds. The GIL is released meanwhile. Raises ActionError for an array of another
        length, and PolicyError.
        """

    def state(self) -> bytes:
        """All that `restore` needs."""

    def restore(self, state: bytes, observations: NDArray[np.float32]) -> None:
        """Replays `state`, exactly, and fills the observations. Raises CheckpointError."""

    def data_packets(self) -> NDArray[np.uint64]:
        """Packets delivered in each world's current episode, `[worlds]`."""

class SharedWorld:
    """One world with any number of learners on one bottleneck. Raises what `VecWorlds` does."""

    def __init__(
        self, distribution_json: str | None = None, scenario_json: str | None = None, seed: int = 0
    ) -> None: ...
    @property
    def observation(self) -> str:
        """What the learners observe, such as "acct-1"."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the learners observe, report and take, as `VecWorlds.spec`."""

    @property
    def learners(self) -> int:
        """Number of learners."""

    def reset(self, episode: int) -> None:
        """Starts episode number `episode`."""

    def observe(self, learner: int) -> NDArray[np.float32]:
        """What a learner sees, `[length]`."""

    def step(self, actions: NDArray[np.float32]) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], bool]:
        """Runs until every learner has finished an interval: their reports `[k, columns]`, the privileged state of the
        step `[learners, columns]`, and whether it is over.

        Raises ActionError, before the world has moved.
        """

class Trials:
    """Whole runs of candidates over scenarios drawn from a domain, or over one scenario with other seeds.

    Raises ScenarioError, TraceError, PolicyError or ActionError.
    """

    figures: list[str]
    """Names of the figures of a learner's run; crates/ccarena-sim/src/trials.rs defines them."""

    def __init__(
        self,
        distribution_json: str | None = None,
        scenario_json: str | None = None,
        threads: int = 1,
        measures: bool = True,
    ) -> None:
        """Unless it `measures`, figures are NaN, and runs take less time."""

    def scenario(self, seed: int, trial: int) -> str:
        """The scenario of trial `trial` of `seed`, as JSON."""
    def run(
        self,
        candidates: list[tuple[Policy | float | tuple[str, list[float]] | None, dict[str, float]]],
        seed: int,
        trials: list[list[int]],
    ) -> list[dict[str, Any]]:
        """Runs for each candidate its trials of `seed`, rising numbers; the GIL is released meanwhile.

        A candidate is who decides (a policy, one action always, a column of the report and an action for each of its
        categories, or None: nobody) and the parameters that differ from the learners'. The answer has, with a row per
        trial and learner, `figures` float64 `[rows, figures]`, `params` (a dict per row), and `intervals` uint64
        `[rows]`, how many of the rows of `reports` `[n, columns]` and `privileged` `[n, columns]`, both float32, are
        each one's. `learners` uint64 `[trials]` has the rows of each trial. `taken` `[trials]` is a list of flags for
        each: which of a table's actions were taken in the trial; it is empty for other candidates.
        """
