"""Command `ccarena train`: it takes a configuration and writes a run folder with checkpoints, policy and page."""

from __future__ import annotations

import argparse
import textwrap
from importlib.util import find_spec
from typing import Any

from ccarena.agents.api import check_reward, resumed, train
from ccarena.configs import TrainConfig, dump_config, load_config, parse_overrides
from ccarena.configs.keys import TITLES, keys_of, plain
from ccarena.configs.load import DEFAULT, shipped
from ccarena.configs.unused import refuse_unused_keys
from ccarena.core.arguments import Unused
from ccarena.core.terminal import NOTHING_BEGUN, command_line, remember
from ccarena.errors import INTERRUPTED, ConfigError
from ccarena.runs.remote_folder import is_url
from ccarena.traces.held_out import CARRIERS

HELP_COLUMNS = 80


UNUSED = (
    Unused(("resume", "print_config", "until"), lambda args: args.help, "beside --help"),
    Unused(("until",), lambda args: args.print_config, "beside --print-config"),
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; every other `--KEY VALUE` is an override of the configuration."""
    names = ", ".join(shipped())
    parser = subparsers.add_parser(
        "train",
        **kwargs,
        usage="ccarena train [--config NAME_OR_FILE] [--KEY VALUE ...] [--leave-out CARRIER]\n"
        "                     [--resume] [--until DECISIONS] [--ray-address ADDRESS] [--print-config]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this, with the values of --config, and stop")
    parser.add_argument(
        "--config",
        metavar="NAME_OR_FILE",
        default=DEFAULT,
        help=f"a YAML file, or one of: {names} (default: {DEFAULT})",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --out (default: the newest runs/NAME)"
    )
    parser.add_argument(
        "--leave-out",
        metavar="CARRIER",
        help=f"train on every recording and preset but those of this carrier, and test on those: {', '.join(CARRIERS)}",
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="with --executor ray: cluster, as ray.address (RAY_ADDRESS; else Ray starts on this machine)",
    )
    parser.add_argument(
        "--until",
        type=int,
        metavar="DECISIONS",
        help="end with a checkpoint after the first validation at or beyond so many decisions, to resume later",
    )
    parser.add_argument("--print-config", action="store_true", help="print the effective configuration and stop")
    parser.set_defaults(overrides=[], train_parser=parser)


def run(args: argparse.Namespace) -> int:
    """Loads and checks the configuration, then trains. Returns the exit code."""
    remember(command_line(args), lambda: "the run is as it was" if args.resume else NOTHING_BEGUN)
    overrides = parse_overrides(
        args.overrides, options=("config", "leave-out", "resume", "until", "ray-address", "print-config", "help")
    )
    if args.ray_address is not None:
        overrides["ray.address"] = args.ray_address
    if args.resume and "out" in overrides and "config" in args.given:
        raise ConfigError("--config has no effect beside --resume and --out: the run has its own configuration")
    resumes = args.resume and not args.help
    # A run goes on as it is configured itself: the other configuration only says which run.
    used = {key: value for key, value in overrides.items() if key in ("name", "out")} if resumes else overrides
    config = load_config(args.config, used)
    if not resumes:
        refuse_unused_keys(config, overrides)
    elif not is_url(config.out or ""):
        refuse_unused_keys(resumed(config, overrides), overrides)
    if args.help:
        args.train_parser.epilog = _key_help(args.config, config)
        args.train_parser.print_help()
        return 0
    if args.until is not None and not config.validation.kinds:
        raise ConfigError("--until has no effect without validations; name a kind of links in validation.kinds")
    if args.leave_out is not None:
        if args.resume:
            raise ConfigError("--leave-out has no effect beside --resume: the run has its own configuration")
        from ccarena.configs.link_distribution import without_carrier

        config, overrides = without_carrier(config, args.leave_out), {}
    if args.print_config:
        shown = resumed(config, overrides) if args.resume else config
        if find_spec("ccarena._core") is not None:  # a machine without it may still see its configuration
            check_reward(shown)
        print(dump_config(shown), end="")
        return 0
    chosen = config if args.leave_out else args.config
    done = train(chosen, overrides, resume=args.resume, command=command_line(args), until=args.until)
    return 0 if done.finished else INTERRUPTED


def _key_help(name: str, config: TrainConfig) -> str:
    lines = [f"configuration keys, with their values in the configuration {name} and what they take:"]
    kind = ""
    for key in keys_of(config):
        if key.kind != kind and key.kind:
            lines.append(f"  {TITLES[key.kind]}")
        kind = key.kind
        lines.append(f"  --{key.path} {_shortened(plain(key.default))}")
        text = " ".join(key.doc.split()) + (f" Takes {key.expected}." if key.expected else "")
        lines += textwrap.wrap(text, HELP_COLUMNS, initial_indent="      ", subsequent_indent="      ")
    lines.append("docs/configuration.md also has the keys of other algorithms and the coefficients of rewards.")
    return "\n".join(lines).replace("%", "%%")


def _shortened(text: str) -> str:
    return text if len(text) <= HELP_COLUMNS // 2 else "(long: --print-config shows it)"
