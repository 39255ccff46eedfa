"""Command `ccarena reproduce`: the papers' figures and claims, one suite each."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ccarena.commands import executors, suite_runs
from ccarena.commands.suite_runs import check_counts, show_failures
from ccarena.core import measurements
from ccarena.core.arguments import Unused, refuse
from ccarena.core.files import check_file
from ccarena.core.outputs import folder, kept
from ccarena.core.programs import find
from ccarena.core.terminal import again, command_line
from ccarena.errors import ConfigError, PolicyError
from ccarena.eval.reproduce import (
    adaptive,
    checks,
    costs,
    index,
    kernel,
    own_traces,
    page,
    pages,
    papers,
    policy,
    runner,
    runs,
    suite,
    tables,
)
from ccarena.eval.reproduce.values import CellKey, Row
from ccarena.executors import Executor, Processes
from ccarena.runs.journal import Journal
from ccarena.runs.run_folder import write_commands
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.traces.given import GivenTrace, read_traces

__all__ = ["add_parser", "run"]

UNUSED = (
    *suite_runs.UNUSED,
    Unused(
        (
            *("suites", "all", "backend", "quick", "seeds", "discriminate", "out", "policy", "traces", "jobs"),
            *("executor", "write_docs"),
        ),
        lambda args: args.list,
        "beside --list",
    ),
    Unused(
        ("backend", "quick", "seeds", "discriminate", "policy", "traces", "jobs", "executor", "json"),
        lambda args: args.write_docs is not None and not args.all and not args.suites,
        "beside --write-docs alone, which runs nothing",
    ),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("reproduce", **kwargs)
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help="PAPER/NAME, PAPER for all of a paper, or the path of a suite's YAML file",
    )
    parser.add_argument("--all", action="store_true", help="every suite")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=SIM,
        help="sim: the simulator; kernel, quic: suites with a section of that name, on Linux TCP or over QUIC on "
        "emulated links, in real time and one run after the other; BPF needs root (sim)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer seeds, and in some suites shorter runs or sweeps, so that states may differ; the results say so",
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="repetitions per cell (the suite's own, and more for undecided claims)"
    )
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder of results (runs/reproduce, or runs/reproduce-quick; with --traces runs/reproduce-traces)",
    )
    parser.add_argument(
        "--discriminate",
        action="store_true",
        help="run one seed of each suite with CUBIC in the place of the paper's schemes, too, and mark the claims that "
        "hold all the same",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY_OR_RUN",
        help="for suites that need a trained one: a file, a run's folder, or the name of a run in runs/; several times "
        "for several schemes, each is taken for the one that it was trained for, or for several of one scheme, which "
        "are put side by side (the shipped ones: acct-wired, hyvar, orca and aurora; else the newest run; without one, "
        "--all leaves the suites that need it out)",
    )
    parser.add_argument(
        "--traces",
        nargs="+",
        metavar="TRACE",
        help="run the suites of recorded links over these in the place of their own: files, names of traces, or "
        "folders for all in them; NAME=TRACE calls it NAME",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (sim: one per core; else 1)")
    executors.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print claims as JSON instead of tables")
    parser.add_argument(
        "--write-docs",
        type=kept,
        metavar="FILE.md",
        help="then write a summary of all results to FILE.md, the results to FILE.json, and figures to "
        "measurements.json beside them. Without a suite: from the results in --out. Suites not run again keep theirs",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the suites. Returns the exit code: 0 if every run finished, whatever the claims; 1 if any failed."""
    if args.list:
        return _list(args.json)
    check_counts(args)
    if args.all and args.suites:
        raise ConfigError(f"--all beside {' '.join(args.suites)}: give one of them")
    if not args.all and not args.suites and args.write_docs is None:
        raise ConfigError("no suite: give PAPER/NAME, PAPER or --all; --list shows them")
    if args.traces and args.write_docs is not None:
        raise ConfigError("--traces beside --write-docs: the pages are about the suites' own conditions; leave one out")
    if args.write_docs is not None:
        check_file(args.write_docs)
        measurements.check(args.write_docs.with_name(measurements.FILE.name))
    given = read_traces(args.traces) if args.traces else []
    usual = "reproduce" + ("-quick" if args.quick else "") + ("-traces" if given else "")
    out = args.out or Path("runs", usual)
    names = suite.shipped(args.backend) if args.all else suite.find(args.suites, args.backend)
    if args.all and given:
        names = [name for name in names if own_traces.takes(suite.load(name).suite.sweep)]
    combinations = policy.combined(args.policy)
    if args.write_docs is not None and len(combinations) > 1:
        raise ConfigError("--write-docs: the pages show one policy of each scheme; give one of each with --policy")
    failed: list[runner.Failure] = []
    results: list[index.Result] = []
    try:
        for called, policies in combinations.items() if names else ():
            into = out / f"policies-{called}" if called else out
            keep = partial(_keep, results, called)
            failed += _reproduce(names, into, args, policies, given, keep)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; finished runs are kept in {out}; {again()}") from None
    finally:  # a full disk loses no figures
        if results:
            _print(results, args.json)
    if results:
        drawn = _write_index(results, out)
        if not args.json:
            print(f"  all suites: {drawn}")
    if args.write_docs is not None:
        _write_docs(args.write_docs, out)
    show_failures(failed)
    return 1 if failed else 0


def _reproduce(
    names: list[str],
    out: Path,
    args: argparse.Namespace,
    given: policy.Policies,
    traces: list[GivenTrace],
    keep: Callable[[dict[str, Any], Path], None],
) -> list[runner.Failure]:
    """Runs the suites with these policies. Returns the failed runs.

    `keep`: called with each suite's result and folder before its files are written.
    """
    loaded = [suite.load(name, args.backend, traces, args.quick) for name in names]
    if program := BACKENDS[args.backend].program:
        find(program)
    trained: dict[str, dict[str, policy.Policy]] = {}
    for one in loaded:
        try:
            trained[one.name] = policy.choose(one.suite.policies, given)
        except PolicyError as error:
            if not args.all:
                raise
            print(f"LEFT OUT {one.name}: {error}", file=sys.stderr)
    loaded = [one for one in loaded if one.name in trained]
    _refuse_in_vain(args, loaded, given)
    # All suites are expanded before the first runs: an error in the last one must not come after hours.
    expanded = [runs.expand(one, args.quick, args.seeds, trained[one.name]) for one in loaded]
    wrong = [
        runs.expand(one, args.quick, 1, trained[one.name], runs.Entering(partial(papers.with_cubic, one.name)))
        if args.discriminate
        else []
        for one in loaded
    ]
    jobs = BACKENDS[args.backend].at_once(args.jobs or os.cpu_count() or 1)
    executor = executors.of_options(args, Processes(jobs, runner.PRELOAD))
    failures: list[runner.Failure] = []
    with runner.progress([run for of_suite in [*expanded, *wrong] for run in of_suite]) as progress:
        for one, of_suite, of_wrong in zip(loaded, expanded, wrong, strict=True):
            folder, policies = tables.folder_of(out, one.name, args.backend), trained[one.name]
            others = _rows_of_wrong(folder / costs.WITH_CUBIC, of_wrong, executor, progress) if of_wrong else []
            with Journal(folder, "ccarena reproduce") as journal:
                failed: list[runner.Failure] = []

                def perform(
                    some: Sequence[runs.Run],
                    journal: Journal = journal,
                    folder: Path = folder,
                    failed: list[runner.Failure] = failed,
                ) -> Sequence[Row]:
                    failed += runner.execute(some, journal, folder, executor, progress)
                    return runs.rows_of(some, journal)

                outcome = _outcome(one, of_suite, perform, args, policies, progress)
                of_suite, rows, judged = outcome.runs, outcome.rows, outcome.judged
                failures += failed
                if others:
                    judged = [
                        checks.held_against(claim, verdict, rows, others, args.quick)
                        for claim, verdict in zip(one.claims, judged, strict=True)
                    ]
                about = {
                    "quick": args.quick,
                    "seeds": max((run.seed for run in of_suite), default=0),
                    "runs": len(of_suite),
                    "failed": [f"{failure.run.title}: {failure.reason}" for failure in failed],
                    "software": runs.software(one.suite.compute is not None, args.backend),
                    "policies": [each.about() for each in policies.values()],
                    "command": _command(one, args, policies),
                }
                if args.discriminate:
                    about["discriminate"] = True
                if traces:
                    about["traces"] = args.traces
                if missing := sorted({name for run in of_suite for name in run.spec.get("missing", [])}):
                    about["missing"] = missing
                if BACKENDS[args.backend].real_time:
                    about["machine"] = kernel.about(rows, args.backend)
                digest = tables.digest_of(one, judged, about)
                keep(digest, folder)
                tables.write_suite(folder, digest, rows)
                write_commands(folder, [command_line(args)])
                page.write_page(folder, one, judged, rows, digest, of_suite)
                runs.write_scenarios(folder, of_suite)
                journal.settle(run.key for run in [*of_suite, *runs.known(one, journal, policies)])
    return failures


def _outcome(
    one: suite.Loaded,
    first: list[runs.Run],
    perform: adaptive.Perform,
    args: argparse.Namespace,
    policies: policy.Policies,
    progress: runner.Progress,
) -> adaptive.Outcome:
    """Performs and judges a suite; in the simulator, undecided claims get more seeds unless their number is given."""
    if args.quick:
        rows = perform(first)
        judged = [checks.judge(claim, rows, partial=True) for claim in one.claims]
        return adaptive.Outcome(first, list(rows), judged)

    def more(cells: Collection[CellKey], after: int, count: int) -> Sequence[runs.Run]:
        added = runs.expand(one, seeds=count, policies=policies, after=after, cells=cells)
        progress.add(added)
        return added

    fixed = args.seeds is not None or BACKENDS[args.backend].real_time
    most = 0 if fixed else one.suite.seeds.most
    return adaptive.until_certain(
        one.claims, first, perform, more, most, lambda text: print(f"{one.name}: {text}", file=sys.stderr)
    )


def _command(one: suite.Loaded, args: argparse.Namespace, policies: policy.Policies) -> str:
    """Returns the command that repeats one suite."""
    words = ["ccarena reproduce", Path(one.source).name if one.name.startswith("own/") else one.name]
    words += [f"--backend {one.backend}"] if one.backend != SIM else []
    words += ["--quick"] if args.quick else []
    words += [f"--seeds {args.seeds}"] if args.seeds is not None else []
    given = [each for each in policies.values() if "shipped" not in each.about()]
    words += [f"--policy {os.path.relpath(each.file)}" for each in given]
    words += ["--traces", *args.traces] if args.traces else []
    return " ".join(words)


def _rows_of_wrong(
    folder: Path, of_wrong: list[runs.Run], executor: Executor, progress: runner.Progress
) -> list[dict[str, Any]]:
    """Returns the rows of runs with a deliberately wrong scheme; runs that such a scheme cannot do are left out."""
    with Journal(folder, "ccarena reproduce") as journal:
        runner.execute(of_wrong, journal, folder, executor, progress)
        rows = runs.rows_of(of_wrong, journal)
        journal.settle([run.key for run in of_wrong])
    return rows


def _keep(results: list[index.Result], policies: str, digest: dict[str, Any], folder: Path) -> None:
    results.append(index.Result(digest, folder, policies))


def _print(results: list[index.Result], as_json: bool) -> None:
    """Prints the results, and those of their files that are written."""
    from ccarena.core.terminal import print_table

    if as_json:
        print(json.dumps([result.digest for result in results], indent=1, ensure_ascii=False), flush=True)
        return
    for result in results:
        files = [file for name in ("claims.md", page.PAGE) if (file := result.folder / name).is_file()]
        tables.print_suite(result.digest, files, result.policies)
    for name, policies, rows in index.side_by_side(results):
        shown = [[row[0][0], *(f"{text}; {state}" for text, state in row[1:])] for row in rows]
        print_table(f"{name}: policies side by side", ["claim", *policies], shown, left=1 + len(policies))


def _write_index(results: list[index.Result], out: Path) -> Path:
    """Writes the index of everything in the folder `out`."""
    before = index.known(out, [*suite.shipped(), *dict.fromkeys(str(r.digest["suite"]) for r in results)], BACKENDS)
    ran = {result.folder for result in results}
    everything = [*(result for result in before if result.folder not in ran), *results]
    return index.write_index(out, sorted(everything, key=lambda result: str(result.digest["suite"])))


def _refuse_in_vain(args: argparse.Namespace, loaded: list[suite.Loaded], given: policy.Policies) -> None:
    """Raises ConfigError for a policy that no suite needs, and for seeds if nothing is random."""
    needed = {scheme for one in loaded for scheme in one.suite.policies}
    if spare := [str(each.file) for scheme, each in given.items() if scheme not in needed]:
        refuse(args, ("policy",), f"with {', '.join(spare)}: no suite that was named runs it")
    if all(one.suite.compute is not None for one in loaded):
        refuse(args, ("seeds",), "on suites that are computed and draw nothing at random")


def _write_docs(path: Path, out: Path) -> None:
    names = suite.shipped()
    # Without results the pages are written anew from what they keep: after a change of the pages or of headlines.
    again = pages.read(out, names) if out.is_dir() or not path.with_suffix(pages.KEPT).is_file() else []
    digests = pages.with_kept(path, again, names)
    if again and not any(digest["quick"] for digest in digests):
        source = measurements.source("ccarena reproduce --all", datetime.date.today().isoformat())
        file = path.with_name(measurements.FILE.name)
        finished = [digest["suite"] for digest in again if tables.backend_of(digest) == SIM]
        spent = costs.entries(out, finished, names, measurements.load(file), source)
        measurements.merge(file, [*pages.entries(digests, again, source), *spent])
    pages.write(path, digests, names)
    print(f"wrote {path} and {path.with_suffix(pages.KEPT)}; now run `make measurements`", file=sys.stderr)


def _list(as_json: bool) -> int:
    from ccarena.core.terminal import print_table

    rows, others = [], [name for name in BACKENDS if name != SIM]
    for name in suite.shipped():
        one = suite.load(name)
        full, quick = (str(runs.size(one, flag)) for flag in (False, True))
        there = [str(runs.size(suite.load(name, each))) if suite.runs_on(one, each) else "" for each in others]
        rows.append([name, one.suite.paper, one.suite.title, full, quick, *there])
    head = ["suite", "paper", "title", "runs", "quick", *others]
    if as_json:
        print(json.dumps([dict(zip(head, row, strict=True)) for row in rows], indent=1))
    else:
        print_table("suites", head, rows, left=3)
        digests = {"computed": runs.software(computed=True)}
        digests |= {entry.title: runs.software(backend=name) for name, entry in BACKENDS.items()}
        print("\nThis code:", *(f"  {title}: {digest}" for title, digest in digests.items()), sep="\n")
    return 0
