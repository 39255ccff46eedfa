"""Commands of an operator: those of `ccarena kernel` and of `ccarena quic` are the same."""

from __future__ import annotations

import argparse
import ipaddress
import json
import math
import sys
from dataclasses import asdict
from typing import Any

from ccarena.core.arguments import refuse
from ccarena.core.plain_data import plain
from ccarena.core.terminal import print_table
from ccarena.errors import ConfigError
from ccarena.eval.measure.sample import Interval
from ccarena.operation.connections import connections, follow, open_connections, prometheus, serve_text
from ccarena.operation.loaded import Loaded, Place
from ccarena.operation.report import Report, report

__all__ = ["DEFAULT_GUARD", "GUARD", "add_canary", "add_parsers", "print_canary", "print_stats", "run"]

GUARD = "decisions in a row outside the guard's box or the range of training that hand a connection back; 0: never"
DEFAULT_GUARD = 32
"""Guard of a policy that is given none, in the kernel and at QUIC servers: `ccarena_cc::operation::GUARD`."""


def add_canary(commands: Any) -> argparse.ArgumentParser:
    """Declares `canary` with what all places have, and returns it."""
    canary: argparse.ArgumentParser = commands.add_parser(
        "canary", help="give a policy a share of connections; the fallback scheme runs the others"
    )
    canary.add_argument("name", metavar="NAME", help="the policy")
    canary.add_argument("--share", type=_share, required=True, metavar="S", help="0 to 1; 1: all, 0: none")
    canary.add_argument(
        "--to", type=_prefix, metavar="PREFIX", help="only connections to these addresses, such as 10.0.0.0/8 (any)"
    )
    canary.add_argument("--guard", type=int, metavar="N", help=GUARD + " (what is in force)")
    return canary


def _share(text: str) -> float:
    """Returns a share of connections. Raises ArgumentTypeError."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"got {text}; expected a number from 0 to 1, the part of connections")
    return share


def _prefix(text: str) -> str:
    """Returns a prefix of addresses. Raises ArgumentTypeError."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"got {text}; expected an address or a prefix of addresses, such as 10.0.0.0/8 or 2001:db8::/32"
        ) from None
    return text


def add_parsers(commands: Any) -> list[argparse.ArgumentParser]:
    """Declares `report`, `rollback`, `connections` and `stats`, and returns them."""
    report = commands.add_parser("report", help="compare the policy's connections with the fallback's, with intervals")
    report.add_argument("name", metavar="NAME", help="the policy")
    report.add_argument("--json", action="store_true", help="print JSON")

    rollback = commands.add_parser("rollback", help="return to the policy before; open connections follow")
    rollback.add_argument("name", metavar="NAME", help="the policy")

    connections = commands.add_parser("connections", help="each connection of a policy, as lines of JSON")
    connections.add_argument("name", metavar="NAME", help="the policy")
    connections.add_argument(
        "--follow", type=float, metavar="S", help="go on: every S seconds open connections, and those that ended since"
    )

    stats = commands.add_parser("stats", help="policies in force, their decisions and their time")
    stats.add_argument("name", nargs="?", metavar="NAME", help="the policy (all)")
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.add_argument(
        "--prometheus", action="store_true", help="print Prometheus's text format, open connections included"
    )
    stats.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="serve it over HTTP, until interrupted, such as 127.0.0.1:9100"
    )
    return [report, rollback, connections, stats]


def run(args: argparse.Namespace, place: Place) -> bool:
    """Runs the command if `add_parsers` has declared it, and returns whether it has."""
    if args.what == "stats":
        _stats(args, place)
    elif args.what == "rollback":
        loaded = place.rollback(args.name)
        print(f"{loaded.name}: policy {loaded.policy} ({loaded.sha256[:12]}) is in force again; {loaded.traffic}")
    elif args.what == "report":
        _report(args.name, args.json, place)
    elif args.what == "connections":
        _print_connections(args.name, args.follow, place)
    else:
        return False
    return True


def print_canary(loaded: Loaded) -> None:
    """Prints which connections the policy gets."""
    print(f"{loaded.name}: {loaded.traffic}; open connections follow at their next acknowledgement")


def print_stats(found: list[Loaded], as_json: bool) -> None:
    """Prints policies and their counters."""
    if as_json:
        print(json.dumps([asdict(loaded) for loaded in found]))
        return
    if not found:
        print("no policy is loaded (`load POLICY` does)")
        return
    print_table(
        "policies in force",
        [
            *("name", "policy", "traffic", "sockets", "decisions", "ns per decision", "clamps", "outside", "held"),
            *("missed", "handed_back", "agreement", "cases or zones"),
        ],
        [
            [
                loaded.name,
                loaded.policy,
                loaded.traffic,
                f"{loaded.sockets}",
                f"{loaded.decisions}",
                "–" if loaded.ns_per_decision is None else f"{loaded.ns_per_decision:,.0f}",
                f"{loaded.clamps}",
                f"{loaded.outside}",
                "–" if loaded.held is None else f"{loaded.held}",
                f"{loaded.missed}",
                f"{loaded.handed_back}",
                "–" if loaded.agreement is None else f"{100 * loaded.agreement:.0f} %",
                ", ".join(f"{name} {100 * share:.0f} %" for name, share in (loaded.cases or loaded.zones).items()),
            ]
            for loaded in found
        ],
        left=3,
    )


def _report(name: str, as_json: bool, place: Place) -> None:
    loaded = next(iter(place.stats(name)), None)
    found = report(name, connections(place, name), loaded.generation if loaded else 0)
    if as_json:
        print(json.dumps(plain(asdict(found))))
    else:
        _print_report(found, loaded.fallback if loaded else "the fallback")
        if loaded and loaded.shadow:
            print(
                f"{name} is in shadow mode, so {loaded.fallback} acts everywhere: `stats {name}` compares the decisions"
            )


def _print_report(found: Report, fallback: str) -> None:
    print(
        f"{found.name}, policy number {found.generation}: {found.policy} connections with the policy "
        f"({found.handed_back} handed back), {found.control} with {fallback}"
    )
    rows = [
        [each.title, _interval(each.policy), _interval(each.control), _interval(each.difference), each.verdict]
        for each in found.figures
    ]
    print_table("means over connections, 95 %", ["figure", "policy", fallback, "difference", "verdict"], rows, left=1)


def _interval(of: Interval) -> str:
    if math.isnan(of.mean):
        return "–"
    return f"{of.mean:.4g}" if math.isnan(of.low) else f"{of.mean:.4g} ({of.low:.4g} to {of.high:.4g})"


def _print_connections(name: str, every_s: float | None, place: Place) -> None:
    if every_s is not None and not 0.01 <= every_s <= 3600:
        raise ConfigError(f"--follow {every_s:g}: expected 0.01 to 3600 seconds")
    for found in [connections(place, name)] if every_s is None else follow(place, name, every_s):
        for each in found:
            print(json.dumps(asdict(each)))
        sys.stdout.flush()


def _stats(args: argparse.Namespace, place: Place) -> None:
    if args.listen:
        refuse(args, ("json", "prometheus"), "beside --listen, which serves Prometheus's text format")
        address, _, port = args.listen.rpartition(":")
        if not address or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"--listen {args.listen}: expected ADDRESS:PORT, such as 127.0.0.1:9100")
        _metrics(args.name, place)
        serve_text(address, int(port), lambda: _metrics(args.name, place))
    elif args.prometheus:
        refuse(args, ("json",), "beside --prometheus")
        sys.stdout.write(_metrics(args.name, place))
    else:
        print_stats(place.stats(args.name), args.json)


def _metrics(name: str | None, place: Place) -> str:
    loaded = place.stats(name)
    return prometheus(loaded, [each for one in loaded for each in open_connections(place, one.name)])
