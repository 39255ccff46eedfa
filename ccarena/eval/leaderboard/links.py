"""Links of the leaderboard: traces, generated or recorded, with base delays and buffers.

The sets `presets` and `models`, the default, need no file. `presets` has each cellular preset and two models that no
policy of this package is trained on; `models` has many links of four models (`ccarena.eval.leaderboard.models`).
`satellite`, `5g`, `wifi` and `lossy` are the link sets of these names (`ccarena.eval.heldout.links`).
`recordings` has every recording of the manifest that was fetched. Any other set is one of the manifest's (`mahimahi`,
`nyc-lte`), or what `--traces` of other commands takes. If a recording of the other direction lies beside a trace,
acknowledgements cross it.

Each trace has a base delay and a buffer of its own, drawn from its name, unless the user gives some for all traces.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import traces
from ccarena.core.files import digest
from ccarena.errors import ConfigError
from ccarena.eval.heldout.links import TRACES, Link, build, scenario
from ccarena.eval.leaderboard.models import genet, of_models, pensieve
from ccarena.scenarios.entrants import Entrant
from ccarena.traces.given import GivenTrace, read_traces
from ccarena.traces.held_out import derives_from
from ccarena.traces.manifest import manifest, sets
from ccarena.traces.recorded import HELD_OUT_SEED, find_trace, started, trace_service

__all__ = [
    *("CLASSES", "DELAYS_MS", "MODELS", "PRESETS", "RECORDINGS", "SCENARIO"),
    *("BoardTrace", "Place", "class_of", "own_link", "place_name", "places", "traces_of"),
]

PRESETS, MODELS = "presets", "models"
"""Names of the sets of generated traces."""
LINK_SETS = ("satellite", "5g", "wifi", "lossy")
"""Names of link sets that are sets of the leaderboard, too."""
RECORDINGS = "recordings"
"""Name of the set of all recordings that were fetched."""
DELAYS_MS = (10.0, 100.0)
"""Range of the base delays that are drawn from traces' names, one way."""
BUFFERS_PACKETS = (50.0, 1000.0)
"""Range of the buffers that are drawn from traces' names."""
MODEL, UNCLASSIFIED = "model", "unclassified"
CLASSES = ("static", "walking", "driving", MODEL, UNCLASSIFIED)
"""Movements of the receiver in the manifest of public recordings.

`model` is for capacity that was fitted to no recording, `unclassified` for an unknown recording.
"""
SCENARIO = "scenario"
"""Class of users' scenarios, which are ranked apart from traces."""
_OTHER_WAY = {".down": ".up", ".up": ".down"}


@dataclass(frozen=True)
class BoardTrace:
    """Trace, or the generator of one for each seed."""

    name: str
    moves: str
    """Class, one of `CLASSES` or `SCENARIO`."""
    digest: str
    """Digest of the file's bytes, or of the generator's description."""
    service: Callable[[float, int], dict[str, Any]]
    """Function that returns the scenario's `service` for a duration in s and a seed."""
    back: Callable[[float, int], dict[str, Any]] | None = None
    """Same function for the acknowledgements' direction; None is pure delay."""
    back_digest: str = ""
    """Digest of the acknowledgements' trace."""
    recorded: bool = False
    delay_ms: float | None = None
    """Base delay that belongs to it; None takes the user's, or one drawn from the name."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of the scenario's link."""
    stands_for: str = ""
    """Trace or preset behind a scenario; empty if that is its name."""

    @property
    def origin(self) -> str:
        """Returns the recording that it is or was fitted to; itself if there is none."""
        return derives_from(self.stands_for or self.name)


@dataclass(frozen=True)
class Place:
    """Place: a trace with a base delay and a buffer. Rows of one place are repetitions."""

    trace: BoardTrace
    delay_ms: float
    """One-way propagation."""
    buffer_packets: int
    duration_s: float

    @property
    def name(self) -> str:
        """Returns the name in tables."""
        return place_name(self.trace.name, self.delay_ms, self.buffer_packets, self.trace.back is not None)

    def link(self, seed: int) -> Link:
        """Returns the link of one seed."""
        trace, length_s = self.trace, self.duration_s
        back = trace.back(length_s, seed) if trace.back else None
        kind = TRACES if trace.recorded else "cellular"
        forward = trace.service(length_s, seed)
        return Link(
            kind,
            self.name,
            seed,
            length_s,
            self.delay_ms,
            self.buffer_packets,
            forward,
            trace.moves,
            back=back,
            more=trace.more,
        )

    @property
    def entrant_flow(self) -> int:
        """Returns the number of the entrant's flow in a run alone."""
        return 0

    def takes(self, track: str, scheme: str) -> bool:
        """Returns whether an entrant of this track and scheme can run here alone."""
        return True

    def scenario(self, seed: int, sender: Entrant) -> dict[str, Any]:
        """Returns the document of a run alone."""
        return scenario(self.link(seed), sender)

    def content(self, seed: int) -> dict[str, Any]:
        """Returns what decides a run besides the entrant: the document, with a trace's content for its file name."""
        document = self.scenario(seed, Entrant("", {"scheme": ""}))
        for link, content in zip(document["links"], (self.trace.digest, self.trace.back_digest), strict=False):
            if "file" in link["service"]:
                link["service"] = {**link["service"], "file": content}
        return document


def place_name(trace: str, delay_ms: float, buffer_packets: int, uplink: bool) -> str:
    """Returns the name of a place in tables."""
    return f"{trace}, {delay_ms:g} ms, {buffer_packets} packets{', ACKs over the uplink' if uplink else ''}"


def places(
    of: Sequence[BoardTrace],
    delays_ms: Sequence[float] | None,
    buffers_packets: Sequence[int] | None,
    duration_s: float,
) -> list[Place]:
    """Returns every trace with every delay and buffer; None is the trace's own. Raises ConfigError for an impossible
    number.
    """
    if delays_ms is not None and (not all(0 < ms <= 10_000 for ms in delays_ms) or not delays_ms):
        raise ConfigError(f"--delays-ms {list(delays_ms)}: expected one-way delays above 0 and at most 10000 ms")
    if buffers_packets is not None and (not all(n >= 1 for n in buffers_packets) or not buffers_packets):
        raise ConfigError(f"--buffers {list(buffers_packets)}: expected whole numbers of packets from 1")
    if not 1 <= duration_s <= 1e5:
        raise ConfigError(f"--duration-s {duration_s:g}: expected 1 to 100000 seconds")
    out = []
    for trace in of:
        own_ms, own_packets = own_link(trace.name)
        own_ms = own_ms if trace.delay_ms is None else trace.delay_ms
        for ms in [own_ms] if delays_ms is None or trace.delay_ms is not None else delays_ms:
            for packets in [own_packets] if buffers_packets is None else buffers_packets:
                out.append(Place(trace, ms, packets, duration_s))
    return out


def own_link(trace: str) -> tuple[float, int]:
    """Returns the base delay (ms, one way) and the buffer (packets) of a trace, drawn evenly in their logarithms."""
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 8, int(digest(trace.encode()), 16)]))
    delay_ms, packets = (math.exp(rng.uniform(*np.log(span))) for span in (DELAYS_MS, BUFFERS_PACKETS))
    return float(round(delay_ms)), int(round(packets, -1))


def traces_of(given: Sequence[str]) -> list[BoardTrace]:
    """Returns the traces of sets and of single names or files, each once. Raises ConfigError or TraceError."""
    found: dict[str, BoardTrace] = {}
    for text in given:
        for trace in _set(text):
            if trace.name in found and found[trace.name].digest != trace.digest:
                raise ConfigError(f'--traces: two traces are called "{trace.name}"; call one otherwise: NAME=TRACE')
            found[trace.name] = trace
    if not found:
        raise ConfigError(
            f"--traces: no trace was given; expected {', '.join((PRESETS, MODELS, *LINK_SETS, RECORDINGS, *sets()))}, "
            "a file or a folder"
        )
    return list(found.values())


def class_of(file: Path) -> str:
    """Returns the movement of a recording's receiver: the manifest's word for a file of these bytes."""
    own = hashlib.sha256(file.read_bytes()).hexdigest()
    return next((entry.moves for entry in manifest() if entry.sha256 == own), UNCLASSIFIED)


def _class_of_preset(name: str) -> str:
    """Returns the class of the recording that a preset was fitted to."""
    return next((entry.moves for entry in manifest() if entry.name == derives_from(name)), MODEL)


def _set(text: str) -> list[BoardTrace]:
    generated = {PRESETS: _presets(), MODELS: _models(), **{name: _link_set(name) for name in LINK_SETS}}
    if text in generated:
        return generated[text]
    if found := [trace for traces_ in generated.values() for trace in traces_ if trace.name == text]:
        return found
    if text not in (RECORDINGS, *sets()) or Path(text).exists():
        return [_recorded(index, trace) for index, trace in enumerate(read_traces([text]))]
    names = [entry.name for entry in manifest() if text in (RECORDINGS, entry.set)]
    files = [(name, file) for name in names if (file := find_trace(name)) is not None]
    if not files:
        fetched = "all" if text == RECORDINGS else text
        raise ConfigError(
            f"--traces {text}: none of its traces is here; get them with `ccarena traces fetch {fetched}`"
        )
    return [_recorded(index, GivenTrace(name, file)) for index, (name, file) in enumerate(files)]


def _recorded(index: int, given: GivenTrace) -> BoardTrace:
    other = _OTHER_WAY.get(given.file.suffix)
    beside = given.file.with_suffix(other) if other else None
    back = given.back or (beside if beside is not None and beside.is_file() else None)
    both = [file for file in (given.file, back) if file is not None]
    for file in both:
        traces.load(file)
    return BoardTrace(
        given.name,
        class_of(given.file),
        digest(given.file.read_bytes()),
        functools.partial(_follow, given.file, index),
        functools.partial(_follow, back, index) if back else None,
        digest(back.read_bytes()) if back else "",
        recorded=True,
    )


def _follow(file: Path, index: int, duration_s: float, seed: int) -> dict[str, Any]:
    return started(trace_service(file), duration_s, seed, index)


def _presets() -> list[BoardTrace]:
    made = []
    for preset in traces.all_presets():
        name = preset["name"]
        drawn = functools.partial(_preset, name)
        made.append(BoardTrace(name, _class_of_preset(name), digest(f"{name} {preset['published']}".encode()), drawn))
    made.append(BoardTrace("pensieve-markov", MODEL, digest(b"pensieve-markov 1"), pensieve))
    made.append(BoardTrace("genet-steps", MODEL, digest(b"genet-steps 1"), genet))
    return made


def _models() -> list[BoardTrace]:
    """Returns the links of models; a change of a model has to change its digest, too."""
    return [
        BoardTrace(name, MODEL, digest(f"{name} 1".encode()), down, up, digest(f"{name} up 1".encode()) if up else "")
        for name, down, up in of_models()
    ]


def _link_set(name: str) -> list[BoardTrace]:
    """Returns the links of a link set; those of a model are one trace each, which each seed enters elsewhere."""
    out = []
    for link in build([name], 1):
        more = dict(link.more)
        if "conditions" in more:
            more["conditions"] = {**more["conditions"], "offset_ms": "random"}
        content = digest(json.dumps([link.service, more], sort_keys=True).encode())
        service = functools.partial(_always, link.service)
        called = link.name if link.name.startswith(name) else f"{name}: {link.name}"
        out.append(BoardTrace(called, MODEL, content, service, delay_ms=link.delay_ms, more=more))
    return out


def _always(service: dict[str, Any], duration_s: float, seed: int) -> dict[str, Any]:
    return service


def _preset(name: str, duration_s: float, seed: int) -> dict[str, Any]:
    return {"type": "cellular", "preset": name, "seed": HELD_OUT_SEED + seed}
