"""`python -m bench`: measures, prints each figure beside its target, and merges them into docs/measurements.json.

It fails on no figure: it reports. Nothing else should run meanwhile, since a busy machine shows as lateness.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import api, cluster, kernel, leaderboard, quic, realtime, saturation, simulator, stacks, training
from bench.sheet import Sheet
from ccarena.core import measurements
from ccarena.errors import CcarenaError

PARTS = (
    "simulator",
    "training",
    "evaluation",
    "suites",
    "leaderboard",
    "cluster",
    "saturation",
    "realtime",
    "kernel",
    "quic",
    "stacks",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the chosen parts. Returns the exit code."""
    today = datetime.date.today().isoformat()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure ccarena on this machine.")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--record", type=Path, default=measurements.FILE, metavar="FILE", help="results file (%(default)s)"
    )
    parser.add_argument("--date", default=today, help="the day that is recorded, ISO 8601 (today)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of the environment's measurement (5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the environment (2)")
    parser.add_argument("--train-decisions", type=int, default=600_000, help="length of the training (600000)")
    parser.add_argument("--run-seconds", type=float, default=10.0, help="length of a run in real time (10)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of attaching and killing the bridge (100)")
    args = parser.parse_args(arguments)
    sheet = Sheet(measurements.source("make bench", args.date))
    try:
        if "simulator" in args.only:
            simulator.measure(sheet)
            api.measure(sheet)
        if "training" in args.only:
            training.measure(sheet, args.seconds, args.threads, args.train_decisions)
            training.measure_start(sheet)
        if "evaluation" in args.only:
            training.measure_evaluation(sheet, args.threads)
        if "suites" in args.only:
            training.measure_suites(sheet)
        if "leaderboard" in args.only:
            leaderboard.measure(sheet)
        if "cluster" in args.only:
            cluster.measure(sheet)
        if "saturation" in args.only:
            saturation.measure(sheet)
        if "realtime" in args.only:
            if os.geteuid() == 0:
                realtime.measure(sheet, args.run_seconds, args.rounds)
            else:
                print("NOT MEASURED without root: the emulator and the kernel bridge (python -m bench --only realtime)")
        if "kernel" in args.only:
            if os.geteuid() == 0:
                kernel.measure(sheet)
            else:
                print("NOT MEASURED without root: policies in the kernel (python -m bench --only kernel)")
        if "quic" in args.only:
            quic.measure(sheet)
        if "stacks" in args.only:
            if os.geteuid() == 0:
                stacks.measure(sheet, args.run_seconds)
            else:
                print("NOT MEASURED without root: stacks of others (python -m bench --only stacks)")
        measurements.merge(args.record, sheet.entries)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"merged {len(sheet.entries)} figures into {args.record}; `make measurements` writes the page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
