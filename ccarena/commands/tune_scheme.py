"""`ccarena tune-scheme`: a search of a scheme's parameters on a link distribution."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from ccarena.configs import load_config, parse_overrides
from ccarena.configs.link_distribution import name_traces
from ccarena.core.outputs import folder
from ccarena.core.terminal import progress_bar, remember
from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import GRAMMAR, HELP
from ccarena.tune import scheme as tuning

__all__ = ["add_parser", "run"]

FIXED = ("scheme", "space", "distribution", "objective", "candidates", "links", "test_links", "seed")


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; `--env.KEY VALUE` and `--objective.KEY VALUE` change what they name."""
    parser = subparsers.add_parser(
        "tune-scheme", epilog=GRAMMAR, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
    )
    parser.add_argument("scheme", nargs="?", metavar="ENTRANT", help=HELP)
    parser.add_argument("--space", type=Path, metavar="FILE", help="YAML: PARAMETER: [low, high], null for its bounds")
    parser.add_argument(
        "--distribution",
        default=tuning.DISTRIBUTION,
        metavar="NAME_OR_FILE",
        help="the configuration whose links are drawn (orca); --env.KEY VALUE changes it",
    )
    parser.add_argument(
        "--objective",
        default=tuning.OBJECTIVE,
        metavar="NAME",
        help="what a run is scored by (log_power); --objective.KEY VALUE sets a coefficient",
    )
    parser.add_argument("--candidates", type=int, default=200, metavar="N", help="parameters to score (200)")
    parser.add_argument("--links", type=int, default=32, metavar="N", help="links that each candidate runs over (32)")
    parser.add_argument("--test-links", type=int, default=100, metavar="N", help="links of the comparison (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the links and the search (1)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="runs at once (2)")
    parser.add_argument("--out", type=folder, metavar="DIR", help="the search's folder (runs/tune-SCHEME)")
    parser.add_argument("--resume", action="store_true", help="go on with the search in --out, as it was started")
    parser.set_defaults(overrides=[])


def run(args: argparse.Namespace) -> int:
    """Searches, compares and prints the tuned scheme."""
    if args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    overrides = parse_overrides(args.overrides, options=(*FIXED, "threads", "out", "resume"))
    if args.resume:
        if given := [args.given[name] for name in FIXED if name in args.given]:
            raise ConfigError(f"{given[0]} has no effect beside --resume: the search goes on as it was started")
        if overrides:
            raise ConfigError(f"--{next(iter(overrides))} has no effect beside --resume; leave it out")
        if args.out is None:
            raise ConfigError("--resume: which search? Give its folder with --out")
        out, plan = args.out, tuning.read_plan(args.out)
    else:
        plan = _plan(args, overrides)
        out = args.out or Path("runs", f"tune-{plan.scheme.partition('@')[0].replace('/', '-')}")
    remember(shlex.join(["ccarena", "tune-scheme", "--out", str(out), "--resume"]))
    with progress_bar(f"tuning {plan.scheme}", "candidates") as progress:
        found = tuning.run(plan, plan.scheme, out, args.threads, progress, args.resume)
    print(found)
    print(f"wrote {tuning.BEST}, {tuning.CANDIDATES} and {tuning.PLAN} to {out}")
    return 0


def _plan(args: argparse.Namespace, overrides: dict[str, Any]) -> tuning.Plan:
    if args.scheme is None:
        raise ConfigError("tune-scheme: name the scheme, such as `ccarena tune-scheme copa --space space.yaml`")
    if args.space is None:
        raise ConfigError("--space: give a YAML file of parameters with their ranges, such as `delta: [0.05, 2]`")
    for key in overrides:
        if key.partition(".")[0] not in ("env", "objective"):
            raise ConfigError(f"--{key}: expected a key of env or objective, such as --env.link.rate_mbps 48")
    env = {key: value for key, value in overrides.items() if key.startswith("env")}
    coefficients = {key.partition(".")[2]: value for key, value in overrides.items() if key.startswith("objective")}
    return tuning.Plan(
        args.scheme,
        tuning.read_space(args.space),
        name_traces(load_config(args.distribution, env).env).model_dump(mode="json"),
        {"name": args.objective, **coefficients},
        args.candidates,
        args.links,
        args.test_links,
        args.seed,
    )
