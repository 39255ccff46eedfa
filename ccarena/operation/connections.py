"""Telemetry of a policy: its connections one by one, and metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ccarena.errors import CcarenaError, MachineError, RunnerError
from ccarena.operation.loaded import Loaded, Place

__all__ = ["Connection", "connections", "follow", "open_connections", "prometheus", "serve_text"]

_NO_RECORD = 2**64 - 1
"""Number that no record has, since they are counted from 1."""


@dataclass(frozen=True)
class Connection:
    """Connection of a policy, or the part of it under one role and one policy."""

    name: str
    """Name of the policy."""
    connection: int
    """Number of the connection under this name, in the order of opening."""
    role: str
    """Mover of the window: `policy`; `shadow` (the policy decides, the fallback acts); `control` (the fallback, to
    compare with); `apart` (the fallback, not compared); `handed_back` (the fallback, since too many decisions in a row
    tripped)."""
    ended: str | None
    """Reason for the end: `closed` (or another congestion control was chosen), `moved` (another role), `replaced`
    (another policy) or `guard` (handed back); None if open."""
    generation: int
    """Number of the policy, as `stats` prints it."""
    sha256: str | None
    """Digest of the policy; None in the kernel if it is no longer in force."""
    local: str
    remote: str
    seconds: float
    """Length of the record."""
    busy_s: float
    """Part of it with data on the way."""
    acked_bytes: int
    sent_bytes: int
    retransmitted_bytes: int
    """Retransmitted bytes; those of lost packets with QUIC, which sends lost data in new packets."""
    throughput_mbps: float | None
    """Acknowledged bytes by busy time; None if nothing was on the way."""
    rtt_ms: float | None
    """Mean of the RTT samples; None without one."""
    rtt_samples: int
    rtt_min_ms: float | None
    srtt_ms: float
    window_packets: int
    pacing_mbps: float
    decisions: int
    outside: int
    """Number of decisions on an observation outside the range in training."""
    clamps: int
    """Number of decisions with a clipped observation."""
    held: int | None
    """Number of decisions whose action was held back; None at a server."""
    compared: int
    """Number of decisions in shadow mode that were compared with the fallback."""
    agreement: float | None
    """Share of these whose rate was within 10 % of the fallback's."""
    policy_mbps: float | None
    """Mean rate that the policy would have allowed at these decisions."""
    running_mbps: float | None
    """Mean rate that the fallback allowed at them."""
    record: int
    """Number of the record among those that have ended; 0 if it is open."""


def connections(place: Place, name: str, after: int = 0) -> list[Connection]:
    """Returns the open connections of the policy `name`, and those ended after record `after`.

    The last 16,384 records are kept. Raises MachineError if the policy is not there.
    """
    return [_connection(name, found) for found in place.records(name, after)]


def open_connections(place: Place, name: str) -> list[Connection]:
    """Returns the open connections of the policy `name`. Raises as `connections`."""
    return connections(place, name, _NO_RECORD)


def follow(place: Place, name: str, every_s: float) -> Iterator[list[Connection]]:
    """Yields the open connections of the policy `name` every `every_s` seconds, and those ended since. Ends never."""
    last = 0
    while True:
        found = connections(place, name, last)
        last = max([last, *(each.record for each in found)])
        yield found
        time.sleep(every_s)


def _connection(name: str, found: dict[str, Any]) -> Connection:
    same = (
        *("connection", "role", "ended", "generation", "sha256", "local", "remote", "acked_bytes", "sent_bytes"),
        *("retransmitted_bytes", "window_packets", "decisions", "outside", "clamps", "held", "compared", "record"),
    )
    try:
        compared = found["compared"]
        return Connection(
            name=name,
            **{key: found[key] for key in same},
            seconds=(found["now_ns"] - found["begun_ns"]) / 1e9,
            busy_s=found["busy_ns"] / 1e9,
            throughput_mbps=_ratio(found["acked_bytes"] * 8e3, found["busy_ns"]),
            rtt_ms=_ratio(found["rtt_us"] / 1e3, found["rtt_count"]),
            rtt_samples=found["rtt_count"],
            rtt_min_ms=found["rtt_min_us"] / 1e3 if found["rtt_count"] else None,
            srtt_ms=found["srtt_us"] / 1e3,
            pacing_mbps=found["pacing_bytes_per_s"] * 8e-6,
            agreement=_ratio(found["agreed"], compared),
            policy_mbps=_ratio(found["policy_kib"] * 8.192e-3, compared),
            running_mbps=_ratio(found["running_kib"] * 8.192e-3, compared),
        )
    except (KeyError, TypeError) as error:
        raise RunnerError(f"a record of {name} is not understood: {str(found)[:200]!r}") from error


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


# Metric, type, help, and the field of a policy.
_OF_POLICIES = (
    ("sockets", "gauge", "Open connections that have chosen the policy.", "sockets"),
    ("share", "gauge", "Share of connections that get the policy.", "share"),
    ("shadow", "gauge", "1 if the policy decides and the fallback acts.", "shadow"),
    ("generation", "gauge", "Number of the policy among those that the name has had.", "generation"),
    ("decisions_total", "counter", "Decisions.", "decisions"),
    ("outside_total", "counter", "Decisions on an observation outside the range in training.", "outside"),
    ("clamps_total", "counter", "Decisions with a clipped observation.", "clamps"),
    ("held_total", "counter", "Decisions whose action was held back.", "held"),
    ("missed_total", "counter", "Decisions without a buffer; the previous action stayed in force.", "missed"),
    ("handed_back_total", "counter", "Connections that were handed back to the fallback.", "handed_back"),
    ("compared_total", "counter", "Decisions in shadow mode that were compared with the fallback.", "compared"),
    ("agreed_total", "counter", "Of these, decisions within 10 % of the fallback's rate.", "agreed"),
)
# The same of an open connection.
_OF_CONNECTIONS = (
    ("acked_bytes_total", "counter", "Acknowledged bytes.", "acked_bytes"),
    ("retransmitted_bytes_total", "counter", "Retransmitted bytes.", "retransmitted_bytes"),
    ("window_packets", "gauge", "Congestion window.", "window_packets"),
    ("srtt_ms", "gauge", "Smoothed RTT.", "srtt_ms"),
    ("pacing_mbps", "gauge", "Pacing rate.", "pacing_mbps"),
    ("decisions_total", "counter", "Decisions.", "decisions"),
    ("outside_total", "counter", "Decisions on an observation outside the range in training.", "outside"),
)


def prometheus(loaded: Sequence[Loaded], open_connections: Sequence[Connection]) -> str:
    """Returns metrics of loaded policies and of their open connections, in Prometheus's text format (0.0.4)."""
    lines = ["# HELP ccarena_policy_info Policy in force, and its digest.", "# TYPE ccarena_policy_info gauge"]
    for each in loaded:
        labels = _labels(
            name=each.name, policy=each.policy, sha256=each.sha256, traffic=each.traffic, fallback=each.fallback
        )
        lines.append(f"ccarena_policy_info{labels} 1")
    for metric, kind, text, field in _OF_POLICIES:
        values = [(each, getattr(each, field)) for each in loaded]
        rows = [(_labels(name=each.name), value) for each, value in values if value is not None]
        lines += _metric(f"ccarena_policy_{metric}", kind, text, rows)
    living = [each for each in open_connections if each.ended is None]
    for metric, kind, text, field in _OF_CONNECTIONS:
        rows = [
            (
                _labels(name=each.name, role=each.role, connection=str(each.connection), remote=each.remote),
                getattr(each, field),
            )
            for each in living
        ]
        lines += _metric(f"ccarena_connection_{metric}", kind, text, rows)
    return "\n".join(lines) + "\n"


def serve_text(address: str, port: int, text: Callable[[], str]) -> None:
    """Serves `text()` at `/metrics` over HTTP, until interrupted. Raises MachineError if it cannot listen there."""

    class Answer(BaseHTTPRequestHandler):
        timeout = 10  # seconds; a client that sends nothing keeps a thread no longer

        def do_GET(self) -> None:
            known = self.path == "/metrics"
            try:
                status, body = (200, text()) if known else (404, "the metrics are at /metrics\n")
            except CcarenaError as error:
                status, body = 503, f"{error}\n"
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *values: Any) -> None:
            """Logs nothing."""

    try:
        server = ThreadingHTTPServer((address, port), Answer)
    except OSError as error:
        raise MachineError(f"cannot listen at {address}:{port}: {error.strerror or error}") from error
    with server:
        print(f"metrics at http://{address}:{server.server_port}/metrics", flush=True)
        server.serve_forever()


def _metric(name: str, kind: str, text: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    if not rows:
        return []
    return [
        f"# HELP {name} {text}",
        f"# TYPE {name} {kind}",
        *(f"{name}{labels} {float(value):.15g}" for labels, value in rows),
    ]


def _labels(**values: str) -> str:
    escaped = {
        key: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, value in values.items()
    }
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"
