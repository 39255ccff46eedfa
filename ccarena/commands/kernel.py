"""Command `ccarena kernel`: attach, list, weigh, drive and detach congestion controls of this machine, and load and
operate policies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from ccarena.cc_kernel_bridge import bridge, policies
from ccarena.core.arguments import refuse
from ccarena.core.programs import find
from ccarena.core.terminal import heartbeat
from ccarena.errors import ConfigError, PolicyError
from ccarena.operation import command
from ccarena.operation.loaded import Loaded

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own commands."""
    parser = subparsers.add_parser("kernel", **kwargs)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="what", required=True)

    attach = commands.add_parser("attach", help="attach the congestion controls to this machine, until detach (root)")
    attach.add_argument(
        "--unrestricted", action="store_true", help="every user may choose them, not only those with CAP_NET_ADMIN"
    )
    attach.add_argument(
        "--option", type=Path, metavar="CGROUP", help="sockets of this cgroup write and answer ACCT's TCP option (off)"
    )
    attach.add_argument("--no-wcc", action="store_true", help="without wcc-ai, wcc-md, multcp and ewtcp")
    attach.add_argument(
        "--deadline-ms",
        type=float,
        metavar="MS",
        help="silence of the bridge daemon after which CUBIC takes over (200)",
    )

    attach.add_argument(
        "--sockets-per-user", type=int, metavar="N", help="more of a user's sockets stay CUBIC; 0: no bound (16384)"
    )
    attach.add_argument(
        "--changes-per-s",
        type=int,
        metavar="N",
        help="most of a user's sockets that open or close reported at once; 0: no bound (2000)",
    )

    load = commands.add_parser(
        "load", help="load a policy, or pilot, as a congestion control in the kernel, until unload or detach (root)"
    )
    load.add_argument(
        "policy",
        metavar="POLICY",
        help="a policy file, a run, a shipped policy's name, an image of `ccarena export`, or the scheme pilot",
    )
    load.add_argument(
        "--as",
        dest="name",
        metavar="NAME",
        help="name of the congestion control (the scheme's); a loaded policy is replaced",
    )
    load.add_argument(
        "--unrestricted", action="store_true", help="every user may choose it, not only those with CAP_NET_ADMIN"
    )
    load.add_argument(
        "--option", type=Path, metavar="CGROUP", help="sockets of this cgroup write and answer ACCT's TCP option (off)"
    )
    load.add_argument("--desired-mbps", type=float, metavar="R", help="rate that ACCT asks routers for (10000)")
    load.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a run-time parameter, or one of pilot"
    )

    load.add_argument("--shadow", action="store_true", help="the policy decides, and CUBIC acts: `stats` compares them")
    load.add_argument(
        "--guard", type=int, metavar="N", help=f"{command.GUARD} ({command.DEFAULT_GUARD}, or what is in force)"
    )

    canary = command.add_canary(commands)
    canary.add_argument("--cgroup", type=Path, metavar="DIR", help="only sockets made in this cgroup (any)")
    command.add_parsers(commands)

    unload = commands.add_parser("unload", help="unload a policy, or all; open sockets keep what they have")
    unload.add_argument("name", nargs="?", metavar="NAME", help="the congestion control (all)")

    status = commands.add_parser("status", help="attached congestion controls and loaded policies")
    status.add_argument("--json", action="store_true", help="print JSON")

    commands.add_parser(
        "detach",
        help="detach everything, from net.ipv4.tcp_congestion_control too; open sockets keep what they have",
    )

    weight = commands.add_parser("weight", help="set weights of sockets of the weighted congestion controls")
    weight.add_argument("weight", metavar="WEIGHT", help="weight above 0 and at most 1000; none removes it")
    of = weight.add_mutually_exclusive_group()
    of.add_argument("--mark", type=int, metavar="N", help="sockets with this SO_MARK")
    of.add_argument("--cgroup", type=Path, metavar="DIR", help="sockets made in this cgroup")

    daemon = commands.add_parser(
        "daemon",
        help="drive the sockets that have chosen ccarena, until interrupted; there can be one daemon",
    )
    daemon.add_argument("who", metavar="SCHEME_OR_POLICY", help="a scheme, a policy file, or a run's name or folder")
    daemon.add_argument(
        "--action", type=float, metavar="A", help="constant action of a learned scheme without a policy"
    )
    daemon.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the scheme")
    daemon.add_argument("--weight", type=float, metavar="W", help="weight of a weighted scheme")
    daemon.add_argument("--desired-mbps", type=float, metavar="R", help="rate that ACCT asks routers for")


def run(args: argparse.Namespace) -> int:
    """Runs the command. Returns its exit code, or the daemon's if it was interrupted."""
    if args.what == "attach":
        _print_attached(
            bridge.attach(
                option=args.option,
                weighted=not args.no_wcc,
                unrestricted=args.unrestricted,
                deadline_ms=args.deadline_ms,
                sockets_per_user=args.sockets_per_user,
                changes_per_s=args.changes_per_s,
            )
        )
    elif args.what == "status":
        _print_status(bridge.status(), policies.stats(), args.json)
    elif args.what == "detach":
        bridge.detach()
        print("detached: nothing of ccarena is in the kernel any more; open sockets keep what they have")
    elif args.what == "load":
        _load(args)
    elif args.what == "unload":
        for name in policies.unload(args.name):
            print(f"{name}: unloaded")
    elif args.what == "canary":
        command.print_canary(policies.canary(args.name, args.share, cgroup=args.cgroup, to=args.to, guard=args.guard))
    elif args.what == "weight":
        bridge.set_weight(_weight(args.weight), mark=args.mark, cgroup=args.cgroup)
    elif not command.run(args, policies):
        _become_daemon(args)
    return 0


def _print_status(found: bridge.Status | None, loaded: list[Loaded], as_json: bool) -> None:
    if as_json:
        attached = {"attached": False} if found is None else {"attached": True, **asdict(found)}
        print(json.dumps({**attached, "policies": [asdict(each) for each in loaded]}, default=str))
        return
    if found is not None:
        _print_attached(found)
    elif loaded:
        print("attached: nothing but loaded policies (`ccarena kernel attach` for the other congestion controls)")
    else:
        print("nothing is attached (`ccarena kernel attach`), and no policy is loaded (`ccarena kernel load POLICY`)")
    for each in loaded:
        print(
            f"{each.name}: policy {each.policy}, number {each.generation}, {each.sha256[:12]}; {each.traffic}; "
            f"loaded for {each.age_s:.0f} s; {each.sockets} sockets, {each.decisions} decisions"
        )


def _print_attached(found: bridge.Status) -> None:
    print(f"attached for {found.age_s:.0f} s: {', '.join(found.names)}")
    print(f"sockets with ccarena: {found.sockets}, of these driven by a daemon: {found.driven}")
    print(f"ACCT's TCP option: {'on' if found.option else 'off'}; pinned at {found.pins}")


def _load(args: argparse.Namespace) -> None:
    with heartbeat(lambda: "the kernel verifies the program"):
        loaded = policies.load(
            args.policy,
            args.name,
            unrestricted=args.unrestricted,
            option=args.option,
            desired_mbps=args.desired_mbps,
            params=dict(_param(given) for given in args.param),
            shadow=args.shadow,
            guard=args.guard,
        )
    if loaded.generation > 1:
        print(f"{loaded.name}: replaced; {loaded.sockets} open sockets follow at the end of their next period")
        print(f"{loaded.name}: {loaded.traffic}")
    else:
        print(f"{loaded.name}: loaded; sockets choose it with TCP_CONGESTION, as `iperf3 -C {loaded.name}` does")


def _param(given: str) -> tuple[str, float]:
    name, _, value = given.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ConfigError(f"--param {given}: expected NAME=NUMBER") from None


def _weight(text: str) -> float | None:
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise ConfigError(f'weight: got "{text}"; expected a number, or none') from None


def _become_daemon(args: argparse.Namespace) -> NoReturn:
    """Replaces this process by the bridge daemon, which gets its signals. Raises ConfigError or PolicyError before."""
    _refuse_in_vain(args)
    words = [*_who(args.who), *(word for given in args.param for word in ("--param", given))]
    for name in ("action", "weight", "desired_mbps"):
        value = getattr(args, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", repr(value)]
    program = find("ccarena-kernel")
    sys.stdout.flush()
    os.execv(program, [program.name, "daemon", *words])


def _refuse_in_vain(args: argparse.Namespace) -> None:
    """Raises ConfigError for options that the scheme does not use, or for an action that would replace a policy's."""
    from ccarena import _core

    scheme = next((entry for entry in _core.schemes() if entry["name"] == args.who), None)
    if scheme is None:
        refuse(args, ("action",), f"beside the policy {args.who}, which decides by itself")
        return
    if not scheme["learned"]:
        refuse(args, ("action", "desired_mbps"), f"with {args.who}, which is not learned")
    if scheme.get("weight_above") is None and not scheme["learned"]:
        refuse(args, ("weight",), f"with {args.who}, which has no weight (`ccarena schemes` says which have)")


def _who(text: str) -> list[str]:
    """Returns the daemon's arguments for a scheme, or for a policy. Raises PolicyError for an unusable policy."""
    from ccarena import _core
    from ccarena.scenarios.entrants import find_policy, parse

    if text in {entry["name"] for entry in _core.schemes()}:
        return ["--scheme", text]
    try:
        parse(text)  # an unknown name may be meant for a scheme's, which `find_policy` does not know
    except ConfigError as error:
        raise PolicyError(str(error)) from error
    # The artifact says its scheme and the parameters of its training, and the program reads both from it.
    return ["--policy", str(find_policy(text))]
