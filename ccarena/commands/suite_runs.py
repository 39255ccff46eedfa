"""Options and messages of commands that perform the runs of suites: `reproduce` and `assess`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ccarena.commands import executors
from ccarena.core.arguments import Unused
from ccarena.errors import ConfigError
from ccarena.eval.reproduce.runner import Failure
from ccarena.scenarios.backends import BACKENDS

__all__ = ["UNUSED", "check_counts", "show_failures"]

SHOWN_FAILURES = 10
MOST_SEEDS = 10_000
UNUSED = (
    *executors.UNUSED,
    Unused(("jobs",), lambda args: args.executor != "local", "beside --executor ray, which uses every core"),
)


def check_counts(args: argparse.Namespace) -> None:
    """Raises ConfigError for a number of seeds or jobs that no run can have, and for several jobs in real time."""
    if args.seeds is not None and not 1 <= args.seeds <= MOST_SEEDS:
        raise ConfigError(f"--seeds {args.seeds}: expected 1 to {MOST_SEEDS}")
    if args.jobs is not None and args.jobs < 1:
        raise ConfigError(f"--jobs {args.jobs}: expected at least 1")
    if BACKENDS[args.backend].real_time and (args.jobs or 1) > 1:
        raise ConfigError(
            f"--jobs {args.jobs}: with --backend {args.backend} runs at once would make each other late; leave it out"
        )


def show_failures(failures: Sequence[Failure]) -> None:
    """Prints the first failed runs on stderr, each with its reason and its scenario."""
    for failure in failures[:SHOWN_FAILURES]:
        print(f"FAILED {failure.run.suite}, {failure.run.title}: {failure.reason}", file=sys.stderr)
        print(f"  its scenario: {failure.scenario}", file=sys.stderr)
    if len(failures) > SHOWN_FAILURES:
        print(f"and {len(failures) - SHOWN_FAILURES} more failed runs, in the folders failed/", file=sys.stderr)
