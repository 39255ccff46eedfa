"""Command `ccarena compete`: schemes against each other on one bottleneck."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena.commands import paper_plots
from ccarena.core.arguments import number
from ccarena.core.outputs import folder
from ccarena.core.terminal import command_line, print_table, show_page, visible
from ccarena.errors import ConfigError
from ccarena.eval.compete import bottlenecks
from ccarena.eval.compete.competition import PAGE, RESULT, ROWS, Competition, check_plot, compete
from ccarena.eval.compete.lineup import GROUPS
from ccarena.eval.compete.matches import IN_REAL_TIME, SIMULATED, Plan
from ccarena.eval.compete.page import findings, text_plots, where
from ccarena.eval.compete.paper_plots import HEAT_MAP
from ccarena.eval.compete.tables import HEAD, cells, summarise
from ccarena.pages.terminal_plots import print_matrices
from ccarena.scenarios import row_plots
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.entrants import GRAMMAR
from ccarena.traces import given
from ccarena.traces.given import add_options, of_options

__all__ = ["UNUSED", "add_parser", "run"]

UNUSED = (*given.UNUSED, *paper_plots.UNUSED)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "compete",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{GRAMMAR}\n{GROUPS}\n\n{bottlenecks.GRAMMAR}",
        **kwargs,
    )
    parser.add_argument(
        "entries", nargs="*", metavar="ENTRANT", help="competitors: every pair runs, and each against itself"
    )
    parser.add_argument(
        "--link", action="append", default=[], metavar="LINK", help=f"a bottleneck; repeatable ({bottlenecks.DEFAULT})"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.yaml",
        help="use this scenario's links instead; repeatable",
    )
    add_options(parser)
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="GROUP",
        help="run this group of competitors as one match; repeatable",
    )
    parser.add_argument(
        "--rtt-ms", nargs="+", default=[], metavar="T,T",
        help="base RTTs of a match's flows, in every rotation: 20,80 (the link's own for all)",
    )  # fmt: skip
    parser.add_argument(
        "--stagger-s", type=float, metavar="S",
        help=f"time from one start to the next ({SIMULATED.stagger_s:g}; in real time {IN_REAL_TIME.stagger_s:g})",
    )  # fmt: skip
    parser.add_argument(
        "--duration-s", type=float, metavar="S",
        help=f"time with all flows running ({SIMULATED.duration_s:g}; in real time {IN_REAL_TIME.duration_s:g})",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, metavar="N", help=f"repetitions ({SIMULATED.seeds}; in real time {IN_REAL_TIME.seeds})"
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default=SIM,
        help="sim: the simulator; in real time, over an emulated link, also entrant files: kernel, Linux TCP; quic "
        f"({SIM})",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, metavar="N", help="runs at once (2; in real time 1)")
    parser.add_argument(
        "--out", type=folder, default=Path("runs", "compete"), metavar="DIR",
        help=f"folder for {ROWS}, {RESULT} and {PAGE} (runs/compete)",
    )  # fmt: skip
    paper_plots.add_options(parser, (HEAT_MAP, *row_plots.KINDS), HEAT_MAP)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Runs every match and prints the tables. Finished matches are kept if the command ends early."""
    if args.threads is not None and args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    over = of_options(args)
    if args.plot is not None:
        check_plot(args.plot, args.kind, args.entries)
    repeat = [command_line(args)]

    def show(result: Competition) -> None:
        if args.json:
            print(json.dumps(result.result(repeat=repeat), indent=1), flush=True)
        else:
            _print(result)

    result = compete(
        *args.entries,
        links=args.link,
        scenarios=args.scenario,
        traces=over,
        groups=args.group,
        rtts_ms=[_rtts(text) for text in args.rtt_ms],
        stagger_s=args.stagger_s,
        duration_s=args.duration_s,
        seeds=args.seeds,
        backend=args.backend,
        threads=args.threads,
        progress=True,
        out=args.out,
        show=show,
    )
    result.write(args.out, repeat=repeat)
    if args.plot is not None:
        result.plot(args.kind, args.plot)
    if args.json:
        return 0
    files = [name for name in (ROWS, RESULT) if (args.out / name).is_file()]
    print(f"wrote {' and '.join(files)} to {args.out}")
    if args.plot is not None:
        print(f"wrote {args.plot}")
    show_page(args.out / PAGE)
    return 0


def _print(result: Competition) -> None:
    """Prints tables, plots, findings and how sure they are."""
    plan, summary, found = result.plan, summarise(result.flows), result.matrices()
    seeds = "1 seed" if plan.seeds == 1 else f"{plan.seeds} seeds, ± half of the 95 % interval"
    for link in dict.fromkeys(row["link"] for row in result.flows):
        shown = [entry for entry in summary if entry["link"] == link]
        print_table(f"{link} (backend {plan.backend}, {seeds})", HEAD, cells(shown), left=2)
        print()
        maps = [matrix for matrix in found if matrix.link == link]
        for matrix in maps:
            if len(maps) > 1:
                print(where(matrix))
            print_matrices(text_plots(matrix))
    for sentence in findings(summary):
        print(sentence)
    for sentence in result.left_out():
        print(visible(f"IN NO MEAN: {sentence}"))
    print(f"{_sureness(plan)} (docs/compete.md)")


def _sureness(plan: Plan) -> str:
    runs = f"Means of {plan.seeds} seeds" if plan.seeds > 1 else "One seed, so no intervals"
    more = f"--duration-s {3 * plan.duration_s:g} --seeds {max(10, 2 * plan.seeds)}"
    return f"{runs}, over {plan.duration_s:g} s in which all flows run. For narrower intervals: {more}"


def _rtts(text: str) -> tuple[float, ...]:
    return tuple(number(part, f'--rtt-ms "{text}": an RTT') for part in text.split(","))
