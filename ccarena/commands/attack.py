"""Command `ccarena attack`: the links on which an entrant does worst, and the replay of finds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ccarena.core.arguments import Unused
from ccarena.core.outputs import folder, kept
from ccarena.core.plain_data import plain
from ccarena.core.terminal import command_line, print_table, progress_bar, remember, show_page
from ccarena.errors import ConfigError
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.entrants import GRAMMAR, HELP

__all__ = ["add_parser", "run"]

FIXED = ("entrant", "harms", "space", "candidates", "finds", "seed")
"""Options that make the plan; an attack that goes on takes none of them, nor `seeds`."""
UNUSED = (
    Unused(
        ("harms", "space", "candidates", "finds", "seed", "out", "resume", "write_docs"),
        lambda args: args.replay is not None,
        "beside --replay, which searches nothing",
    ),
    Unused(("backend",), lambda args: args.replay is None, "without --replay: the search runs in the simulator"),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "attack", epilog=GRAMMAR, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
    )
    parser.add_argument("entrant", nargs="?", metavar="ENTRANT", help=HELP)
    parser.add_argument(
        "--harm",
        dest="harms",
        action="append",
        metavar="HARM",
        help="harm to look for, may be repeated: regret, starves_others, starved, standing_queue, idle_link, "
        "oscillation, loss, unfair, crash (all)",
    )
    parser.add_argument("--space", type=Path, metavar="FILE", help="limits of the links, a YAML file (docs/attack.md)")
    parser.add_argument("--candidates", type=int, default=2000, metavar="N", help="links that the search tries (2000)")
    parser.add_argument("--finds", type=int, default=6, metavar="N", help="most finds of each harm (6)")
    parser.add_argument(
        "--seeds", type=int, default=5, metavar="N", help="other seeds that finds are run with (5; none with --replay)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the search (1)")
    parser.add_argument(
        "--replay", type=Path, metavar="DIR", help="run the finds of an earlier attack, and say which of them hold"
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default=SIM, help="where finds are replayed; BPF needs root (sim)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once (all cores)")
    parser.add_argument("--out", type=folder, metavar="DIR", help="the attack's folder (runs/attack-ENTRANT)")
    parser.add_argument("--resume", action="store_true", help="go on with the attack in --out, as it was started")
    parser.add_argument("--json", action="store_true", help="print the finds as JSON")
    parser.add_argument("--write-docs", type=kept, metavar="FILE.json", help="add the worst finds to this file")


def run(args: argparse.Namespace) -> int:
    """Attacks, or replays finds. A replay returns 1 if a find holds."""
    return _replay(args) if args.replay is not None else _attack(args)


def _attack(args: argparse.Namespace) -> int:
    from ccarena.attacks import api, published
    from ccarena.attacks.space import changes_of
    from ccarena.scenarios.entrants import parse

    if args.resume:
        if given := [args.given[name] for name in (*FIXED, "seeds") if name in args.given]:
            raise ConfigError(f"{given[0]} has no effect beside --resume: the attack goes on as it was started")
        if args.out is None:
            raise ConfigError("--resume: which attack? Give its folder with --out")
        out, plan = args.out, api.read_plan(args.out)
    else:
        if args.entrant is None:
            raise ConfigError("attack: name the entrant, such as `ccarena attack cubic`")
        changes = changes_of(args.space)
        plan = api.Plan(
            args.entrant, tuple(args.harms or ()), changes, args.candidates, args.finds, args.seeds, args.seed
        )
        who = Path(args.entrant.partition("@")[0].partition("=")[0]).name.replace(":", "-")
        out = args.out or Path("runs", f"attack-{who}")
    entrant = parse(plan.entrant)
    plan.check()
    remember(shlex.join(["ccarena", "attack", "--out", str(out), "--resume"]))
    with progress_bar(f"attacking {entrant.label}", "cases") as progress:
        found = api.carry_out(
            plan, entrant, out, args.workers, progress, args.resume, command_line(args), partial(_show, args)
        )
    if args.write_docs is not None:
        published.merge(args.write_docs, plan, found)
    if not args.json:
        show_page(out / api.PAGE)
    return 0


def _replay(args: argparse.Namespace) -> int:
    from ccarena.attacks import api

    more = args.seeds if "seeds" in args.given else 0
    with progress_bar("replaying", "cases") as progress:
        found = api.replay(
            args.replay,
            args.entrant,
            backend=args.backend,
            seeds=more,
            workers=args.workers,
            say=partial(print, file=sys.stderr),
            progress=progress,
        )
    _show(args, found)
    holding = [find for find in found.finds if find.holds]
    if not args.json:
        where = "" if args.backend == SIM else f" {BACKENDS[args.backend].where}"
        print(f"{len(holding)} of {len(found.finds)} finds hold{where}")
    return int(bool(holding))


def _show(args: argparse.Namespace, found: Any) -> None:
    from ccarena.attacks.page import rows_of

    if args.json:
        print(
            json.dumps(plain({"entrant": found.entrant, "finds": [each.as_dict() for each in found.finds]}), indent=1),
            flush=True,
        )
        return
    if not found.finds:
        print(found)
        return
    head, rows = rows_of(found.finds)
    judged = [[*row, "holds" if find.holds else "gone"] for row, find in zip(rows, found.finds, strict=True)]
    print_table(f"{found.entrant}: links on which it does worst", [*head, "now"], judged, left=3)
