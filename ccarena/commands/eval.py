"""Command `ccarena eval`: a policy and the heuristics on held-out links, or one scenario file and its figures."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.commands import executors, paper_plots
from ccarena.core import measurements
from ccarena.core.arguments import Unused
from ccarena.core.files import check_file, check_writable
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.outputs import Output, folder, kept
from ccarena.core.plain_data import plain
from ccarena.core.terminal import command_line, print_table, visible
from ccarena.errors import ConfigError
from ccarena.eval.heldout.links import LINK_SETS
from ccarena.executors import Threads
from ccarena.pages.paper_files import check
from ccarena.runs.run_folder import PAGE, ROWS, SUMMARY
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.entrants import GRAMMAR, HELP, parse
from ccarena.scenarios.plots import KINDS
from ccarena.traces import given as given_traces
from ccarena.traces.given import add_options, of_options

if TYPE_CHECKING:
    from ccarena.eval.heldout.outcome import Outcome

__all__ = ["UNUSED", "add_parser", "run"]

UNUSED = (
    *given_traces.UNUSED,
    *executors.UNUSED,
    *paper_plots.UNUSED,
    Unused(("threads",), lambda args: args.executor != "local", "beside --executor ray, which uses every core"),
    Unused(("link_sets", "traces"), lambda args: args.scenario is not None, "beside --scenario, which has its links"),
    Unused(("pcap",), lambda args: args.scenario is None, "without --scenario, whose packets it has"),
    Unused(("digest",), lambda args: args.scenario is None, "without --scenario, whose result it is of"),
    Unused(
        ("out", "plot", "kind", "pcap", "json", "seeds", "backend", "threads", "executor"),
        lambda args: args.digest,
        "beside --digest, which prints the digest of one run in the simulator and nothing else",
    ),
    Unused(("schemes",), lambda args: args.scenario is not None, "beside --scenario, whose flows name their schemes"),
    Unused(
        ("record",),
        lambda args: args.scenario is not None or bool(args.traces) or args.backend != SIM,
        "beside --scenario, --traces or another backend: figures are those of the held-out links in the simulator",
    ),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "eval", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=GRAMMAR, **kwargs
    )
    parser.add_argument(
        "entries",
        nargs="*",
        metavar="ENTRANT",
        help=f"{HELP}. Policies are judged; schemes that are named replace those of the policies' configurations",
    )
    parser.add_argument(
        "--suite",  # the older spelling
        "--link-sets",
        dest="link_sets",
        nargs="+",
        metavar="LINK_SET",
        help=f"link sets, of {', '.join(LINK_SETS)} (those of the policies' configurations, none with --traces)",
    )
    add_options(parser)
    parser.add_argument("--scenario", type=Path, metavar="FILE.yaml", help="run this scenario instead of the link sets")
    parser.add_argument(
        "--schemes",
        nargs="*",
        metavar="ENTRANT",
        help="schemes to compare with (those of the configurations, or cubic bbr reno)",
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="repetitions per link (5), or of the scenario, from its own seed on (1)"
    )
    parser.add_argument(
        "--duration-s", type=float, metavar="S", help="time per run (the link set's own, 30 or 60; the scenario's own)"
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=SIM,
        help="sim: the simulator; in real time, over an emulated link: kernel, Linux TCP; quic (sim)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="links that run at once (2; in real time 1)")
    executors.add_options(parser)
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help="folder for results (eval/ beside the policy, or in runs/)"
    )
    paper_plots.add_options(parser, KINDS, None)
    parser.add_argument(
        "--pcap",
        type=Output(".pcap"),
        metavar="FILE",
        help="with --scenario: a capture of the first run, for Wireshark",
    )
    parser.add_argument(
        "--digest",
        action="store_true",
        help="with --scenario: print only the SHA-256 of the simulator's result, which `ccarena play` shows",
    )
    parser.add_argument(
        "--record",
        type=kept,
        metavar="FILE",
        help="merge the verdicts into a file of figures (docs/measurements.json)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Evaluates, writes and prints. Returns the exit code: 0 if the runs finished, whatever the verdict."""
    if args.threads is not None and args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    if args.record is not None:
        measurements.check(args.record)
    if args.plot is not None:
        check(args.plot)
        check_file(args.plot)
    if args.pcap is not None:
        check_file(args.pcap)
    over = of_options(args)
    threads = args.threads or BACKENDS[args.backend].at_once(2)
    if args.scenario is not None:
        _scenario(args)
        return 0
    from ccarena.eval.heldout.outcome import evaluate
    from ccarena.eval.heldout.summary import digest

    out = args.out or _folder(args.entries, args.backend)
    check_writable(out)
    outcome = evaluate(
        *args.entries,
        link_sets=args.link_sets,
        traces=over,
        schemes=args.schemes,
        seeds=5 if args.seeds is None else args.seeds,
        duration_s=args.duration_s,
        backend=args.backend,
        progress=True,
        executor=executors.of_options(args, Threads(threads)),
        repeat=[command_line(args)],
    )
    written = False
    try:
        outcome.write(out)
        written = True
    finally:  # a full disk loses no figures
        if args.json:
            print(json.dumps(plain(digest(outcome.evaluation, outcome.verdict)), indent=1), flush=True)
        else:
            _print(outcome, out if written else None)
    if args.record is not None:
        _record(args, outcome)
    if args.plot is not None:
        outcome.plot(args.kind or "scatter", args.plot)
        if not args.json:
            print(f"wrote {args.plot}")
    return 0


def _print(outcome: Outcome, out: Path | None) -> None:
    """Prints the summary, and the files in `out` if they are written."""
    from ccarena.eval.heldout.summary import parts_table, print_answers, print_summary

    print_summary(outcome.evaluation, outcome.verdict, None if out is None else out / PAGE)
    if out is not None:
        print(f"tables: {out / ROWS}, {out / SUMMARY}")
    for label, verdict in outcome.verdicts.items():
        print_answers(verdict.answers, label if len(outcome.verdicts) > 1 else "")
    for several in outcome.trainings:
        if several.parts:
            title = f"{several.config}: over {several.best.label}, by links, {len(several.seeds)} trainings"
            print_table(title, *parts_table(several.parts), left=1)
        print(visible(f"{several.config}: {several.line}"))


def _record(args: argparse.Namespace, outcome: Outcome) -> None:
    from ccarena.eval.heldout import figures

    source = measurements.source(command_line(args), datetime.date.today().isoformat())
    about = outcome.evaluation.meta.get("policies", [outcome.evaluation.meta])
    for policy in about if outcome.verdicts else ():
        verdict = outcome.verdicts[policy["scheme"]]
        measurements.merge(args.record, figures.entries(policy["record"], policy["policy_seed"], verdict, source))
    for several in outcome.trainings:
        measurements.merge(args.record, figures.of_trainings(several, source))


def _folder(entries: Sequence[str], backend: str) -> Path:
    """Returns the default folder of results: the folder of the only policy, unless it is shipped; else below runs/."""
    folder = "eval" if backend == SIM else f"eval-{backend}"
    files = [file for text in entries if (file := parse(text).policy_file) is not None]
    if len(files) == 1 and files[0] not in shipped_policies().values():
        beside, here = files[0].parent, Path.cwd()
        return (beside.relative_to(here) if beside.is_relative_to(here) else beside) / folder
    return Path("runs", folder)


def _scenario(args: argparse.Namespace) -> None:
    """Runs one scenario file. Raises ConfigError if schemes are given, since the scenario names its own."""
    from ccarena.commands.eval_scenarios import show_digest, show_scenario

    policies = [parse(text) for text in args.entries]
    if without := [entrant for entrant in policies if entrant.policy_file is None]:
        name = without[0].text
        raise ConfigError(f"{name} beside --scenario: the scenario's flows name their schemes; leave {name} out")
    if args.digest:
        show_digest(args.scenario, args.entries, args.duration_s)
        return
    show_scenario(
        args.scenario,
        args.entries,
        out=args.out or Path("runs", "scenario", args.scenario.stem),
        backend=args.backend,
        seeds=args.seeds,
        duration_s=args.duration_s,
        threads=args.threads,
        executor=None if args.executor == "local" else executors.of_options(args, Threads(1)),
        plot=args.plot,
        kind=args.kind or "rate",
        pcap=args.pcap,
        as_json=args.json,
        repeat=[command_line(args)],
    )
