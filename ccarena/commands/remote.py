"""Command `ccarena remote`: a scenario's flows between two machines, over the path between them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.core.files import check_writable
from ccarena.core.outputs import folder, kept
from ccarena.core.programs import QUIC, find
from ccarena.core.seeds import check_seed
from ccarena.core.terminal import command_line, print_table, progress_bar, show_page
from ccarena.errors import CcarenaError, ConfigError
from ccarena.scenarios.entrants import GRAMMAR

if TYPE_CHECKING:
    from ccarena.scenarios.one_run import Run

__all__ = ["add_parser", "address_of", "run"]

PORT = 4433
MADE = "page.html, tables and runs"


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own commands."""
    parser = subparsers.add_parser("remote", **kwargs)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="what", required=True)

    serve = commands.add_parser(
        "serve",
        help="receive the flows of another machine, or send them there, until interrupted; prints lines of JSON",
    )
    serve.add_argument(
        "--listen",
        default=f"0.0.0.0:{PORT}",
        metavar="ADDRESS:PORT",
        help=f"UDP address, and TCP address of kernel:NAME, to listen on (0.0.0.0:{PORT})",
    )
    serve.add_argument("--most-s", type=float, default=120.0, metavar="S", help="longest run that is taken (120)")
    serve.add_argument("--most-mb", type=float, default=4000.0, metavar="MB", help="most data of a run (4000)")

    send = commands.add_parser(
        "run",
        help="run a scenario's flows between this machine and one that serves, and measure them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=GRAMMAR,
    )
    send.add_argument("remote", metavar="HOST[:PORT]", help=f"the other machine (port {PORT})")
    send.add_argument("scenario", type=Path, metavar="FILE.yaml", help="scenario; its links, if any, are left out")
    send.add_argument(
        "entrants",
        nargs="*",
        metavar="ENTRANT",
        help="run once with each in place of ${entrant} in the scenario; kernel:NAME is over the kernel's TCP",
    )
    send.add_argument("--repeats", type=int, default=1, metavar="N", help="runs of each entrant (1)")
    send.add_argument(
        "--order-seed",
        type=int,
        default=1,
        metavar="SEED",
        help="seed of the entrants' order, drawn anew for each repeat (1)",
    )
    send.add_argument(
        "--reverse", action="store_true", help="the machine that serves sends, and this one receives (download)"
    )
    send.add_argument("--duration-s", type=float, metavar="S", help="length of every run (the scenario's)")
    send.add_argument(
        "--out", type=folder, default=Path("runs", "remote"), metavar="DIR", help=f"folder for {MADE} (runs/remote)"
    )
    send.add_argument("--resume", action="store_true", help="keep the finished runs in DIR, and make the missing ones")
    send.add_argument("--json", action="store_true", help="print a row per run and flow as JSON instead of the table")
    token = {"required": True, "metavar": "FILE", "help": "file with the secret that both machines hold"}
    send.add_argument("--token", type=Path, **token)
    serve.add_argument("--token", type=kept, **{**token, "help": f"{token['help']}; made if it is not there"})


def run(args: argparse.Namespace) -> int:
    """Serves, or measures and prints. Finished runs are kept if the command ends early."""
    return _serve(args) if args.what == "serve" else _send(args)


def _serve(args: argparse.Namespace) -> int:
    from ccarena.remote import token

    for name in ("most_s", "most_mb"):
        if not getattr(args, name) > 0:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(args, name):g}: expected a number above zero")
    program = find(QUIC)
    token.make(args.token)
    token.read(args.token)
    words = ["remote", "--token", str(args.token), "--listen", args.listen]
    sys.stdout.flush()
    os.execv(program, [QUIC, *words, "--most-s", f"{args.most_s!r}", "--most-mb", f"{args.most_mb!r}"])


def _send(args: argparse.Namespace) -> int:
    from ccarena.remote import token
    from ccarena.remote.run import finished, measure, plan

    address = address_of(args.remote)
    check_seed(args.order_seed, "--order-seed")
    secret = token.read(args.token)
    planned = plan(args.scenario, args.entrants, args.repeats, args.duration_s, args.order_seed, args.reverse)
    records = args.out / "runs"
    made = finished(records, planned) if args.resume else {}
    if not args.resume and records.is_dir() and any(records.glob("*.npz")):
        raise ConfigError(
            f"{args.out}: holds measured runs; go on by --resume, give another folder with --out, or remove it"
        )
    check_writable(records)
    ended: BaseException | None = None
    try:
        with progress_bar("measuring", "runs") as progress:
            for number, each in measure(planned, address, secret, records, skip=made):
                made[number] = each
                progress(len(made), len(planned))
    except (CcarenaError, KeyboardInterrupt) as error:
        ended = error
        # A run is kept before it is counted, and the end may come between.
        made |= finished(records, planned)
    runs = [made[number] for number in sorted(made)]
    if runs:
        _show(args, runs, address)
    if ended is not None:
        done = f"{len(runs)} of {len(planned)} runs were made" + (
            f" and are in {args.out}; --resume makes the rest" if runs else ""
        )
        raise type(ended)(f"{ended}; {done}" if str(ended) else f"interrupted; {done}")
    return 0


def _show(args: argparse.Namespace, runs: Sequence[Run], address: str) -> None:
    """Prints the figures of the runs, a row per entrant and flow, and writes the files."""
    from ccarena.core.plain_data import plain
    from ccarena.remote.run import AXIS
    from ccarena.scenarios.results import Results
    from ccarena.scenarios.tables import flow_rows, interval_note, notes, table_of

    places = {entrant: place for place, entrant in enumerate(args.entrants)}
    runs = sorted(runs, key=lambda each: places.get(each.axes.get(AXIS), 0))
    if args.json:
        print(json.dumps(plain(flow_rows(runs)), indent=1), flush=True)
    command = command_line(args).replace(" --resume", "")
    Results(tuple(runs)).write(args.out, title=args.scenario.name, repeat=[command])
    if args.json:
        return
    head, cells = table_of(runs)
    print_table(_heading(args, address, len(runs)), head, cells, left=head.index("link") + 1)
    if said := interval_note(runs):
        print(said)
    for note in notes(runs):
        print(f"WARNING: {note}")
    print(_clocks(runs))
    print(f"wrote {MADE} to {args.out}; `ccarena fit {args.out}` makes a scenario of the path")
    show_page(args.out / "page.html")


def _heading(args: argparse.Namespace, address: str, count: int) -> str:
    """Returns the heading of the table: the entrant, if it is the only one, the path and the number of runs."""
    whose = f"{args.entrants[0]}: " if len(args.entrants) == 1 else ""
    path = f"{'from' if args.reverse else 'to'} {address}"
    return f"{whose}{args.scenario} {path}: {count} run{'' if count == 1 else 's'}"


def address_of(text: str) -> str:
    """Returns `HOST:PORT` of `HOST[:PORT]`; an IPv6 address with a port stands in brackets. Raises ConfigError."""
    _, bracket, port = text.rpartition("]")
    colons = text.count(":")
    if bracket:
        found = text if port else f"{text}:{PORT}"
    else:
        found = text if colons == 1 else f"[{text}]:{PORT}" if colons else f"{text}:{PORT}"
    host, _, port = found.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 2**16):
        raise ConfigError(f'"{text}": expected HOST or HOST:PORT, with a port from 1 to 65535')
    return found


def _clocks(runs: Sequence[Run]) -> str:
    """Returns a sentence on how well the clocks of both machines are known to agree."""
    paths = [each.result["path"] for each in runs]
    one_way_ms = [path["one_way_ms"] for path in paths]
    uncertainty_ms = max(path["clock_uncertainty_ms"] for path in paths)
    drift_ppm = max((path["clock_drift_ppm"] for path in paths), key=abs)
    return (
        f"least one-way delay {min(one_way_ms):.2f} ms ± {uncertainty_ms:.2f} ms (the clocks' offset is known that "
        f"well; they drift by up to {abs(drift_ppm):.1f} ppm). Queueing delays do not depend on the offset."
    )
