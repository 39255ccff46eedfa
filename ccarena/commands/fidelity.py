"""Command `ccarena fidelity`: the simulator's error against recorded kernel runs, as a table, a file and a plot."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core import measurements
from ccarena.core.arguments import Unused
from ccarena.core.files import check_file, write_atomically
from ccarena.core.outputs import Output, kept
from ccarena.core.plain_data import plain
from ccarena.core.terminal import command_line, print_table, progress_bar
from ccarena.errors import ConfigError
from ccarena.eval.fidelity import cases as recorded_cases
from ccarena.eval.fidelity import figures
from ccarena.eval.fidelity.recorded import SHARES, fidelity
from ccarena.pages import images
from ccarena.scenarios.backends import BACKENDS, SIM

__all__ = ["add_parser", "run"]

# key, heading, format, name in a sentence
FIGURES = (
    ("throughput_mbps", "Mbit/s", ".4g", "throughput"),
    ("mean", "mean ms", ".1f", "mean delay"),
    ("p95", "p95 ms", ".0f", "p95 delay"),
)
LONGEST_S = 100_000.0
NAMES = {key: name for key, _, _, name in FIGURES}


UNUSED = (
    Unused(("repeats", "policy", "duration_s", "wide"), lambda args: not args.live, "without --live"),
    Unused(("duration_s", "wide"), lambda args: args.cases, "on scenarios of your own, which have theirs"),
    Unused(("traces",), lambda args: args.live, "beside --live, whose scenarios name their files"),
    Unused(("backend",), lambda args: args.live, "beside --live, which runs the kernel and the simulator"),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("fidelity", **kwargs)
    parser.add_argument(
        "cases",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="CASES.json, recorded runs (docs/fidelity.md); with --live scenarios in YAML (a usual set)",
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="folder of their traces, besides the usual ones")
    parser.add_argument("--json", type=Output(), metavar="OUT", help="write every case with its errors")
    parser.add_argument(
        "--plot", type=Output(".html"), metavar="FILE", help="simulated against measured: .html, .png, .svg"
    )
    parser.add_argument(
        "--record",
        type=kept,
        metavar="FILE",
        help="merge the summary into a file of figures (docs/measurements.json)",
    )
    parser.add_argument(
        "--filter", "--only", default="", metavar="TEXT", help="only cases with these words in their names"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N of them")
    parser.add_argument("--offsets", type=int, metavar="N", help="starts of each case (sim: 9, kernel: 1, --live: 5)")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once (sim: one per core, kernel: 1)")
    parser.add_argument(
        "--backend",
        choices=[name for name, each in BACKENDS.items() if each.records],
        default=SIM,
        help="what to compare with recordings; kernel: Linux TCP over the emulated link, in real time (sim)",
    )
    parser.add_argument("--live", action="store_true", help="run the scenarios on the kernel now, in real time")
    parser.add_argument(
        "--repeats", type=int, default=2, metavar="N", help="--live: runs of each scenario on the kernel (2)"
    )
    parser.add_argument(
        "--wide",
        action="store_true",
        help="--live: beside the usual set queues with management and marks, several flows that come and go, higher "
        "rates, transfers, random loss and more schemes",
    )
    parser.add_argument("--policy", metavar="POLICY_OR_RUN", help="--live: policy for ACCT (constant α = 5)")
    parser.add_argument(
        "--duration-s", type=float, default=15.0, metavar="S", help="--live: length of the usual set's runs (15)"
    )


def run(args: argparse.Namespace) -> int:
    """Compares and prints. Returns 0 if it ran, whatever the errors are."""
    if args.plot is not None:
        images.check_suffix(args.plot)
    for path in (args.plot, args.json):
        if path is not None:
            check_file(path)
    if args.record is not None:
        measurements.check(args.record)
    for name in ("limit", "offsets", "jobs", "repeats"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: expected at least 1")
    if not 0 < args.duration_s <= LONGEST_S:
        raise ConfigError(f"--duration-s {args.duration_s:g}: expected above 0 and at most {LONGEST_S:g} s")
    if args.record is not None and (args.filter or args.limit is not None):
        raise ConfigError("--record beside --filter or --limit: figures are those of all cases; leave one out")
    result = _live(args) if args.live else _recorded(args)
    ours = "emulated" if BACKENDS[args.backend].real_time and not args.live else "simulated"
    head, rows = table(result["cases"], ours)
    below = [*policies(result["cases"]), *summary(result)]
    print_table("cases", head, rows, left=2)
    for line in below:
        print(line)
    # After the figures are shown, as a full disk may refuse the files.
    if args.json is not None:
        write_atomically(args.json, json.dumps(plain({**result, "command": command_line(args)}), indent=1) + "\n")
    if args.record is not None:
        kind = "live" if args.live else "emulated" if BACKENDS[args.backend].real_time else "recorded"
        source = measurements.source(_repeat(args), datetime.date.today().isoformat())
        measurements.merge(args.record, figures.entries(kind, result, source))
    if args.plot is not None:
        from ccarena.eval.fidelity import page

        findings = [line for line in below if line]
        page.save(args.plot, result, ours=ours, head=head, rows=rows, findings=findings, repeat=[command_line(args)])
    for path in (args.json, args.record, args.plot):
        if path is not None:
            print(f"wrote {path}")
    return 0


def _repeat(args: argparse.Namespace) -> str:
    """Returns the command without options that depend on where files are."""
    policy = " --policy POLICY" if args.policy is not None else ""
    where = (
        f"--live{' --wide' if args.wide else ''} --duration-s {args.duration_s:g}{policy}"
        if args.live
        else "CASES.json"
    )
    return f"ccarena fidelity {where}" + (f" --backend {args.backend}" if args.backend != SIM else "")


def _recorded(args: argparse.Namespace) -> dict[str, Any]:
    if len(args.cases) != 1:
        raise ConfigError(
            f"got {len(args.cases)} files; expected one of recorded runs (docs/fidelity.md), or --live, which takes "
            "scenarios or none"
        )
    if args.traces is not None and not args.traces.is_dir():
        raise ConfigError(f"--traces {args.traces}: no such folder")
    cases = recorded_cases.load(args.cases[0], args.traces, args.filter)[: args.limit]
    real_time = BACKENDS[args.backend].real_time
    offsets, jobs = args.offsets or (1 if real_time else 9), args.jobs or (1 if real_time else None)
    if real_time:
        print(f"{len(cases)} cases in real time: {_time(sum(c.seconds for c in cases) * offsets)}", file=sys.stderr)
    with progress_bar("fidelity", "runs") as progress:
        return fidelity(cases, offsets, jobs, progress, args.backend)


def _live(args: argparse.Namespace) -> dict[str, Any]:
    from ccarena.eval.fidelity import live, live_wide
    from ccarena.scenarios.entrants import find_policy
    from ccarena.scenarios.flows import enter
    from ccarena.scenarios.scenario import give_policy, read_scenario

    policy = None if args.policy is None else find_policy(args.policy)
    given = [live.Setup(str(path), enter(give_policy(read_scenario(path), policy))) for path in args.cases]
    setups = given or live.setups(policy, args.duration_s) + (live_wide.setups(args.duration_s) if args.wide else [])
    chosen = [setup for setup in setups if all(word in setup.name for word in args.filter.split())][: args.limit]
    if not chosen:
        raise ConfigError(f'no scenario has "{args.filter}" in its name; the first is {setups[0].name}')
    seconds = sum(live.duration_s(setup) for setup in chosen) * args.repeats
    print(f"{len(chosen)} scenarios in real time: {_time(seconds)}", file=sys.stderr)
    with progress_bar("fidelity", "runs") as progress:
        return live.live(chosen, args.offsets or 5, args.repeats, args.jobs or 2, progress)


def table(cases: Sequence[Mapping[str, Any]], ours: str = "simulated") -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): name, outcome, and for each figure the kernel's range, the median (spread) of `ours`,
    the error.
    """
    head = ["case", "outcome"]
    for _, unit, _, _ in FIGURES:
        head += [f"kernel {unit}", ours, "error"]
    return head, [_row(case) for case in cases]


def policies(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a line per case with a learned scheme: reward and mean delay on the kernel and simulated."""
    lines = []
    for case in cases:
        if "policy" in case:
            both = case["policy"]
            reward, delay = both["reward"], both["delay_ms"]
            outcome = "within" if both["within"] else "NOT within"
            lines.append(
                f"{case['name']}: reward {reward['kernel']:.1f}, simulated {reward['simulated']:.1f} "
                f"({100 * both['reward_gap']:.1f} %); mean delay {delay['kernel']:.2f} ms, simulated "
                f"{delay['simulated']:.2f} ms ({100 * both['delay_gap']:.1f} %): {outcome}"
            )
    return ["", "Learned schemes, by their rewards:", *lines] if lines else []


def summary(result: Mapping[str, Any]) -> list[str]:
    """Returns medians, the fraction within the kernel's range, and missed targets."""
    cases, bounds = result["cases"], result["bounds"]
    late = (
        [f"{result['late_runs']} runs in which the emulator was late are in no figure"] if result["late_runs"] else []
    )
    if result["invalid"]:
        late.append(f"INVALID, because the emulator was late in every attempt: {'; '.join(result['invalid'])}")
    if not cases:
        return ["", *late]
    median = {key: float(np.median([case[f"qdelay_{key}_error_ms"] for case in cases])) for key in ("mean", "p95")}
    within, chaotic = sum(case["within"] for case in cases), sum(case["chaotic"] for case in cases)
    lines = [
        "",
        f"median error: throughput {100 * result['throughput_rel_error_median']:.2f} %, "
        f"mean delay {median['mean']:.1f} ms, p95 delay {median['p95']:.1f} ms",
        f"bounds: throughput {bounds['throughput_rel']:.0%}, delays the larger of {bounds['delay_rel']:.0%} and "
        f"{bounds['delay_ms']:g} ms",
        f"within: {within} of {len(cases)} cases ({100 * result['within_fraction']:.1f} %); "
        f"{chaotic} of {len(cases)} are chaotic and judged on throughput alone",
    ]
    strict = Counter(NAMES.get(key, key) for case in cases for key in case["strict_misses"])
    held = sum(not case["strict_misses"] for case in cases)
    lines.append(
        f"strictly (median against median, no spread, no chaos, shares within {SHARES:.0%}): "
        f"{held} of {len(cases)} cases"
        + (f"; not met: {', '.join(f'{what} in {count}' for what, count in strict.items())}" if strict else "")
    )
    missed = Counter(NAMES[key] for case in cases for key in case["misses"])
    if missed:
        counts = ", ".join(f"{what} in {count}" for what, count in missed.items())
        names = "; ".join(case["name"] for case in cases if not case["within"])
        lines.append(f"not met: {counts}: {names}")
    return lines + late


def _row(case: Mapping[str, Any]) -> list[str]:
    simulated, measured = case["simulated"], case["measured"]
    errors = (
        f"{100 * case['throughput_rel_error']:.1f} %",
        f"{case['qdelay_mean_error_ms']:.1f}",
        f"{case['qdelay_p95_error_ms']:.1f}",
    )
    outcome = "within" if case["within"] else f"misses {', '.join(NAMES[key] for key in case['misses'])}"
    if case["strict_misses"] and (case["within"] or case["chaotic"]):
        outcome += f", strictly misses {', '.join(NAMES.get(key, key) for key in case['strict_misses'])}"
    cells = [case["name"], f"{outcome}, chaotic" if case["chaotic"] else outcome]
    for (key, _, form, _), error in zip(FIGURES, errors, strict=True):
        spread = _range(simulated["spread"][key], form)
        cells += [_range(measured[key], form), f"{simulated['median'][key]:{form}} ({spread})", error]
    return cells


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def _range(ends: Sequence[float], form: str) -> str:
    low, high = (f"{end:{form}}" for end in ends)
    return low if low == high else f"{low}–{high}"
