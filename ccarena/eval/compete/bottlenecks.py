"""Bottlenecks of a competition: links such as `48mbps,20ms,1bdp`, or those of a scenario file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena import _core, traces
from ccarena.core.arguments import number
from ccarena.core.base_delay import least_delay_ms
from ccarena.errors import ConfigError, ScenarioError, TraceError, did_you_mean
from ccarena.scenarios.scenario import read_scenario, scenario_json
from ccarena.traces import models
from ccarena.traces.given import TraceLinks
from ccarena.traces.recorded import started

__all__ = ["DEFAULT", "GRAMMAR", "Bottleneck", "from_scenario", "over_traces", "parse_link"]

DEFAULT = "48mbps,20ms,1bdp"
GRAMMAR = """\
links:
  CAPACITY[,BASE_RTTms][,QUEUE][,NAME=VALUE]...
    CAPACITY   48mbps (kbps, mbps, gbps), a cellular preset (`ccarena traces list`), a trace by name or file, or a link
               model (starlink-driving, wifi), which has a base RTT and losses of its own
    BASE_RTT   two-way propagation (20ms)
    QUEUE      1bdp, packets=100 or bytes=150000 (all drop-tail), or DISCIPLINE[:PARAMETER=VALUE]..., one that
               `ccarena schemes --queues` lists (1bdp)
    NAME       loss=0.001 (share of packets, at random), jitter_ms=1, router=0 (without ACCT's router)
  48mbps,20ms,1bdp   1gbps,10ms,codel:packets=400   lte-driving,40ms,packets=100   12mbps,loss=0.001"""

_RATE = re.compile(r"([0-9.]+(?:e[0-9]+)?)(k|m|g)(?:bps|bit/s)", re.IGNORECASE)
_MBPS = {"k": 1e-3, "m": 1.0, "g": 1e3}
_BDP = re.compile(r"([0-9.]+)bdp", re.IGNORECASE)
_RTT = re.compile(r"([0-9.]+)ms", re.IGNORECASE)
_LIMITS = ("packets", "bytes", "bdp")


@dataclass(frozen=True)
class Bottleneck:
    """Bottleneck that the competitors share."""

    name: str
    """Text that describes the link, or the name of the scenario's file."""
    base_rtt_ms: float
    links: tuple[dict[str, Any], ...]
    """Links of the scenario; one without `delay_ms` gets half of the least base RTT of its flows."""
    back: tuple[dict[str, Any], ...] = ()
    """Named links that acknowledgements cross; if empty, they cross no link."""

    @property
    def services(self) -> list[dict[str, Any]]:
        """Returns the `service` of every link, first those that data cross, then those that acknowledgements cross."""
        return [link["service"] for link in (*self.links, *self.back)]

    @property
    def route(self) -> dict[str, Any]:
        """Returns `path` and `return_path` for the scenario's flows; empty if acknowledgements cross no link."""
        if not self.back:
            return {}
        return {key: [link["name"] for link in way] for key, way in (("path", self.links), ("return_path", self.back))}

    def links_for(self, rtts_ms: Sequence[float], seed: int, duration_s: float) -> list[dict[str, Any]]:
        """Returns the scenario's `links` for flows with the base RTTs `rtts_ms`.

        With seed 1 a recorded trace starts at its beginning, with another seed at a time drawn from the seed.
        """
        out = []
        for link in (*self.links, *self.back):
            service = started(link["service"], duration_s, seed - 1)
            out.append({"delay_ms": min(rtts_ms) / 2, **link, "service": service})
        return out


def parse_link(text: str) -> Bottleneck:
    """Returns the link that `text` describes, checked; `GRAMMAR` is the syntax.

    Raises ConfigError, naming the part of `text` that is wrong.
    """
    where = f'--link "{text}"'
    link: dict[str, Any] = {"name": "bottleneck", "router": True}
    found: dict[str, str] = {}
    rtt_ms = 20.0
    for part in text.split(","):
        kind, value = _read(part, where)
        if kind in found:
            raise ConfigError(f'{where}: "{part}" is a second {kind} after "{found[kind]}"')
        found[kind] = part
        if kind == "base RTT":
            rtt_ms = value
        else:
            link["service" if kind == "capacity" else kind] = value
    if model := link.get("service", {}).get("model"):
        if given := {"base RTT", "loss"} & set(found):
            raise ConfigError(f'{where}: the link model "{model}" has a {min(given)} of its own; leave yours out')
        # One trace, of which each seed starts in another place: all runs have the same base RTT.
        delay_ms = models.base_delay_ms(model, 1)
        link |= {"service": {"type": "conditions"}, "conditions": {"model": model, "seed": 1, "offset_ms": "random"}}
        link["delay_ms"], rtt_ms = delay_ms, 2 * delay_ms
    if "capacity" not in found:
        raise ConfigError(f"{where}: no capacity; expected a rate (48mbps), a cellular preset or a trace first")
    _check([link], rtt_ms, where)
    return Bottleneck(text, rtt_ms, (link,))


def from_scenario(path: Path) -> Bottleneck:
    """Returns the links of the scenario document at `path`, in order; its flows, duration and seed are ignored.

    Raises ScenarioError.
    """
    links = read_scenario(path).get("links")
    document = {"links": links, "flows": [{"scheme": "reno"}]}
    try:
        checked = json.loads(_core.validate_scenario(scenario_json(document)))
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    given = [{**link, "delay_ms": known["delay_ms"]} for link, known in zip(links or [], checked["links"], strict=True)]
    return Bottleneck(path.name, 2.0 * sum(map(least_delay_ms, checked["links"])), tuple(given))


def over_traces(given: TraceLinks) -> list[Bottleneck]:
    """Returns a bottleneck for each trace, buffer and delay of `given`."""
    found = []
    for _, trace, buffer, delay_ms in given.each():
        queue = {"type": "droptail", "packets": buffer}
        ways = [("bottleneck", trace.file, True), ("back", trace.back, False)]
        made = [
            {"name": name, "service": {"type": "trace", "file": str(file)}, "queue": queue, "router": router}
            for name, file, router in ways
            if file is not None
        ]
        name = f"{trace.name}, {buffer} packets, {delay_ms:g} ms"
        found.append(Bottleneck(name, 2.0 * delay_ms, (made[0],), tuple(made[1:])))
    return found


def _read(part: str, where: str) -> tuple[str, Any]:
    """Returns (meaning of the part, its value in the scenario)."""
    if match := _RATE.fullmatch(part):
        rate = number(match[1], f'{where}: rate "{part}"') * _MBPS[match[2].lower()]
        return "capacity", {"type": "constant", "rate_mbps": rate}
    if match := _RTT.fullmatch(part):
        return "base RTT", number(match[1], f'{where}: base RTT "{part}"')
    if match := _BDP.fullmatch(part):
        return "queue", {"type": "droptail", "bdp": number(match[1], f'{where}: queue "{part}"')}
    head, *params = part.split(":")
    name, equals, value = head.partition("=")
    if equals and name in _LIMITS and not params:
        return "queue", {"type": "droptail", name: number(value, f'{where}: "{name}"')}
    if equals and name in OPTIONS:
        return name, OPTIONS[name](number(value, f'{where}: "{name}"'))
    disciplines = {entry["name"] for entry in _core.queue_disciplines()}
    if head in disciplines:
        queue: dict[str, Any] = {"type": head}
        for param in params:
            name, equals, value = param.partition("=")
            if not (name and equals and value):
                raise ConfigError(f'{where}: ":{param}" is no PARAMETER=VALUE of the queue {head}')
            queue[name] = value if name == "compat" else number(value, f'{where}: parameter "{name}"')
        return "queue", queue
    if equals:
        raise ConfigError(f'{where}: unknown part "{part}"{did_you_mean(name, (*_LIMITS, *OPTIONS))}')
    presets = {entry["name"] for entry in _core.cellular_presets()}
    if part in presets:
        return "capacity", {"type": "cellular", "preset": part}
    link_models = {entry["name"] for entry in models.all_models()}
    if part in link_models:
        return "capacity", {"model": part}
    try:
        return "capacity", {"type": "trace", "file": str(traces.find(part))}
    except TraceError:
        near = _rate_meant(part) or did_you_mean(head, disciplines | presets | link_models | set(traces.available()))
        raise ConfigError(
            f'{where}: "{part}" is no rate (48mbps), base RTT (20ms), queue, cellular preset, link model or trace'
            + (near if "did you mean" in near else "; `--help` shows the grammar")
        ) from None


def _rate_meant(part: str) -> str:
    """Returns a hint for what looks like a rate, such as 48mbit or 48M; empty for anything else."""
    match = re.fullmatch(r"([0-9.]+) *([kmg])(?:b|bit|bits|ibit)?(?:ps|/s)?", part, re.IGNORECASE)
    return f'; did you mean "{match[1]}{match[2].lower()}bps"?' if match else ""


OPTIONS: Mapping[str, Callable[[float], Any]] = {"loss": float, "jitter_ms": float, "router": bool}
"""Optional parts by name, and their fields in the scenario."""


def _check(links: list[dict[str, Any]], rtt_ms: float, where: str) -> None:
    document = {
        "links": [{**link, "delay_ms": rtt_ms / 2} for link in links],
        "flows": [{"scheme": "reno", "base_rtt_ms": rtt_ms}],
    }
    try:
        _core.validate_scenario(scenario_json(document))
    except ScenarioError as error:
        message = str(error).replace("links[0].", "").replace("delay_ms", "half of the base RTT, delay_ms")
        raise ConfigError(f"{where}: {message}") from error
