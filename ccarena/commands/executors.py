"""Options `--executor` and `--ray-address` of commands that run work in parallel."""

from __future__ import annotations

import argparse

from ccarena.core.arguments import Unused
from ccarena.errors import ConfigError
from ccarena.executors.pieces import Executor
from ccarena.scenarios.backends import SIM

__all__ = ["EXECUTORS", "LOCAL", "RAY", "UNUSED", "add_options", "of_options"]

LOCAL, RAY = EXECUTORS = ("local", "ray")

UNUSED = (Unused(("ray_address",), lambda args: args.executor != RAY, f"without --executor {RAY}"),)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--executor",
        choices=EXECUTORS,
        default=LOCAL,
        help="local: on this machine; ray: on every machine of a Ray cluster (local)",
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="the cluster's address, such as head:6379 or auto (RAY_ADDRESS; without one Ray starts on this machine)",
    )


def of_options(args: argparse.Namespace, local: Executor) -> Executor:
    """Returns the executor from the options: `local`, or a cluster. Raises ConfigError on kernel TCP,
    MissingDependencyError.
    """
    if args.executor == LOCAL:
        return local
    if getattr(args, "backend", SIM) != SIM:
        raise ConfigError(
            f"--executor {args.executor} beside --backend {args.backend}: runs in real time need this machine for "
            "themselves; leave --executor out"
        )
    from ccarena.executors.ray import OnRay, module

    module(f"--executor {RAY}")
    return OnRay(args.ray_address)
