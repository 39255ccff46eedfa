"""Command `ccarena leaderboard`: runs, ranks, shows and exchanges results."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.commands import executors
from ccarena.core.arguments import Unused
from ccarena.core.files import check_file, check_writable
from ccarena.core.outputs import Output, folder
from ccarena.core.plain_data import plain
from ccarena.core.terminal import again, command_line, print_table, progress_bar
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.leaderboard import exchange
from ccarena.eval.leaderboard.figures import SCORE, SCORES
from ccarena.eval.leaderboard.groups import GROUPS, STACKS, backend_of, expand, not_here
from ccarena.eval.leaderboard.links import SCENARIO
from ccarena.eval.leaderboard.listing import agreement_of, lines, score_of, tracks_of, visible_of
from ccarena.eval.leaderboard.ranking import OVERALL, UNSEEN, first_of
from ccarena.eval.leaderboard.reported import COLUMNS, means_of, read_reported
from ccarena.eval.leaderboard.run import Board, failures_of, rankings_of
from ccarena.eval.leaderboard.run import run as run_board
from ccarena.eval.leaderboard.serve import SUBMISSIONS, TOKEN, Inbox, serve
from ccarena.eval.leaderboard.site import write_site
from ccarena.eval.leaderboard.stack_links import DURATION_S, SEEDS, STACK_LINKS
from ccarena.eval.leaderboard.store import DEFAULT, Store
from ccarena.executors import Threads
from ccarena.scenarios.backends import BACKENDS, KERNEL, SIM
from ccarena.scenarios.entrants import GRAMMAR, POLICY_HELP

if TYPE_CHECKING:
    from ccarena.eval.leaderboard.trial import Limits

__all__ = ["UNUSED", "add_parser", "run"]

UNUSED = (
    *executors.UNUSED,
    Unused(("threads",), lambda args: getattr(args, "executor", "local") != "local", "beside --executor ray"),
    Unused(("sample", "sample_seed", "policies"), lambda args: getattr(args, "reported", None), "beside --reported"),
)

SUBMIT = "measure a policy or a module, and write it with its card and what it reaches as one file for others"
VERIFY = "check a file that somebody submitted, and run a sample of what it claims again, within limits"


def add_parser(subparsers: Any, **options: Any) -> None:
    """Adds the command and its own commands to those of the `ccarena` command line."""
    parser = subparsers.add_parser("leaderboard", **options)
    parser.set_defaults(leaderboard_parser=parser)
    actions = parser.add_subparsers(dest="action", title="commands", metavar="COMMAND")

    def action(name: str, summary: str, **shape: Any) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, **shape)
        added.add_argument(
            "--store", default=DEFAULT, metavar="FILE|URL", help=f"SQLite file or postgresql:// ({DEFAULT})"
        )
        return added

    grammar = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": GRAMMAR}
    sub = action("run", "run what the store lacks, and rank what it has", **grammar)
    sub.add_argument(
        "--traces", nargs="*", metavar="SET",
        help="presets and models (generated, the default), satellite, 5g, wifi and lossy (generated), stacks (three "
        "links, the default of that group), recordings (all that were fetched) or a set of them (mahimahi, nyc-lte), "
        "names, files or folders; no value beside --scenario: none",
    )  # fmt: skip
    sub.add_argument(
        "--scenario", action="append", default=[], metavar="FILE",
        help='scenario in which each entrant takes the place of the flow "entrant", else of the first; ranked apart',
    )  # fmt: skip
    sub.add_argument(
        "--entrants", nargs="+", metavar="ENTRANT",
        help=f"these entrants alone, instead of --schemes and --policies; also groups: {', '.join(GROUPS)} (stacks: "
        "installed programs of others and the kernel's congestion controls, in real time)",
    )  # fmt: skip
    sub.add_argument("--schemes", nargs="*", metavar="ENTRANT", help="(every scheme without a policy, without aliases)")
    sub.add_argument(
        "--policies", nargs="*", metavar="ENTRANT", help="policies, modules, and folders of them (the shipped policies)"
    )
    sub.add_argument(
        "--delays-ms", nargs="+", type=float, metavar="MS",
        help="one-way propagation delays of all traces (each trace has its own, 10 to 100 ms)",
    )  # fmt: skip
    sub.add_argument(
        "--buffers", nargs="+", type=int, metavar="PACKETS",
        help="queue limits of all traces (each trace has its own, 50 to 1000 packets)",
    )  # fmt: skip
    sub.add_argument(
        "--duration-s", type=float, metavar="S", help=f"length of every run (60; of the group stacks {DURATION_S:g})"
    )
    sub.add_argument(
        "--seeds", type=int, metavar="N",
        help=f"repetitions alone (1; on fewer than 6 traces 5; of the group stacks {SEEDS})",
    )  # fmt: skip
    sub.add_argument(
        "--meeting-seeds", type=int, metavar="N", help="repetitions of pairs, and beside CUBIC (1; in real time 0)"
    )
    sub.add_argument(
        "--backend", choices=BACKENDS, help=f"backend of the runs ({SIM}; {KERNEL} if a program of others takes part)"
    )
    sub.add_argument("--threads", type=int, metavar="N", help="runs at once (2; in real time 1)")
    executors.add_options(sub)

    sub = action("rank", "rank what is stored, and print the table")
    sub.add_argument(
        "--group",
        help=f'"{OVERALL}", "{UNSEEN}" (default if there are some), a class of traces, "trace NAME", "scenario" or '
        '"scenario NAME"',
    )
    sub.add_argument(
        "--score", choices=SCORES, default=SCORE,
        help=f"score that orders entrants ({SCORE}: power; the others favour throughput, delay or sharing with CUBIC)",
    )  # fmt: skip
    sub.add_argument("--baselines", action="store_true", help="list baseline rules and oracles, too")
    sub.add_argument("--backend", choices=BACKENDS, default=SIM, help=f"backend of the results ({SIM})")
    sub.add_argument("--json", action="store_true", help="print the whole ranking as JSON instead of a table")

    sub = action("page", "write the leaderboard as pages that need no network")
    sub.add_argument("out", type=folder, metavar="DIR", help="folder; open its index.html")
    sub.add_argument(
        "--policies", nargs="*", metavar="ENTRANT",
        help="policies that the pages may carry, so that readers can repeat their runs (the shipped policies)",
    )  # fmt: skip
    sub.add_argument(
        "--scenario", nargs="+", type=str, default=(), metavar="FILE",
        help="scenarios of the board whose runs readers can repeat (none)",
    )  # fmt: skip

    sub = action("serve", "show the leaderboard's pages over the store, as they are now; it reads only")
    sub.add_argument("--port", type=int, default=8311, help="port on this machine alone (8311; 0 for any free one)")
    sub.add_argument(
        "--submissions", type=folder, metavar="FOLDER",
        help=f"take submissions into this folder, from whoever has the token ({TOKEN}, else a new one that is printed)",
    )  # fmt: skip

    sub = action("export", "write every run as a table: .csv or .parquet, and .json beside it for what the rows name")
    sub.add_argument("out", type=Output(".csv"), metavar="FILE", help="file to write, such as results.csv")
    sub.add_argument("--means", action="store_true", help="write means over seeds with readable names; only to .csv")

    sub = action("import", "take results of others, after running a sample of them again")
    sub.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="file of `export`: .csv or .parquet, with its .json"
    )
    sub.add_argument(
        "--reported", type=Path, metavar="FILE",
        help=f"table of results that others report, which are shown apart and never ranked: {','.join(COLUMNS)}",
    )  # fmt: skip
    _sampled(sub, "runs to repeat, and one at least of each entrant on each class of traces; 0 trusts the file (10)")
    sub.add_argument(
        "--policies", nargs="*", metavar="ENTRANT", help="policies, modules, and folders of them (the shipped policies)"
    )

    sub = actions.add_parser("submit", help=SUBMIT, description=SUBMIT)
    sub.add_argument("entrant", metavar="ENTRANT", help=f"{POLICY_HELP}; or a module, FILE.wasm")
    sub.add_argument("--out", type=Output(".json"), metavar="FILE", help="file to write (NAME.submission.json)")
    sub.add_argument("--name", metavar="NAME", help="name on the leaderboard: a-z, 0-9, '.', '_', '-' (the file's)")
    sub.add_argument("--author", default="", metavar="TEXT", help="name of the submitter")
    sub.add_argument("--note", default="", metavar="TEXT", help="note for readers")
    sub.add_argument("--traces", nargs="+", default=[], metavar="PRESET", help="generated traces (all)")
    sub.add_argument(
        "--delays-ms", nargs="+", type=float, default=[20.0], metavar="MS", help="one-way propagation delays (20)"
    )
    sub.add_argument("--buffers", nargs="+", type=int, default=[100], metavar="PACKETS", help="queue limits (100)")
    sub.add_argument("--duration-s", type=float, default=30.0, metavar="S", help="length of every run (30)")
    sub.add_argument("--seeds", type=int, default=2, metavar="N", help="repetitions (2)")
    _limits(sub)

    sub = actions.add_parser("verify", help=VERIFY, description=VERIFY)
    sub.add_argument("file", type=Path, metavar="FILE", help="file of `submit`")
    _sampled(sub, "runs to repeat, and one at least of each class of traces; all must agree (10)")
    sub.add_argument("--keep", type=folder, metavar="FOLDER", help="folder for the entrant, once all runs agree")
    _limits(sub)


def _sampled(sub: argparse.ArgumentParser, what: str) -> None:
    sub.add_argument("--sample", type=int, default=10, metavar="N", help=what)
    sub.add_argument(
        "--sample-seed", type=int, metavar="SEED", help="repeat the draw of an earlier check (a new secret each time)"
    )


def _limits(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--threads", type=int, default=2, metavar="N", help="runs at once (2)")
    sub.add_argument("--cpu-s", type=int, default=120, metavar="S", help="CPU time that a run may take (120)")
    sub.add_argument("--memory-mb", type=int, default=2048, metavar="MB", help="memory that a run may take (2048)")


def run(args: argparse.Namespace) -> int:
    """Runs one of the commands and returns its exit code."""
    if args.action is None:
        args.leaderboard_parser.print_help()
        return 0
    actions = {
        "run": _run,
        "rank": _rank,
        "page": _page,
        "serve": _serve,
        "export": _export,
        "import": _import,
        "submit": _submit,
        "verify": _verify,
    }
    return actions[args.action](args)


def _run(args: argparse.Namespace) -> int:
    board = _board(args)
    args.backend = board.backend
    threads = args.threads if args.threads is not None else BACKENDS[board.backend].at_once(2)
    try:
        with progress_bar("leaderboard", "cells") as bar:
            executor = executors.of_options(args, Threads(threads))
            done = run_board(board, args.store, threads=threads, progress=bar, executor=executor, say=_to_stderr)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; finished cells are kept in {args.store}; {again()}") from None
    with Store(args.store) as store:
        store.keep_command(command_line(args))
    print(f"{done.cells:,} cells: {done.ran:,} ran now, {done.cells - done.ran:,} were there ({args.store})")
    if done.invalid:
        print(f"{done.invalid:,} runs are INVALID, because the emulator was late: they count nowhere; run this again")
    for sentence in filter(None, (*done.left_out, not_here(args.entrants or ()))):
        print(sentence)
    with Store(args.store, read_only=True) as store:
        names = (store.ranking() or {"names": []})["names"]
        for group in filter(None, (first_of(names) if board.traces else None, SCENARIO if board.scenarios else None)):
            _print(store, store.group(group), f"{group}, backend {board.backend}")
        for sentence in failures_of(store, board.backend):
            print(f"FAILED: {sentence}")
    return 0


def _board(args: argparse.Namespace) -> Board:
    """Returns the board that options ask for, with the defaults of the group `stacks` if it takes part."""
    given = {
        "traces": args.traces,
        "schemes": args.schemes,
        "policies": args.policies,
        "delays_ms": args.delays_ms,
        "buffers_packets": args.buffers,
        "duration_s": args.duration_s,
        "seeds": args.seeds,
        "meeting_seeds": args.meeting_seeds,
        "scenarios": args.scenario,
    }
    usual = Board()
    if args.entrants is not None:
        if args.schemes is not None or args.policies is not None:
            raise ConfigError("--entrants beside --schemes or --policies; name all entrants by --entrants")
        given |= {"schemes": expand(args.entrants), "policies": ()}
        if STACKS in args.entrants:
            usual = Board(traces=(STACK_LINKS,), duration_s=DURATION_S, seeds=SEEDS)
    given["backend"] = args.backend or backend_of(given["schemes"] or ())
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def _to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _rank(args: argparse.Namespace) -> int:
    with Store(args.store, make=False) as store:
        rankings = rankings_of(store, args.backend)
        store.keep_rankings(rankings)
        ranking = rankings[args.score]
        groups = ranking["groups"]
        if not groups:
            what = "nothing was run" if args.score == SCORE else f"no run has a {args.score}"
            raise ConfigError(f"{args.store}: {what} on the backend {args.backend}; `ccarena leaderboard run`")
        if args.group is not None and args.group not in groups:
            raise ConfigError(f'--group: no traces "{args.group}" here{did_you_mean(args.group, groups)}')
        if args.json:
            print(json.dumps(plain(ranking), indent=1))
            return 0
        name = args.group or first_of(list(groups)) or ""
        by = "" if args.score == SCORE else f", by {args.score}"
        _print(store, groups[name], f"{name}, backend {args.backend}{by}", args.baselines)
        if args.score != SCORE and name in (first := rankings[SCORE]["groups"]):
            _print_agreement(store, groups[name], first[name])
        _print_reported(store)
        for sentence in failures_of(store, args.backend):
            print(f"FAILED: {sentence}")
    return 0


def _page(args: argparse.Namespace) -> int:
    check_writable(args.out)
    with Store(args.store, read_only=True) as store:
        files = write_site(store, args.out, command_line(args), args.policies, args.scenario)
    print(f"wrote {files} files; open {args.out / 'index.html'}")
    return 0


def _serve(args: argparse.Namespace) -> int:
    def started(url: str, inbox: Inbox | None) -> None:
        print(f"serving {args.store} at {url} (Ctrl-C ends it)", flush=True)
        if inbox is not None:
            token = f"${TOKEN}" if os.environ.get(TOKEN) else inbox.token
            print(f"submissions to {url}{SUBMISSIONS} go to {inbox.folder}; the token is {token}", flush=True)

    serve(args.store, args.port, started, args.submissions)
    return 0


def _export(args: argparse.Namespace) -> int:
    with Store(args.store, read_only=True) as store:
        if args.means:
            backend = (store.ranking() or {}).get("backend", SIM)
            print(f"wrote the means of {exchange.export_means(store, args.out, backend):,} cells to {args.out}")
            return 0
        count, files = exchange.export(store, args.out)
    print(f"wrote {count:,} runs to {' and '.join(map(str, files))}")
    return 0


def _import(args: argparse.Namespace) -> int:
    if (args.file is None) == (args.reported is None):
        raise ConfigError("leaderboard import: expected either FILE, a file of `export`, or --reported FILE")
    if args.reported is not None:
        return _import_reported(args)
    if not args.file.is_file():
        raise ConfigError(f"{args.file}: no such file; expected a table that `ccarena leaderboard export` wrote")
    with Store(args.store) as store:
        taken = exchange.take(store, args.file, args.sample, args.sample_seed, args.policies)
        store.keep_command(command_line(args))
        store.keep_rankings(rankings_of(store))
    print(taken.sample.said(taken.runs) if taken.sample else "no run was repeated: the file is trusted")
    there = taken.runs - taken.left_out - taken.new
    print(f"{taken.new:,} runs are new here, {there:,} were there")
    if taken.left_out:
        print(
            f"{taken.left_out:,} were left out, because they cannot be repeated here: they are of another version or "
            "backend, or of a trace or policy that is missing (--policies)"
        )
    return 0


def _import_reported(args: argparse.Namespace) -> int:
    rows = read_reported(args.reported)
    with Store(args.store) as store:
        new = store.add_reported(rows)
        store.keep_command(command_line(args))
    print(f"{new:,} reported results are new here, {len(rows) - new:,} were there; they are shown apart, without ranks")
    return 0


def _limits_of(args: argparse.Namespace) -> Limits:
    from ccarena.eval.leaderboard.trial import Limits

    if args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    return Limits(args.cpu_s, args.memory_mb)


def _submit(args: argparse.Namespace) -> int:
    from ccarena.eval.leaderboard.submitting import file_of, links_of, submit

    limits = _limits_of(args)
    label, file = file_of(args.entrant)
    name = label.partition(" (")[0] if args.name is None else args.name
    out = args.out or Path(f"{name}.submission.json")
    links = links_of(args.delays_ms, args.buffers, args.duration_s, args.seeds, args.traces)
    check_file(out)
    with progress_bar("submit", "runs") as bar:
        made = submit(
            file,
            out,
            name,
            links,
            author=args.author,
            note=args.note,
            threads=args.threads,
            limits=limits,
            progress=bar,
        )
    print(f"{len(made.claims):,} runs; wrote {out}")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from ccarena.eval.leaderboard.submitting import keep, verify

    limits = _limits_of(args)
    with progress_bar("verify", "runs") as bar:
        submission, drawn = verify(
            args.file, args.sample, seed=args.sample_seed, threads=args.threads, limits=limits, progress=bar
        )
    print(f"{submission.name}: {drawn.said(len(submission.claims))}")
    if args.keep is not None:
        kept = keep(submission, args.keep)
        print(f"wrote {kept}; rank it with `ccarena leaderboard run --policies {args.keep}`")
    return 0


def _print(store: Store, found: dict[str, Any] | None, title: str, baselines: bool = False) -> None:
    """Prints a table for each track of a group of links; entrants that cannot be told from their best share a rank."""
    if found is None:
        return
    entrants = {entrant["id"]: entrant for entrant in store.entrants()}
    for track in tracks_of(found, entrants):
        head = ["rank", "entrant", "score [95 %]", "no rank because"]
        cells = [
            [line.rank, line.name, score_of(line.row), "; ".join(filter(None, (line.why, line.detail)))]
            for line in lines(found, entrants, track, baselines)
        ]
        if not any(cell[-1] for cell in cells):
            head, cells = head[:-1], [cell[:-1] for cell in cells]
        print_table(f"{title}, {track}", head, cells, left=len(head))
        print(visible_of(found, track))


def _print_agreement(store: Store, found: dict[str, Any], first: dict[str, Any]) -> None:
    """Prints how far the order of a ranking is that of the first score."""
    entrants = {entrant["id"]: entrant for entrant in store.entrants()}
    for track in tracks_of(found, entrants):
        if sentence := agreement_of(found, first, entrants, track):
            print(sentence)


def _print_reported(store: Store) -> None:
    """Prints the results that others report, in a table of their own."""
    cells = [
        [row["link"], row["entrant"], row["source"], *(f"{row[name]:.4g}" for name in ("throughput_mbps", "delay_ms"))]
        for row in means_of(store.reported())
    ]
    if cells:
        head = ("link", "entrant", "source", "throughput (Mbit/s)", "delay (ms)")
        print_table("reported by others: not run here, and not ranked", head, cells, left=3)
