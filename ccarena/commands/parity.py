"""Command `ccarena parity`: one policy in all of its runtimes, on the same observations and over whole runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ccarena.core.files import check_file, write_atomically
from ccarena.core.outputs import Output
from ccarena.core.seeds import check_seed
from ccarena.core.terminal import heartbeat, print_table, visible
from ccarena.errors import ConfigError
from ccarena.eval.heldout import links
from ccarena.eval.parity.runtimes import AGREEMENT, REFERENCE, TOLERANCE, compare
from ccarena.eval.parity.scenarios import LOST, returns
from ccarena.policies import artifact
from ccarena.policies.recording import record
from ccarena.scenarios.entrants import POLICY_HELP, named_file

__all__ = ["add_parser", "parity", "run"]

KERNEL = (
    "as root: the policy is also loaded into this machine's running kernel and decides there, in BPF test runs; "
    "nothing is attached to it, and nothing stays (docs/export.md). Without root, parity leaves this runtime out."
)
MOST_DECISIONS = 1_000_000
"""Most decisions: their observations are held in memory."""


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("parity", **kwargs)
    parser.add_argument("policy", metavar="ENTRANT", help=POLICY_HELP)
    parser.add_argument("--decisions", type=int, default=4096, metavar="N", help="recorded decisions (4096)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the links they are recorded on (1)")
    parser.add_argument(
        "--link-sets",
        nargs="*",
        metavar="LINK_SET",
        help="link sets of whole runs (the configuration's); without a name, no whole runs",
    )
    parser.add_argument("--duration-s", type=float, metavar="S", help="length of each whole run (the link set's own)")
    parser.add_argument("--json", type=Output(), metavar="OUT", help="write the figures as JSON to OUT")


def run(args: argparse.Namespace) -> int:
    """Compares, prints and writes. Returns 1 if a runtime deviates."""
    if args.json is not None:
        check_file(args.json)
    label, file = named_file(args.policy)
    _check(args.decisions, args.seed, args.link_sets, args.duration_s)
    if os.geteuid() == 0:
        print(KERNEL, file=sys.stderr)
    figures = {"label": label} | parity(file, args.decisions, args.seed, args.link_sets, args.duration_s)
    if args.json is not None:
        write_atomically(args.json, json.dumps(figures, indent=1) + "\n")
    rows = [
        [
            runtime["runtime"],
            runtime["what"],
            f"{100 * runtime['agreement']:.2f} %",
            "" if runtime["same_bits"] is None else "same" if runtime["same_bits"] else "OTHER",
            f"{runtime['ns_per_decision']:,.0f}",
        ]
        for runtime in figures["runtimes"]
    ]
    print_table(
        f"{label} ({file}): {figures['decisions']} recorded decisions, held against {REFERENCE}",
        ["runtime", "what", "agreement", "bits", "ns per decision"],
        rows,
        left=2,
    )
    for runtime, reason in figures["missing"].items():
        print(visible(f"{runtime}: not here: {reason}"))
    _print_returns(figures["scenarios"])
    for problem in figures["problems"]:
        print(visible(f"PROBLEM: {problem}"))
    return 1 if figures["problems"] else 0


def parity(
    file: Path,
    decisions: int = 4096,
    seed: int = 1,
    link_sets: list[str] | None = None,
    duration_s: float | None = None,
) -> dict[str, Any]:
    """Returns the figures of `ccarena parity`, as its JSON has them. An empty list of `link_sets` skips whole runs.

    Raises ConfigError for arguments out of range and PolicyError for a file that cannot be used.
    """
    _check(decisions, seed, link_sets, duration_s)
    with heartbeat(lambda: f"parity of {file}"):
        return _figures(file, decisions, seed, link_sets, duration_s)


def _check(decisions: int, seed: int, link_sets: list[str] | None, duration_s: float | None) -> None:
    if not 1 <= decisions <= MOST_DECISIONS:
        raise ConfigError(f"decisions = {decisions}: expected 1 to {MOST_DECISIONS}")
    check_seed(seed)
    links.check(link_sets or (), duration_s=duration_s)


def _figures(
    file: Path, decisions: int, seed: int, link_sets: list[str] | None, duration_s: float | None
) -> dict[str, Any]:
    policy = artifact.load(file)
    recording = record(policy, decisions, seed)
    runtimes, missing = compare(policy, recording)
    problems = [
        f"{each.runtime} takes another action than {REFERENCE} in {100 * (1 - each.agreement):.2f} % of the decisions; "
        f"at most {100 * (1 - AGREEMENT):.2f} % may differ: run it in float32, or train with a penalty on large weights"
        for each in runtimes
        if each.agreement < AGREEMENT
    ]
    problems += [
        f"{each.runtime} gives other bits than numpy-integer: a bug" for each in runtimes if each.same_bits is False
    ]
    costs = None
    if link_sets != [] and any(runtime.same_bits is not None for runtime in runtimes):
        costs = returns(file, link_sets, duration_s)
    if costs is not None and costs.lost > LOST:
        problems.append(
            f"in integers it loses {100 * costs.lost:.2f} % of its return over {costs.scenarios} runs; at most "
            f"{100 * LOST:.0f} % may be lost: run it in float32, or train with a penalty on large weights"
        )
    return {
        "policy": str(file),
        "scheme": policy.spec.get("name"),
        "digest": policy.interface.digest,
        "reference": REFERENCE,
        "decisions": len(recording.rows),
        "seed": seed,
        "tolerance": None if policy.interface.bounds is None else TOLERANCE,
        "runtimes": [asdict(runtime) for runtime in runtimes],
        "missing": missing,
        "scenarios": None if costs is None else {**asdict(costs), "lost": costs.lost},
        "problems": problems,
    }


def _print_returns(costs: dict[str, Any] | None) -> None:
    if costs is None:
        print("whole runs: none, or a reward that cannot be computed from what they report")
        return
    print(
        f"whole runs: {costs['scenarios']}; mean reward {costs['float32']:.6g} in float32, {costs['integer']:.6g} in "
        f"integers ({100 * costs['lost']:+.3f} % lost)"
    )
