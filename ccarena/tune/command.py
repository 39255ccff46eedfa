"""`ccarena tune`: a sweep over a space of configurations, and its report."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, load_config, parse_overrides
from ccarena.configs.unused import refuse_unused_keys
from ccarena.errors import INTERRUPTED, ConfigError
from ccarena.files import check_writable
from ccarena.outputs import folder
from ccarena.terminal import again, command_line, heartbeat, remember
from ccarena.tune import report
from ccarena.tune.space import Dimension, Space, check, read_space
from ccarena.tune.sweep import BASE, PLAN, TRIALS, Plan, read_plan, sweep

__all__ = ["add_parser", "run"]

SEARCHES, SCHEDULERS = ("random", "optuna"), ("asha", "none")
FIXED = ("config", "space", "samples", "seeds", "search", "scheduler", "validations")


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; every other `--KEY VALUE` is an override of the configuration."""
    parser = subparsers.add_parser("tune", **kwargs)
    parser.add_argument("--config", metavar="NAME_OR_FILE", default="acct", help="what is trained (acct)")
    parser.add_argument("--space", type=Path, metavar="FILE", help="the space, a YAML file (docs/cluster.md)")
    parser.add_argument("--samples", type=int, default=16, metavar="N", help="trials (16); of a grid, of all of it")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="trainings per trial, seeds 1 to N (3)")
    parser.add_argument("--search", choices=SEARCHES, default="random", help="who draws trials (random)")
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        default="asha",
        help="asha ends trials whose mean over seeds falls behind (arXiv:1810.05934); none ends none (asha)",
    )
    parser.add_argument("--validations", type=int, default=9, metavar="N", help="comparisons during a training (9)")
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help="the sweep's folder, on every machine (runs/tune-NAME)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the sweep in --out, as it was started")
    parser.add_argument("--ray-address", metavar="ADDRESS", help="the cluster (RAY_ADDRESS; else this machine)")
    parser.set_defaults(overrides=[])


def run(args: argparse.Namespace) -> int:
    """Runs the trials and reports. Returns the exit code: 1 if a trial failed, 130 after Ctrl-C."""
    options = (*FIXED, "out", "resume", "ray-address")
    overrides = parse_overrides(args.overrides, options=options)
    if args.out is not None and ":/" in str(args.out):
        raise ConfigError(
            f"--out {args.out}: a sweep is kept in a folder that every machine of the cluster reaches; a URL is for "
            "`ccarena train` alone"
        )
    if args.resume:
        if given := [args.given[name] for name in FIXED if name in args.given]:
            raise ConfigError(f"{given[0]} has no effect beside --resume: the sweep goes on as it was started")
        if overrides:
            raise ConfigError(f"--{next(iter(overrides))} has no effect beside --resume; leave it out")
        if args.out is None:
            raise ConfigError("--resume: which sweep? Give its folder with --out")
        out = args.out.resolve()
        plan = read_plan(out)
        space = Space({key: Dimension(each["kind"], tuple(each["values"])) for key, each in plan.dimensions.items()})
        config = None
    else:
        out, plan, space, config = _begin(args, overrides)
    remember(shlex.join(["ccarena", "tune", "--out", str(args.out or os.path.relpath(out)), "--resume"]))
    with heartbeat(lambda: f"sweep: {sum(1 for _ in (out / TRIALS).glob('*'))} of {plan.samples} trials begun"):
        found, left = sweep(out, plan, space, args.ray_address, config)
    if left:
        print(f"interrupted, {left} of {len(found)} trials are not over; {again()}", file=sys.stderr)
        return INTERRUPTED
    rows = report.rows_of(out / TRIALS, found, plan.seeds, plan.validations)
    facts = {
        "Seeds per trial": str(plan.seeds),
        "Trials": str(len(rows)),
        "Drawn by": plan.search,
        "Ended early by": plan.scheduler,
    }
    report.write(out, rows, plan.name, plan.command, facts)
    report.show(rows)
    print(f"wrote {report.ROWS} and {report.PAGE} to {out}")
    return int(any(row["state"] == "failed" for row in rows))


def _begin(args: argparse.Namespace, overrides: dict[str, Any]) -> tuple[Path, Plan, Space, TrainConfig]:
    """What is asked for, checked. Writes nothing."""
    for name in ("samples", "seeds", "validations"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}: expected at least 1")
    if args.space is None:
        raise ConfigError("--space: give the file of the space, configuration keys with their values or ranges")
    config = load_config(args.config, overrides)
    refuse_unused_keys(config, overrides)
    check(config)
    # The tested links stay closed: a sweep that chose by them would leave nothing to test with.
    every = max(config.total_decisions // args.validations, 1)
    inside = {"eval.link_sets": [], "validation.every_decisions": every, **overrides}
    config = load_config(args.config, inside)
    space = read_space(args.space, args.config, inside)
    out = (args.out or Path("runs", f"tune-{config.name}")).resolve()
    if (out / PLAN).exists():
        raise ConfigError(f"{out}: holds a sweep already; go on with it (--out {out} --resume), or name another folder")
    check_writable(out)
    dimensions = {key: asdict(each) for key, each in space.dimensions.items()}
    plan = Plan(
        config.name,
        str(out / BASE),
        args.samples,
        args.seeds,
        args.search,
        args.scheduler,
        args.validations,
        dimensions,
        command_line(args),
    )
    return out, plan, space, config
