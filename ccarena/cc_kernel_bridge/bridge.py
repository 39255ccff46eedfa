"""Our congestion controls for every socket of this machine: attach, list, weigh, detach.

What is attached stays after the process that attached it has ended; `detach` takes everything back. Attached are
`ccarena`, `wcc_ai`, `wcc_md`, `multcp` and `ewtcp` (the kernel allows no hyphen in these names), and `pilot` if asked.
The bridge daemon (`ccarena kernel daemon`) drives `ccarena`, which is CUBIC without a daemon:

    with attached():
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"wcc_ai")
        set_weight(3.0, of=sock)
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccarena.core.programs import find
from ccarena.errors import ConfigError, MachineError, RunnerError

__all__ = ["Status", "ask", "attach", "attached", "detach", "set_weight", "status"]

LARGEST_WEIGHT = 1000.0
SO_COOKIE = 57  # asm-generic/socket.h; the socket module has no name for it


@dataclass(frozen=True)
class Status:
    """Attached congestion controls and their sockets."""

    names: tuple[str, ...]
    """Names of the congestion controls, as `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control` take them."""
    age_s: float
    option: bool
    """Sockets write, read and echo ACCT's TCP option."""
    sockets: int
    """Sockets that have chosen `ccarena`, without those beyond a user's quota."""
    driven: int
    """Number of these sockets that a bridge daemon drives; the others run CUBIC."""
    unreported: int
    """Number of events that the bridge daemon missed, because too many came at once."""
    pins: Path
    """Folder where the programs are pinned."""


def attach(
    *,
    option: Path | None = None,
    weighted: bool = True,
    unrestricted: bool = False,
    deadline_ms: float | None = None,
    sockets_per_user: int | None = None,
    changes_per_s: int | None = None,
) -> Status:
    """Attaches the congestion controls until `detach`.

    Arguments:
        option: sockets of this cgroup (its folder) write and answer ACCT's TCP option.
        weighted: attach the weighted ones too.
        unrestricted: every user may choose them, not only those with CAP_NET_ADMIN.
        deadline_ms: a socket whose daemon has not answered for this time is CUBIC until it does (None: 200 ms or four
        of its intervals).
        sockets_per_user: most driven sockets of one user (None: 16,384); 0 is no bound.
        changes_per_s: most sockets of one user that are reported when they open or close in a second (None: 2,000); 0
        is no bound.

    Raises MachineError: no root, a kernel that cannot, or something attached already.
    """
    words = [] if option is None else ["--option", str(option)]
    words += [] if weighted else ["--no-wcc"]
    words += ["--unrestricted"] if unrestricted else []
    words += [] if deadline_ms is None else ["--deadline-ms", repr(float(deadline_ms))]
    words += [] if sockets_per_user is None else ["--sockets-per-user", str(sockets_per_user)]
    words += [] if changes_per_s is None else ["--changes-per-s", str(changes_per_s)]
    found = _status(ask("attach", *words))
    if found is None:
        raise RunnerError("ccarena-kernel attached nothing, without an error: this is a bug in ccarena")
    return found


def status() -> Status | None:
    """Returns the attached congestion controls, or None. Raises MachineError."""
    return _status(ask("status"))


def detach() -> None:
    """Detaches everything; open sockets keep what they have until they close. Raises MachineError if nothing is
    attached.

    If `net.ipv4.tcp_congestion_control` names one of the congestion controls, its former value is restored.
    """
    ask("detach")


@contextmanager
def attached(
    *,
    option: Path | None = None,
    weighted: bool = True,
    unrestricted: bool = False,
    deadline_ms: float | None = None,
    sockets_per_user: int | None = None,
    changes_per_s: int | None = None,
) -> Iterator[Status]:
    """Attaches the congestion controls during the block. Arguments and errors are those of `attach`."""
    found = attach(
        option=option,
        weighted=weighted,
        unrestricted=unrestricted,
        deadline_ms=deadline_ms,
        sockets_per_user=sockets_per_user,
        changes_per_s=changes_per_s,
    )
    try:
        yield found
    finally:
        detach()


def set_weight(
    weight: float | None,
    *,
    of: socket.socket | None = None,
    mark: int | None = None,
    cgroup: Path | None = None,
) -> None:
    """Sets the weight of attached sockets, open ones included; None removes it.

    The weight is of one socket, of those with a mark (`SO_MARK`), or of those made in a cgroup (its folder). The first
    of these that has a weight decides, in this order. With none of the three, the weight is of all others. One socket's
    weight ends with it.

    Raises ConfigError for more than one of them, and for a weight that is not above 0 and at most 1000. Raises
    MachineError if nothing is attached.
    """
    if weight is not None and not 0 < weight <= LARGEST_WEIGHT:
        raise ConfigError(f"weight {weight:g}: expected a number above 0 and at most {LARGEST_WEIGHT:g}")
    keys: list[str] = []
    if of is not None:
        keys += ["--cookie", str(int.from_bytes(of.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little"))]
    if mark is not None:
        keys += ["--mark", str(mark)]
    if cgroup is not None:
        if not (cgroup / "cgroup.controllers").exists():
            raise ConfigError(f"{cgroup}: is no folder of a cgroup2 file system, such as /sys/fs/cgroup/system.slice")
        keys += ["--cgroup", str(os.stat(cgroup).st_ino)]
    if len(keys) > 2:
        raise ConfigError("set_weight: expected at most one of a socket, a mark and a cgroup")
    ask("weight", "none" if weight is None else repr(float(weight)), *keys)


def _status(answer: str) -> Status | None:
    try:
        found = json.loads(answer)
        if not found["attached"]:
            return None
        return Status(
            tuple(found["names"]),
            float(found["age_s"]),
            bool(found["option"]),
            int(found["sockets"]),
            int(found["driven"]),
            int(found["unreported"]),
            Path(found["pins"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RunnerError(f"ccarena-kernel's status is not understood: {answer[:200]!r}") from error


def ask(*words: str) -> str:
    """Returns the program's output. Raises MachineError with its message if it fails."""
    program = find("ccarena-kernel")
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise MachineError(f"{program}: cannot be run: {error.strerror}; `make setup` builds it") from error
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("ccarena-kernel: ") or f"it ended with code {done.returncode}"
        raise (ConfigError if done.returncode == 2 else MachineError)(said.splitlines()[0])
    return done.stdout
