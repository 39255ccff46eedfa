"""`ccarena fidelity`: the simulator's error against recorded kernel runs, as a table, a file and a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.errors import ConfigError
from ccarena.eval import fidelity_cases
from ccarena.eval.evaluate import plain, write_atomically
from ccarena.eval.fidelity import DELAY_MS, DELAY_REL, THROUGHPUT_REL, fidelity
from ccarena.traces.plot import check_suffix

__all__ = ["add_parser", "run"]

# key, heading, format, name in a sentence
FIGURES = (
    ("throughput_mbps", "Mbit/s", ".4g", "throughput"),
    ("mean", "mean ms", ".1f", "mean delay"),
    ("p95", "p95 ms", ".0f", "p95 delay"),
)
NAMES = {key: name for key, _, _, name in FIGURES}


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("fidelity", **kwargs)
    parser.add_argument("cases", type=Path, metavar="CASES.json", help="recorded runs (docs/fidelity.md)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="where their traces are, besides the usual places")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every case with its errors")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw simulated against measured: .html, .png, .svg")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases with these words in their names")
    parser.add_argument("--offsets", type=int, default=9, metavar="N", help="starts to simulate of each case (9)")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (one per core)")


def run(args: argparse.Namespace) -> int:
    """Compares and reports. Returns 0 if it ran, whatever the errors are."""
    if args.traces is not None and not args.traces.is_dir():
        raise ConfigError(f"--traces {args.traces}: no such folder")
    if args.plot is not None:
        check_suffix(args.plot)
    cases = fidelity_cases.load(args.cases, args.traces, args.filter)
    result = fidelity(cases, args.offsets, args.jobs, _progress)
    if args.json is not None:
        write_atomically(args.json, json.dumps(plain(result), indent=1) + "\n")
    if args.plot is not None:
        from ccarena.eval import fidelity_plot

        fidelity_plot.save(result["cases"], args.plot)
    for line in table(result["cases"]):
        print(line)
    for line in summary(result):
        print(line)
    return 0


def table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per case: name; for each figure the kernel's range, the simulated median (spread) and error; verdict."""
    heads = ["case"]
    for _, unit, _, _ in FIGURES:
        heads += [f"kernel {unit}", "simulated", "error"]
    rows = [[*heads, "verdict"], *(_row(case) for case in cases)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=False)),
        ]
        lines.append("  ".join([*cells, row[-1]]))
    return lines


def summary(result: Mapping[str, Any]) -> list[str]:
    """Medians, the fraction within, and what is not met."""
    cases = result["cases"]
    median = {key: float(np.median([case[f"qdelay_{key}_error_ms"] for case in cases])) for key in ("mean", "p95")}
    within, chaotic = sum(case["within"] for case in cases), sum(case["chaotic"] for case in cases)
    lines = [
        "",
        f"median error: throughput {100 * result['throughput_rel_error_median']:.2f} %, "
        f"mean delay {median['mean']:.1f} ms, p95 delay {median['p95']:.1f} ms",
        f"bounds: throughput {THROUGHPUT_REL:.0%}, delays the larger of {DELAY_REL:.0%} and {DELAY_MS:g} ms",
        f"within: {within} of {len(cases)} cases ({100 * result['within_fraction']:.1f} %); "
        f"{chaotic} of {len(cases)} are chaotic and judged on throughput alone",
    ]
    missed = Counter(NAMES[key] for case in cases for key in case["misses"])
    if missed:
        counts = ", ".join(f"{what} in {count}" for what, count in missed.items())
        names = "; ".join(case["name"] for case in cases if not case["within"])
        lines.append(f"not met: {counts}: {names}")
    return lines


def _row(case: Mapping[str, Any]) -> list[str]:
    simulated, measured = case["simulated"], case["measured"]
    errors = (
        f"{100 * case['throughput_rel_error']:.1f} %",
        f"{case['qdelay_mean_error_ms']:.1f}",
        f"{case['qdelay_p95_error_ms']:.1f}",
    )
    cells = [case["name"]]
    for (key, _, form, _), error in zip(FIGURES, errors, strict=True):
        spread = _range(simulated["spread"][key], form)
        cells += [_range(measured[key], form), f"{simulated['median'][key]:{form}} ({spread})", error]
    verdict = "within" if case["within"] else f"misses {', '.join(NAMES[key] for key in case['misses'])}"
    return [*cells, f"{verdict}, chaotic" if case["chaotic"] else verdict]


def _range(ends: Sequence[float], form: str) -> str:
    low, high = (f"{end:{form}}" for end in ends)
    return low if low == high else f"{low}–{high}"


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty() or done == total:
        print(f"\rsimulated {done} of {total} runs", end="\n" if done == total else "", file=sys.stderr, flush=True)
