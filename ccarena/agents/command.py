"""`ccarena train`: configuration in, a run folder with checkpoints, policy and page out."""

from __future__ import annotations

import argparse
import os
import textwrap
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, dump_config, load_config, parse_overrides
from ccarena.configs.docs import TITLES
from ccarena.configs.keys import keys, plain
from ccarena.configs.load import shipped
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.run_folder import CONFIG
from ccarena.traces.held_out import CARRIERS

RUNS = Path("runs")


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; every other `--KEY VALUE` is an override of the configuration."""
    names = ", ".join(shipped())
    parser = subparsers.add_parser(
        "train",
        **kwargs,
        usage="ccarena train [--config NAME_OR_FILE] [--KEY VALUE ...] [--leave-out CARRIER] [--resume] "
        "[--print-config]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_key_help(),
    )
    parser.add_argument(
        "--config", metavar="NAME_OR_FILE", default="acct", help=f"a YAML file, or one of: {names} (default: acct)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --out (default: the newest runs/NAME)"
    )
    parser.add_argument(
        "--leave-out",
        metavar="CARRIER",
        help=f"train on every recording and preset but those of this carrier, and test on those: {', '.join(CARRIERS)}",
    )
    parser.add_argument("--print-config", action="store_true", help="print the effective configuration and stop")
    parser.set_defaults(overrides=[])


def run(args: argparse.Namespace) -> int:
    """Loads and checks the configuration, then trains. Returns the exit code."""
    overrides = parse_overrides(args.overrides, options=("config", "leave-out", "resume", "print-config"))
    config = load_config(args.config, overrides)
    if args.leave_out is not None:
        from ccarena.envs.domain import without_carrier

        config = without_carrier(config, args.leave_out)
    if args.resume:
        # A resumed run goes on with its own configuration; --config only says which run it is.
        folder = Path(config.out) if config.out else newest_run(config.name)
        if not (folder / CONFIG).is_file():
            raise ConfigError(
                f"--resume: {folder} holds no run (no {CONFIG}); give its folder with --out, or leave --resume out"
            )
        config = load_config(folder / CONFIG, {**overrides, "out": str(folder)})
    if args.print_config:
        print(dump_config(config), end="")
        return 0
    # The native extension from here on: --help and --print-config do without it.
    from ccarena.envs.domain import domain_json, heuristics, name_traces
    from ccarena.envs.rewards import Reward
    from ccarena.envs.spec import spec_of

    # What does not exist (document, reward, presets, traces, schemes) is refused now, not after the training.
    Reward(config.reward, spec_of(config))
    domain_json(config)
    heuristics("baselines", config.baselines)
    if not args.resume:
        config = config.model_copy(update={"out": str(free_folder(config)), "env": name_traces(config.env)})
        if config.env.link.kinds.trace > 0 and config.env.link.traces == "auto":
            print("no recorded traces found: training on synthetic capacity alone (`ccarena traces fetch nyc-lte`)")
    # Threads of OpenMP cost more than they give on networks this small; torch reads this when it is loaded.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        import torch  # noqa: F401  (only to say early, and clearly, that it is missing)
    except ImportError as error:
        raise MissingDependencyError.for_extra("torch", "train", "training") from error
    from ccarena.agents.train import train

    return train(config, resume=args.resume)


def newest_run(name: str) -> Path:
    """The folder of the newest run called `name`: the last of `runs/NAME`, `runs/NAME-2`, ..."""
    folder, number = RUNS / name, 2
    while (RUNS / f"{name}-{number}").exists():
        folder, number = RUNS / f"{name}-{number}", number + 1
    return folder


def free_folder(config: TrainConfig) -> Path:
    """Where a new run goes. No run is ever overwritten.

    Raises ConfigError if `out` was given and holds a run already.
    """
    if config.out:
        folder = Path(config.out)
        if (folder / CONFIG).exists():
            raise ConfigError(f"out = {folder}: holds a run already; go on with it by --resume, or name another folder")
        return folder
    folder = newest_run(config.name)
    if not (folder / CONFIG).exists():
        return folder
    stem, _, number = folder.name.rpartition("-")
    return RUNS / (
        f"{config.name}-{int(number) + 1}" if stem == config.name and number.isdigit() else f"{config.name}-2"
    )


def _key_help() -> str:
    lines = [
        "configuration keys (KEY, its default, what it takes; rewards, networks and algorithms take more, by name):"
    ]
    kind = ""
    for key in keys():
        if key.kind != kind and key.kind:
            lines.append(f"  {TITLES[key.kind]}")
        kind = key.kind
        lines.append(f"  --{key.path} {plain(key.default)}")
        text = f"{' '.join(key.doc.split())} Takes {key.expected}."
        lines += textwrap.wrap(text, 100, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines).replace("%", "%%")
