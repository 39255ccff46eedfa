"""`ccarena compete`: schemes against each other on one bottleneck."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.compete import bottlenecks, entrants
from ccarena.eval.compete.matches import Plan, compete
from ccarena.eval.compete.page import competition_page, heat_maps
from ccarena.eval.compete.tables import HEAD, as_csv, cells, matrices, summarise
from ccarena.files import write_atomically
from ccarena.pages import images, write
from ccarena.plain_data import plain
from ccarena.terminal import command_line, print_table, progress_bar

__all__ = ["add_parser", "run"]

ROWS, RESULT, PAGE = "rows.csv", "compete.json", "compete.html"


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "compete",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{entrants.GRAMMAR}\n{bottlenecks.GRAMMAR}",
        **kwargs,
    )
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="competitors: each meets each, and itself")
    parser.add_argument(
        "--link", action="append", default=[], metavar="LINK", help=f"a bottleneck; repeatable ({bottlenecks.DEFAULT})"
    )
    parser.add_argument(
        "--scenario", action="append", default=[], type=Path, metavar="FILE.yaml", help="its links instead; repeatable"
    )
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="a match of its own; repeatable")
    parser.add_argument(
        "--policy", action="append", default=[], metavar="SCHEME=POLICY", help="of entries that name none; repeatable"
    )
    parser.add_argument(
        "--rtt-ms", nargs="+", default=[], metavar="T,T",
        help="base RTTs of a match's flows, in every rotation: 20,80 (the link's own for all)",
    )  # fmt: skip
    parser.add_argument("--stagger-s", type=float, default=10.0, metavar="S", help="from one start to the next (10)")
    parser.add_argument("--duration-s", type=float, default=60.0, metavar="S", help="time with all flows there (60)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="repetitions (3)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="runs at once (2)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs", "compete"), metavar="DIR",
        help=f"folder for {ROWS}, {RESULT} and {PAGE} (runs/compete)",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the heat map also as .svg, .png, .pdf or .html")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Runs every match and prints the tables. Whatever ends it early, what was finished is kept."""
    if args.plot is not None:
        images.check_suffix(args.plot)
    if args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    plan = _plan(args)
    rows: list[dict[str, Any]] = []
    try:
        with progress_bar("competing", "runs") as progress:
            compete(plan, args.threads, progress, rows)
    except (KeyboardInterrupt, CcarenaError):
        if rows:
            _save(args.out, plan, rows, complete=False)
            print(f"what was finished ({len(rows)} flows) is in {args.out}", file=sys.stderr)
        raise
    result = _save(args.out, plan, rows, complete=True)
    summary = summarise(rows)
    found = matrices(summary, plan.paired)
    page = competition_page(result["meta"], summary, found, [command_line(args)])
    write(args.out / PAGE, page)
    if args.plot is not None:
        if not found:
            raise ConfigError("--plot: no pair was run, and a heat map shows pairs; name two entries or more")
        images.save(args.plot, page, heat_maps(found))
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    for link in dict.fromkeys(row["link"] for row in rows):
        print_table(link, HEAD, cells([entry for entry in summary if entry["link"] == link]), left=2)
    print(f"wrote {', '.join(str(args.out / name) for name in (ROWS, RESULT, PAGE))}")
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    policies = entrants.parse_policies(args.policy)
    lineup, paired, groups = entrants.line_up(args.entries, args.group, policies)
    given = list(args.link) or ([] if args.scenario else [bottlenecks.DEFAULT])
    links = [bottlenecks.parse_link(text) for text in given] + [bottlenecks.from_scenario(p) for p in args.scenario]
    names = [link.name for link in links]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'link "{name}" is given twice; results go by its name')
    plan = Plan(
        lineup, links, paired, groups, _rtts(args.rtt_ms), args.duration_s, args.stagger_s, args.seeds
    )  # fmt: skip
    plan.check()
    return plan


def _rtts(texts: Sequence[str]) -> list[tuple[float, ...]]:
    return [tuple(entrants.number(part, f'--rtt-ms "{text}": "{part}"') for part in text.split(",")) for text in texts]


def _save(folder: Path, plan: Plan, rows: Sequence[dict[str, Any]], complete: bool) -> dict[str, Any]:
    """Writes rows and result, and returns the result in its JSON form."""
    meta = {
        "entrants": [{"label": entrant.label, **entrant.flow} for entrant in plan.entrants],
        "links": [{"name": b.name, "base_rtt_ms": b.base_rtt_ms, "links": list(b.links)} for b in plan.bottlenecks],
        "groups": [list(group) for group in plan.groups],
        "rtts_ms": [list(rtts) for rtts in plan.rtts_ms],
        "duration_s": plan.duration_s,
        "stagger_s": plan.stagger_s,
        "seeds": plan.seeds,
        "complete": complete,
    }
    result: dict[str, Any] = plain({"meta": meta, "summary": summarise(rows), "rows": list(rows)})
    write_atomically(folder / ROWS, as_csv(rows))
    write_atomically(folder / RESULT, json.dumps(result, indent=1) + "\n")
    return result
