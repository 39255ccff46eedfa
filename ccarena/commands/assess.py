"""Command `ccarena assess`: the questions of RFC 9743 about a congestion control, answered with numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ccarena.commands import executors, suite_runs
from ccarena.commands.suite_runs import check_counts, show_failures
from ccarena.core.arguments import Unused
from ccarena.core.outputs import folder
from ccarena.core.programs import find
from ccarena.core.terminal import again, command_line, print_table
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.assess import page, questions
from ccarena.eval.assess.assessment import Assessment, Plan, about, assess, expanded
from ccarena.eval.reproduce import runner
from ccarena.executors import Processes
from ccarena.runs.run_folder import write_commands
from ccarena.scenarios.backends import BACKENDS, SIM, time_needed
from ccarena.scenarios.entrants import GRAMMAR, HELP, line_up

__all__ = ["UNUSED", "add_parser", "run"]

UNUSED = (
    *suite_runs.UNUSED,
    Unused(
        ("entrants", "backend", "quick", "seeds", "out", "jobs", "executor", "question"),
        lambda args: args.list,
        "beside --list",
    ),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "assess", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=GRAMMAR, **kwargs
    )
    parser.add_argument("entrants", nargs="*", metavar="ENTRANT", help=HELP)
    parser.add_argument("--list", action="store_true", help="list the questions and stop")
    parser.add_argument(
        "--question", action="append", default=[], metavar="NAME", help="ask this question only; repeatable (all)"
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default=SIM,
        help="kernel, quic: on emulated links in real time, also programs of others; BPF needs root (sim: simulator)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one seed and fewer cases; the results say so")
    parser.add_argument("--seeds", type=int, metavar="N", help="repetitions of each run (3 to 5, as a question says)")
    parser.add_argument(
        "--out", type=folder, default=Path("runs", "assess"), metavar="DIR",
        help=f"folder of results; {page.PAGE} shows them (runs/assess)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (sim: one per core; else 1)")
    executors.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Assesses the entrants. Returns the exit code: 0 if every run finished, whatever fails; 1 if a run failed."""
    if args.list:
        return _list(args.json)
    if not args.entrants:
        raise ConfigError("no entrant: name whom to assess, such as `ccarena assess cubic`; --list shows the questions")
    check_counts(args)
    plan = Plan(questions.chosen(args.question, args.backend), args.backend, args.quick, args.seeds)
    jobs = BACKENDS[args.backend].at_once(args.jobs or os.cpu_count() or 1)
    executor = executors.of_options(args, Processes(jobs, runner.PRELOAD))
    assessments: list[Assessment] = []
    with ExitStack() as stack:
        entrants = line_up(args.entrants, stack)
        folders = _folders([entrant.label for entrant in entrants], args.out)
        if program := BACKENDS[args.backend].program:
            find(program)
        everything = [expanded(entrant, plan) for entrant in entrants]
        flat = [run for of_entrant in everything for of_question in of_entrant for run in of_question]
        if said := time_needed(args.backend, [run.work for run in flat], jobs):
            print(said, file=sys.stderr)
        try:
            with runner.progress(flat, "assessing") as progress:
                for entrant, of_entrant, place in zip(entrants, everything, folders, strict=True):
                    assessments.append(assess(entrant, plan, of_entrant, place, executor, progress))
        except CcarenaError:  # a full disk loses no answers
            if assessments:
                _print(args, assessments, plan)
            raise
        except KeyboardInterrupt:
            if assessments:
                _show(args, assessments, plan)
            raise KeyboardInterrupt(f"interrupted; finished runs are kept in {args.out}; {again()}") from None
    _show(args, assessments, plan)
    failures = [failure for each in assessments for failure in each.failures]
    show_failures(failures)
    return 1 if failures else 0


def _folders(labels: Sequence[str], out: Path) -> list[Path]:
    """Returns the folder of each label in `out`. Raises ConfigError if two labels would share one."""
    found: dict[str, str] = {}
    for label in labels:
        name = "".join(letter if letter.isalnum() or letter in "-_.@=" else "_" for letter in label)
        if name in found:
            raise ConfigError(
                f'"{found[name]}" and "{label}" would share the folder {out / name}; give one another label, as '
                "LABEL=ENTRANT"
            )
        found[name] = label
    return [out / name for name in found]


def _show(args: argparse.Namespace, assessments: list[Assessment], plan: Plan) -> None:
    """Prints the answers, and then writes the files, which a full disk may refuse."""
    _print(args, assessments, plan)
    repeat = [command_line(args)]
    write_commands(args.out, repeat)
    drawn = page.write_page(args.out, assessments, plan, repeat)
    files = [page.write_markdown(each, plan) for each in assessments]
    if not args.json:
        for path in [*files, drawn]:
            print(f"  {path}")


def _print(args: argparse.Namespace, assessments: list[Assessment], plan: Plan) -> None:
    if args.json:
        print(json.dumps([about(each, plan) for each in assessments], indent=1, ensure_ascii=False), flush=True)
        return
    quick = "  QUICK: one seed and fewer cases, no basis for a conclusion" if plan.quick else ""
    for each in assessments:
        title = f"{each.entrant.label}: {page.counted(each.counts())}{quick}"
        rows = [
            [answer.question.name.partition("/")[2], *(row[name] for name in page.HEAD)]
            for answer in each.answers
            for row in answer.criteria
            if row["state"] != "pass"
        ]
        if rows:
            print_table(f"{title}; all but those that pass:", ["question", *page.HEAD], rows, left=5)
        else:
            print(title)


def _list(as_json: bool) -> int:
    found = questions.chosen([], SIM)
    rows = [[each.name.partition("/")[2], each.suite.title, each.suite.paper] for each in found]
    head = ["question", "title", "source"]
    if as_json:
        print(json.dumps([dict(zip(head, row, strict=True)) for row in rows], indent=1))
    else:
        print_table("questions", head, rows, left=3)
    return 0
