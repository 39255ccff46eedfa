"""Command `ccarena quic`: a server and a client of data over QUIC, each connection under its own congestion control,
and what an operator of the server does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ccarena.core.outputs import folder
from ccarena.core.programs import QUIC, find
from ccarena.errors import ConfigError, did_you_mean
from ccarena.operation import command

__all__ = ["add_parser", "run"]

MANY = "several times: for one connection after the other, the last one for all further ones"


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own commands."""
    parser = subparsers.add_parser("quic", **kwargs)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="what", required=True)

    serve = commands.add_parser(
        "serve",
        help="send data to clients, until interrupted; prints lines of JSON, the first with address and fingerprint",
    )
    serve.add_argument("--listen", metavar="ADDRESS:PORT", help="address to listen on (127.0.0.1:4433)")
    serve.add_argument("--scheme", metavar="NAME", help="scheme of connections that ask for none (cubic)")
    serve.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="ENTRANT",
        help="offer this policy too, by its label (docs/entrants.md); the first is for connections that ask for none. "
        "Shipped policies are always offered",
    )
    serve.add_argument("--fixed", action="store_true", help="clients may not choose scheme, parameters or policy")
    serve.add_argument("--ack-every", type=int, metavar="N", help="ask clients to acknowledge every N packets (2)")
    serve.add_argument("--qlog", type=folder, metavar="DIR", help="log each connection's congestion control for qvis")

    serve.add_argument("--control", metavar="SOCKET", help="take an operator's commands at this Unix socket (none)")
    serve.add_argument("--fallback", metavar="NAME", help="scheme in the place of policies (cubic)")
    serve.add_argument("--shadow", action="store_true", help="policies decide, and the fallback scheme acts")
    serve.add_argument("--guard", type=int, metavar="N", help=f"{command.GUARD} ({command.DEFAULT_GUARD})")

    get = commands.add_parser(
        "get", help="get data over several connections, each with its own scheme, requirement or weight"
    )
    get.add_argument("remote", metavar="ADDRESS:PORT", help="address of the server")
    get.add_argument(
        "--connections", type=int, metavar="N", help="number of connections (as many as the longest option's values)"
    )
    get.add_argument("--scheme", action="append", default=[], metavar="NAME", help=f"congestion control; {MANY}")
    get.add_argument("--policy", action="append", default=[], metavar="NAME", help="one of the server's policies")
    get.add_argument("--bytes", action="append", default=[], metavar="N", help="bytes to get; endless if not given")
    get.add_argument("--desired-mbps", action="append", default=[], metavar="R", help="rate that the application wants")
    get.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="AT_S[/CONNECTION]:WHAT=VALUE",
        help="at that time requirement=MIN:MAX, weight=W or desired-mbps=R; lines of JSON on standard input do the "
        'same ({"connection": 0, "requirement": [20, 30]})',
    )
    get.add_argument("--duration-s", metavar="S", help="end transfers without end")
    get.add_argument(
        "--timeout-s",
        metavar="S",
        help="fail, with status 1, if the server is silent for so long (5 when connecting and at the end of "
        "--duration-s, 30 in the middle of a transfer)",
    )
    get.add_argument("--fingerprint", metavar="SHA256", help="accept the server with this key only (any)")
    for one in (serve, get):
        one.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the scheme")
        one.add_argument(
            "--requirement",
            action="append",
            default=[],
            metavar="MIN:MAX",
            help="requirement for Hercules, in Mbit/s, such as 10:15",
        )
        one.add_argument("--weight", action="append", default=[], metavar="W", help="weight of a weighted scheme")
        one.add_argument("--interval-s", metavar="S", help="interval of a line about every connection (none)")
        one.add_argument("--mtu", type=int, metavar="BYTES", help="UDP payload of a full packet (1472)")

    load = commands.add_parser("load", help="put a policy in force at a server; open connections follow")
    load.add_argument("policy", metavar="ENTRANT", help="the policy, by its label (docs/entrants.md)")
    load.add_argument("--as", dest="name", metavar="NAME", help="name at the server (the label); replaces its policy")
    load.add_argument("--shadow", action="store_true", help="the policy decides, and the fallback scheme acts")
    load.add_argument("--guard", type=int, metavar="N", help=command.GUARD + " (what is in force, or `serve` has)")
    for one in (load, command.add_canary(commands), *command.add_parsers(commands)):
        one.add_argument(
            "--control", type=Path, required=True, metavar="SOCKET", help="the server's: `serve --control SOCKET`"
        )


def run(args: argparse.Namespace) -> int:
    """Runs the command and returns its exit code. `serve` and `get` replace this process by `ccarena-quic`, which gets
    its signals. Raises ConfigError, PolicyError or MachineError.
    """
    if args.what not in ("serve", "get"):
        return _operate(args)
    words = _serve(args) if args.what == "serve" else _get(args)
    for name in ("interval_s", "mtu"):
        words += _given(name, getattr(args, name))
    for name in ("param", "requirement", "weight"):
        words += _repeated(f"--{name}", getattr(args, name))
    program = find(QUIC)
    sys.stdout.flush()
    os.execv(program, [program.name, args.what, *words])


def _operate(args: argparse.Namespace) -> int:
    from ccarena.policies import artifact
    from ccarena.quic.server import Server
    from ccarena.scenarios.entrants import named_file

    server = Server(args.control)
    if args.what == "load":
        name, file = named_file(args.policy)
        artifact.load(file)
        loaded = server.load(file, args.name or name, label=args.policy, shadow=args.shadow, guard=args.guard)
        print(f"{loaded.name}: policy {loaded.policy} ({loaded.sha256[:12]}) is in force; {loaded.traffic}")
    elif args.what == "canary":
        command.print_canary(server.canary(args.name, args.share, to=args.to, guard=args.guard))
    else:
        command.run(args, server)
    return 0


def _given(name: str, value: object) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _known(schemes: Sequence[str]) -> None:
    from ccarena import _core

    known = [entry["name"] for entry in _core.schemes()]
    for name in schemes:
        if name not in known:
            raise ConfigError(f'unknown scheme "{name}"{did_you_mean(name, known)}')


def _serve(args: argparse.Namespace) -> list[str]:
    from ccarena.core.learned_schemes import shipped_policies
    from ccarena.policies import artifact
    from ccarena.scenarios.entrants import named_file

    if args.scheme and args.policy:
        raise ConfigError(
            "--scheme and --policy exclude each other: both say what connections get that ask for nothing"
        )
    _known([args.scheme] if args.scheme else [])
    words = [*_given("listen", args.listen), *_given("scheme", args.scheme)]
    given = dict(map(named_file, args.policy))
    for name, file in {**shipped_policies(), **given}.items():
        artifact.load(file)
        words += ["--policy", f"{name}={file}"]
    words += ["--default-policy", next(iter(given))] if given else []
    words += ["--fixed"] if args.fixed else []
    words += ["--shadow"] if args.shadow else []
    words += [word for name in ("control", "fallback", "guard") for word in _given(name, getattr(args, name))]
    return [*words, *_given("ack_every", args.ack_every), *_given("qlog", args.qlog)]


def _get(args: argparse.Namespace) -> list[str]:
    _known(args.scheme)
    words = [args.remote]
    for name in ("scheme", "policy", "bytes", "desired_mbps", "change"):
        words += _repeated(f"--{name.replace('_', '-')}", getattr(args, name))
    for name in ("connections", "duration_s", "timeout_s", "fingerprint"):
        words += _given(name, getattr(args, name))
    return words
