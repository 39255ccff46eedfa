"""Command `ccarena search`: a search for a controller on links, and its verdict on others."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from ccarena.core.arguments import number
from ccarena.core.outputs import folder
from ccarena.core.terminal import print_table, progress_bar, remember, show_page
from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import GRAMMAR
from ccarena.searches.plan import LINKS, TEST_LINKS, Plan, read_plan, read_space

__all__ = ["add_parser", "run"]

FIXED = tuple(each.name for each in fields(Plan))
"""Options that make the plan; a search that goes on takes none of them."""
NUMBERS = (
    ("candidates", "N", "candidates to try"),
    ("population", "N", "candidates of a generation or batch"),
    ("rungs", "N", "stages; each costs three times the one before"),
    ("seeds", "N", "repetitions of each link on the last rung"),
    ("duration_s", "S", "length of a run on the last rung"),
    ("test_seeds", "N", "repetitions of each unseen link"),
    ("seed", "N", "seed of the search"),
    ("repeat", "N", "searches with the next seeds, and one verdict on all"),
    ("silence_s", "S", "longest silence of a generator"),
    ("limit_s", "S", "processor time of a Python class per run"),
    ("memory_mb", "MB", "memory of a Python class"),
)
"""Options of numbers: field of the plan, unit and help."""
TEMPLATES = """\
A template is one of (docs/search.md):
  ENTRANT@KEY=LOW:HIGH   an entrant with ranges: copa@delta=0.05:2
  SPEC.yaml=ACTION       a spec, for whose action a rule is searched
  FILE.py:NAME           a class with marked holes: step = 1 / self.window  # search: self.window, queue
  any entrant            with --generator, or with --space
"""


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    epilog = f"{TEMPLATES}\n{GRAMMAR}"
    parser = subparsers.add_parser(
        "search", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
    )
    parser.add_argument("template", nargs="?", metavar="TEMPLATE", help="what to begin with; the grammar is below")
    parser.add_argument("--space", type=Path, metavar="FILE", help="parameters with values or ranges, a YAML file")
    parser.add_argument("--generator", metavar="COMMAND", help="a program that prints candidates (docs/search.md)")
    parser.add_argument(
        "--link",
        dest="links",
        action="append",
        metavar="LINK",
        help="link of the search, may be repeated: one of `ccarena compete`, a scenario file or a link set of "
        "`ccarena eval` (eight links)",
    )
    parser.add_argument("--beside", action="append", metavar="ENTRANT", help="competitor on every link, in more runs")
    parser.add_argument(
        "--weights", metavar="FIGURE=N,...", help="score: sum of figures with these weights (the leaderboard's score)"
    )
    parser.add_argument(
        "--test-link",
        dest="test_links",
        action="append",
        metavar="LINK",
        help=f"unseen link, may be repeated ({', '.join(TEST_LINKS)})",
    )
    for name, unit, what in NUMBERS:
        usual = getattr(Plan, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(usual), default=usual, metavar=unit, help=f"{what} ({usual:g})")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once (all cores)")
    parser.add_argument("--out", type=folder, metavar="DIR", help="the search's folder (runs/search-TEMPLATE)")
    parser.add_argument("--resume", action="store_true", help="go on with the search in --out, as it was started")


def run(args: argparse.Namespace) -> int:
    """Searches, compares and prints the best. Returns 1 if a generator gave no candidate."""
    from ccarena.searches.api import PAGE, carry_out

    if args.resume:
        if given := [args.given[name] for name in FIXED if name in args.given]:
            raise ConfigError(f"{given[0]} has no effect beside --resume: the search goes on as it was started")
        if args.out is None:
            raise ConfigError("--resume: which search? Give its folder with --out")
        out, plan = args.out, read_plan(args.out)
    else:
        plan = _plan(args)
        out = args.out or Path("runs", f"search-{_short(plan.template)}")
    remember(shlex.join(["ccarena", "search", "--out", str(out), "--resume"]))
    with progress_bar(f"searching from {plan.template}", "candidates") as progress:
        found = carry_out(plan, plan.template, out, args.workers, progress, args.resume)
    rows = [[str(each["candidate"]), each["program"], each["rung"], each["score"]] for each in found.candidates[:10]]
    shown = [[*row[:2], str(row[2]), "failed" if row[3] is None else f"{row[3]:.4g}"] for row in rows]
    print_table(
        "the best candidates on the links of the search", ["candidate", "program", "rung", "score"], shown, left=2
    )
    print(found)
    show_page(out / PAGE)
    return int(len(found.candidates) < 2)


def _plan(args: argparse.Namespace) -> Plan:
    if args.template is None:
        raise ConfigError("search: name what to begin with, such as `ccarena search copa@delta=0.05:2`")
    weights = {}
    for part in args.weights.split(",") if args.weights else []:
        name, equals, text = part.partition("=")
        if not equals:
            raise ConfigError(f'--weights "{part}": expected FIGURE=NUMBER, such as throughput_mbps=1')
        weights[name.strip()] = float(number(text, f'--weights "{name}"'))
    given = {name: getattr(args, name) for name in FIXED}
    return Plan(
        **given
        | {
            "space": read_space(args.space),
            "generator": args.generator or "",
            "links": tuple(args.links or LINKS),
            "beside": tuple(args.beside or ()),
            "weights": weights,
            "test_links": tuple(args.test_links or TEST_LINKS),
        }
    )


def _short(template: str) -> str:
    """Returns a template's name for a folder."""
    who = Path(template.partition("@")[0].partition("=")[0]).name.replace(":", "-")
    return who or "template"
