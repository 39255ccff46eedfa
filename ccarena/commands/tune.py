"""Command `ccarena tune`: a sweep over a space of configurations, and its page."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, load_config, parse_overrides
from ccarena.configs.load import DEFAULT
from ccarena.configs.unused import refuse_unused_keys
from ccarena.core.dimensions import Dimension
from ccarena.core.files import check_writable
from ccarena.core.outputs import folder_or_url
from ccarena.core.terminal import NOTHING_BEGUN, again, command_line, heartbeat, remember
from ccarena.errors import INTERRUPTED, ConfigError
from ccarena.runs.remote_folder import check_packages, is_url, opened, shown
from ccarena.tune import page, population
from ccarena.tune.space import Space, check, check_kinds, read_space
from ccarena.tune.sweep import EXPERIMENT, PLAN, POPULATION_BASED, SWEEP, Plan, members, prepare, read_plan, sweep
from ccarena.tune.trial import Trials

__all__ = ["add_parser", "run"]

SEARCHES, SCHEDULERS = ("random", "optuna"), ("asha", "none", POPULATION_BASED)
MOST = 10_000
"""Most trials, seeds or validations."""
FIXED = ("config", "space", "samples", "seeds", "search", "scheduler", "validations")


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; every other `--KEY VALUE` is an override of the configuration."""
    parser = subparsers.add_parser("tune", **kwargs)
    parser.add_argument("--config", metavar="NAME_OR_FILE", default=DEFAULT, help=f"configuration to train ({DEFAULT})")
    parser.add_argument("--space", type=Path, metavar="FILE", help="search space, a YAML file (docs/cluster.md)")
    parser.add_argument(
        "--samples", type=int, default=16, metavar="N", help="trials (16), or repetitions of a whole grid"
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="trainings per trial, seeds 1 to N (3)")
    parser.add_argument("--search", choices=SEARCHES, default="random", help="search that draws trials (random)")
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        default="asha",
        help="asha ends trials whose mean over seeds falls behind (arXiv:1810.05934); pbt has the worst copy the best "
        "and perturb their settings (arXiv:1711.09846); none ends no trial (asha)",
    )
    parser.add_argument("--validations", type=int, default=9, metavar="N", help="comparisons during a training (9)")
    parser.add_argument(
        "--out",
        type=folder_or_url,
        metavar="DIR_OR_URL",
        help="folder of the sweep, shared by all machines, or its URL, such as s3://bucket/sweep (runs/tune-NAME)",
    )
    parser.add_argument("--resume", action="store_true", help="continue the sweep in --out, as it was started")
    parser.add_argument(
        "--ray-address", metavar="ADDRESS", help="address of the cluster (RAY_ADDRESS; else this machine)"
    )
    parser.set_defaults(overrides=[])


def run(args: argparse.Namespace) -> int:
    """Runs the trials and prints the results. Returns the exit code: 1 if a trial failed, 130 after Ctrl-C."""
    remember(command_line(args), lambda: "the sweep is as it was" if args.resume else NOTHING_BEGUN)
    options = (*FIXED, "out", "resume", "ray-address")
    overrides = parse_overrides(args.overrides, options=options)
    if args.resume:
        if given := [args.given[name] for name in FIXED if name in args.given]:
            raise ConfigError(f"{given[0]} has no effect beside --resume: the sweep goes on as it was started")
        if overrides:
            raise ConfigError(f"--{next(iter(overrides))} has no effect beside --resume; leave it out")
        if args.out is None:
            raise ConfigError("--resume: which sweep? Give its folder with --out")
        place, begun = args.out, None
    else:
        place, begun, check_trainings = _begin(args, overrides)
        prepare(place, begun[0].search, args.ray_address, check_trainings)
    with _opened(place, args.resume) as out:
        plan, space, config = begun or _read(out)
        if args.resume:
            prepare(place, plan.search, args.ray_address)
        where = [] if args.ray_address is None else ["--ray-address", args.ray_address]
        remember(
            shlex.join(["ccarena", "tune", "--out", place, "--resume", *where]),
            lambda: f"the sweep is kept in {place}" if (out / PLAN).is_file() else NOTHING_BEGUN,
        )
        return _sweep(out, plan, space, config)


@contextmanager
def _opened(place: str, resume: bool) -> Iterator[Path]:
    """Returns the sweep's folder on this machine."""
    if is_url(place):
        with opened(place, resume, SWEEP) as out:
            yield out
    else:
        yield Path(place).resolve()


def _read(out: Path) -> tuple[Plan, Space, None]:
    plan = read_plan(out)
    dimensions = {key: Dimension(each["kind"], tuple(each["values"])) for key, each in plan.dimensions.items()}
    return plan, Space(dimensions), None


def _sweep(out: Path, plan: Plan, space: Space, config: TrainConfig | None) -> int:
    def begun() -> str:
        folders = [path for path in (out / EXPERIMENT).glob("*") if path.is_dir()]
        return f"sweep: {len(folders)} of {members(plan, space)} trials begun"

    with heartbeat(begun):
        found, left = sweep(out, plan, space, config)
    if left:
        print(f"interrupted, {left} of {len(found)} trials are not over; {again()}", file=sys.stderr)
        return INTERRUPTED
    trials = Trials(shown(out))
    rows = page.rows_of(trials, found, plan.seeds, plan.validations)
    facts = {
        "Seeds per trial": str(plan.seeds),
        "Trials": str(len(rows)),
        "Drawn by": plan.search,
        "Ended early by": plan.scheduler,
    }
    page.write(out, trials, rows, plan.name, plan.command, facts, population.read(out))
    page.show(rows)
    print(f"wrote {page.ROWS} and {page.PAGE} to {shown(out)}")
    return int(any(row["state"] == "failed" for row in rows))


def _begin(
    args: argparse.Namespace, overrides: dict[str, Any]
) -> tuple[str, tuple[Plan, Space, TrainConfig], Callable[[], None]]:
    """Checks what is asked for, and returns it with the place of the sweep. Writes nothing.

    Also returns the check of what needs PyTorch.
    """
    for name in ("samples", "seeds", "validations"):
        if not 1 <= getattr(args, name) <= MOST:
            raise ConfigError(f"--{name} {getattr(args, name)}: expected 1 to {MOST:,}")
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
    if args.scheduler == POPULATION_BASED:
        _check_population(args, config, space)
    place = args.out or str(Path("runs", f"tune-{config.name}"))
    if is_url(place):
        check_packages(place)  # on this machine, before a cluster is asked
    elif Path(place, PLAN).exists():
        raise ConfigError(
            f"{place}: holds a sweep already; go on with it (--out {place} --resume), or name another folder"
        )
    else:
        check_writable(Path(place))
    dimensions = {key: asdict(each) for key, each in space.dimensions.items()}
    plan = Plan(
        config.name,
        args.samples,
        args.seeds,
        args.search,
        args.scheduler,
        args.validations,
        dimensions,
        command_line(args),
    )
    return place, (plan, space, config), partial(check_kinds, args.space, space, args.config, inside)


def _check_population(args: argparse.Namespace, config: TrainConfig, space: Space) -> None:
    if args.search != "random":
        raise ConfigError(f"--search {args.search} has no effect with --scheduler pbt: its members begin together")
    for name, least in (("samples", 2), ("validations", 2)):
        if getattr(args, name) < least:
            raise ConfigError(f"--{name} {getattr(args, name)}: expected at least {least} with --scheduler pbt")
    if config.validation.every_decisions != config.total_decisions // args.validations:
        raise ConfigError(
            f"validation.every_decisions = {config.validation.every_decisions}: with --scheduler pbt it follows from "
            "--validations; leave it out"
        )
    population.check(config, space, args.space)
