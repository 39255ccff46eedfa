"""`ccarena eval`: a policy beside the heuristics on held-out links, or one scenario file and its figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena.backends import BACKENDS, KERNEL, SIM
from ccarena.errors import ConfigError
from ccarena.eval.heldout.evaluate import evaluate
from ccarena.eval.heldout.expectations import judge
from ccarena.eval.heldout.links import LINK_SETS
from ccarena.policies import artifact
from ccarena.run_folder import CONFIG, PAGE, PROGRESS, find_policy, read_progress
from ccarena.terminal import progress_bar

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("eval", **kwargs)
    parser.add_argument(
        "policy",
        nargs="?",
        metavar="POLICY_OR_RUN",
        help="a policy file, a run's folder, or the name of a run in runs/; without one only the heuristics run",
    )
    parser.add_argument(
        "--link-sets",
        "--suite",
        dest="link_sets",
        nargs="+",
        metavar="LINK_SET",
        help=f"link sets, of {', '.join(LINK_SETS)} (those of the policy's record)",
    )
    parser.add_argument("--scenario", type=Path, metavar="FILE.yaml", help="run this scenario instead of the link sets")
    parser.add_argument(
        "--schemes", nargs="*", metavar="SCHEME", help="heuristics (those of the policy's record, or cubic bbr reno)"
    )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="repetitions per link (5)")
    parser.add_argument("--duration-s", type=float, metavar="S", help="time per run (the link set's own: 30 or 60)")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=SIM,
        help="sim: the simulator; kernel: Linux TCP over the emulated link, in real time, as root (sim)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="links that run at once (sim: 2, kernel: 1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for results and page (eval/ beside the policy)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Evaluates, writes and prints. Returns the exit code: 0 if it ran, whatever the verdict."""
    policy = None if args.policy is None else find_policy(args.policy)
    if args.scenario is not None:
        from ccarena.eval.one_scenario import show_scenario

        show_scenario(args.scenario, policy, args.json, args.backend)
        return 0
    from ccarena.eval.heldout.page import repeat_commands
    from ccarena.eval.heldout.summary import print_summary
    from ccarena.eval.heldout.training_run import write_outcome

    # Links that run side by side in real time make each other late.
    threads = args.threads if args.threads is not None else 1 if args.backend == KERNEL else 2
    if threads < 1:
        raise ConfigError(f"--threads {threads}: expected at least 1")
    folder = "eval" if args.backend == SIM else f"eval-{args.backend}"
    out = args.out or (policy.parent / folder if policy else Path("runs", folder))
    training = read_progress(policy.parent / PROGRESS) if policy else []
    options: dict[str, Any] = {
        "seeds": args.seeds,
        "duration_s": args.duration_s,
        "schemes": args.schemes,
        "backend": args.backend,
    }
    with progress_bar("evaluating") as progress:
        options |= {"threads": threads, "progress": progress}
        result = evaluate(policy, args.link_sets, **options)
    if policy is not None:
        artifact.count_test(policy)
    verdict = judge(result, training)
    config = policy.parent / CONFIG if policy else None
    known = config if config is not None and config.is_file() else None
    short = write_outcome(
        out,
        result,
        verdict,
        name=policy.parent.name if policy else "heuristics",
        progress=training,
        config=known.read_text("utf-8") if known else "",
        repeat=repeat_commands(known, policy, result.meta["link_sets"], args.seeds, args.duration_s, args.backend),
    )
    if args.json:
        print(json.dumps(short, indent=1))
        return 0
    print_summary(result, verdict, out / PAGE)
    print(verdict.line)
    return 0
