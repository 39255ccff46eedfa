"""Pieces of work on a Ray cluster: repeated if a worker or a machine is lost, or if one is slow.

Retries are ours, not Ray's, because two cases differ: a piece that kills its worker is given up after `DEATHS` deaths;
a piece whose machine was lost may move any number of times.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import re
import signal
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

from ccarena.core.terminal import again
from ccarena.errors import ConfigError, MissingDependencyError, WorkerError
from ccarena.executors.pieces import Done
from ccarena.executors.ray_watch import watch
from ccarena.executors.shipping import Parcel, answered, original

__all__ = ["ENVIRONMENT", "OnRay", "connect", "first_line", "last_line", "module", "on_machine", "reason_of"]

log = logging.getLogger(__name__)

Piece = TypeVar("Piece")
Result = TypeVar("Result")

DEATHS = 3
"""Most workers that a piece may kill, or machines that may run out of memory under it, before it is given up."""
_ANSWERS_WITHIN_S = 10.0
_PREFACE, _SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""Begin of a connection of gRPC: a client's preface, and the frame of settings that both sides send (RFC 9113, 3.4)."""
_ADDRESS = re.compile(r"\(pid=\d+, ip=([^,)\s]+)|^\tip: (\S+)", re.MULTILINE)
_MODE = "RAY_AUTH_MODE"
_MODE_GIVEN = _MODE in os.environ
"""True if the user has said how a head is called. Ray sets the variable later, too."""
_CLIENT = "ray://"
_MISMATCH = "Version mismatch"
"""Begin of Ray's error for another version on the cluster."""
_STARTS = 4
"""Attempts to start Ray on this machine: it gives its processes half a minute, which busy machines exceed."""
_AHEAD = 2  # pieces handed out per core of the cluster
_LOOK_EVERY_S = 0.5
_RESOURCES_EVERY_S = 1.0
_SILENT_S, _NO_CORE_S = 60.0, 10.0
"""Seconds without a finished piece, or without any core in the cluster, between two messages about it."""
_PATIENCE_S = 600.0
"""Seconds without any core in the cluster before the work ends: as `ray.patience_s` for trainings."""
_SLOW = 3.0
"""Factor over the median time at which a slow piece is started a second time, if a core is free. The first copy to
finish counts (backup tasks; Dean and Ghemawat, OSDI 2004, section 3.6).
"""
_SLOW_AT_LEAST_S = 2.0

ENVIRONMENT = {
    # By default Ray reports its use to its makers.
    "RAY_USAGE_STATS_ENABLED": "0",
    # And it would run workers at the lowest priority, which threads of one process do not have either.
    "RAY_worker_niceness": "0",
    # With OpenTelemetry its threads for metrics outlive `ray.shutdown()` (Ray 2.60). One that wakes while the process
    # ends finds objects destroyed, and the process dies of a segmentation fault after its work.
    "RAY_enable_open_telemetry": "0",
}
"""Environment variables for Ray, which reads them when it is imported; those that the user has set stay."""


def module(purpose: str = "--executor ray") -> ModuleType:
    """Returns Ray's package. Raises MissingDependencyError without it."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # A head asks for the user's token where there is one (Ray 2.60, authentication_token_setup.py). Who joins it has to
    # be told so before the package is imported, which reads this once; later it would only mislead child processes.
    if "ray" not in sys.modules and _token().is_file():
        os.environ.setdefault(_MODE, "token")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingDependencyError.for_extra("ray", "ray", purpose) from error


def connect(address: str | None = None) -> bool:
    """Connects this process to the cluster at `address`, or at `RAY_ADDRESS`; without both, starts Ray on this machine.

    Returns True if this call made the connection, False if it existed before. The connection ends with the process, or
    by `ray.shutdown()`. If the cluster's head is lost, this process ends and prints how to continue. Raises ConfigError
    if no cluster answers, MissingDependencyError without Ray.
    """
    ray = module()
    if ray.is_initialized():
        return False
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    started: dict[str, Any] = {"include_dashboard": False} if where == "local" else {}
    for attempt in range(_STARTS):
        try:
            _answers(where)
            _settle_token(where)
            ray.init(address=where, log_to_driver=False, logging_level=logging.WARNING, **started)
            break
        except SystemExit as error:  # Ray's own answer to SIGTERM while it starts
            raise KeyboardInterrupt from error
        except Exception as error:  # Ray raises whatever it likes, plain Exception among it
            reason = _reason(error)
            if where == "local" and attempt < _STARTS - 1:
                log.warning("Ray has not started here (%s); trying once more", reason)
                ray.shutdown()
                continue
            if where == "local":
                raise ConfigError(
                    f"Ray did not start on this machine, {_STARTS} times: {reason}; wait until it is less busy, or "
                    "name a running cluster (--ray-address)"
                ) from error
            raise ConfigError(
                f"Ray at {where}: {reason}; expected the address of a running cluster (`ray start --head` prints it), "
                "or none, to start Ray on this machine; if its head asks for a token, set RAY_AUTH_MODE=token and have "
                "the head's ~/.ray/auth_token here, too"
            ) from error
    watch(ray.get_runtime_context().gcs_address, ray.is_initialized)
    _end_as_interrupted()
    return True


def _end_as_interrupted() -> None:
    """Makes SIGTERM do what Ctrl-C does, in the main thread: keep what is finished and say how to go on.

    Ray's own handler, installed as it connects, prints a stack trace and ends the process.
    """

    def handle(_number: int, frame: FrameType | None) -> None:
        interrupt = signal.getsignal(signal.SIGINT)  # Ray Tune has one of its own while it runs
        if not callable(interrupt):  # a shell's job in the background ignores SIGINT
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handle)


def _answers(address: str) -> None:
    """Raises OSError if no server of gRPC listens at HOST:PORT, as a head does; Ray itself would try for minutes."""
    if address.startswith(_CLIENT):
        raise OSError("that is an address of Ray's client, which cannot send your files")
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        return
    with socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):  # certificates come first
            return
        try:
            connection.sendall(_PREFACE + _SETTINGS)
            answer = connection.recv(len(_SETTINGS))
        except OSError:  # it is silent, or hangs up
            answer = b""
    if answer[3:4] != _SETTINGS[3:4]:
        what = "HTTP, as Ray's dashboard does," if answer.startswith((b"HTTP/1", b"<")) else "something else"
        raise OSError(f"who listens there speaks {what} and not the protocol of a head")


def _settle_token(address: str) -> None:
    """Has calls to the head at HOST:PORT bring the user's token only if it asks for one. What the user has set stays.

    Ray makes a token when it starts on this machine (2.60). A head that asks for none could not answer to a process
    that does: it would take it for dead, and end its actors.
    """
    if _MODE_GIVEN or not _token().is_file() or not address.rpartition(":")[2].isdigit():
        return
    from ray._raylet import Config, GcsClient  # type: ignore[attr-defined]

    def bring(mode: str) -> None:
        os.environ[_MODE] = mode
        Config.initialize("")  # as Ray's own `authentication_token_setup` does

    bring("disabled")
    try:
        with _silenced():
            GcsClient(address=address)
    except Exception as error:  # for any other one, `ray.init` has a message
        if "InvalidAuthToken" in str(error):
            bring("token")


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Drops what native code writes to stderr in the block."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _token() -> Path:
    return Path.home() / ".ray" / "auth_token"


def _reason(error: Exception) -> str:
    """Returns why there is no connection, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if str(error).startswith(_MISMATCH):
        return f"{' '.join(str(error).split())}; install the cluster's versions here"
    if error.__cause__ is not None:  # it ends with a traceback, and the last line of that is the reason
        return f"it cannot be joined ({last_line(error.__cause__).partition('. ')[0]})"
    return first_line(error)


@dataclass(frozen=True)
class OnRay:
    """Executor on every core of a cluster, including machines that join late."""

    address: str | None = None
    """Address of the cluster, as for `connect`; unused in a connected process."""
    copies: bool = True
    """Start a second copy of slow pieces. Turn it off for pieces that must not run twice at the same time."""

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Generator[Done[Result], None, None]:
        """See `Executor`. Raises what `connect` does, and WorkerError if the cluster is lost."""
        if not pieces:
            return
        connect(self.address)
        fan = _Fan(work, pieces, self.copies)
        try:
            while fan.left:
                yield from fan.step()
        finally:
            fan.close()


class _Fan:
    """State of one call: its pieces and the workers that run them."""

    def __init__(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], copies: bool) -> None:
        self._ray = ray = module()
        self._copies = copies
        self._pieces = pieces
        self._waiting = list(reversed(range(len(pieces))))
        self._running: dict[Any, int] = {}
        self._since_s: dict[Any, float] = {}
        self._took_s: list[float] = []
        self._over: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self._moved_s = self._said_s = self._had_cores_s = time.monotonic()
        # Own retries of Ray's are off, see the module.
        options = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._task = ray.remote(**options)(_perform)
        self._work = Parcel(work)
        self._shared = ray.put(self._work)
        self._cores, self._looked_s = 1, -math.inf
        self._lost = 0
        self._gauges: Any = None

    @property
    def left(self) -> bool:
        """Returns whether a piece is unfinished."""
        return len(self._over) < len(self._pieces)

    def step(self) -> list[Done[Any]]:
        """Hands out what fits, waits a moment and returns the finished pieces."""
        if time.monotonic() - self._looked_s > _RESOURCES_EVERY_S:
            self._cores, self._looked_s = int(self._ray.cluster_resources().get("CPU", 0)), time.monotonic()
            self._show()
        while self._waiting and len(self._running) < _AHEAD * max(self._cores, 1):
            self._submit(self._waiting.pop())
        self._back_up()
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK_EVERY_S)
        if not ready:
            self._say_waiting()
            return []
        done = []
        for reference in ready:
            self._moved_s = self._said_s = time.monotonic()
            if (each := self._take(reference)) is not None:
                done.append(each)
        return done

    def _submit(self, index: int) -> None:
        reference = self._task.remote(self._shared, Parcel(self._pieces[index]))
        self._running[reference] = index
        self._since_s[reference] = time.monotonic()

    def _take(self, reference: Any) -> Done[Any] | None:
        index, began_s = self._running.pop(reference), self._since_s.pop(reference)
        if index in self._over:  # its copy was faster
            return None
        errors = self._ray.exceptions
        try:
            result = original(self._ray.get(reference))
        except errors.RayTaskError as error:
            return self._finish(index, Done.failed(index, error.cause if error.cause is not None else error))
        except errors.RuntimeEnvSetupError as error:
            raise WorkerError(f"Ray cannot prepare its workers: {error}") from error
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            self._deaths[index] += 1
            if self._deaths[index] >= DEATHS:
                reason = f"its worker died {DEATHS} times ({first_line(error)}), out of memory or by a crash"
                return self._finish(index, Done.failed(index, WorkerError(reason)))
            self._again(index, error)
        except (errors.NodeDiedError, errors.ObjectLostError, errors.LocalRayletDiedError) as error:
            self._again(index, error)
        except errors.RayError as error:
            raise WorkerError(f"the Ray cluster failed: {first_line(error)}; see its logs") from error
        else:
            self._took_s.append(time.monotonic() - began_s)
            return self._finish(index, Done.returned(index, result))
        return None

    def _finish(self, index: int, done: Done[Any]) -> Done[Any]:
        self._over.add(index)
        for copy in [other for other, number in self._running.items() if number == index]:
            self._drop(copy)
        return done

    def _again(self, index: int, error: Exception) -> None:
        self._lost += 1
        log.warning("piece %d was lost (%s); it is run again", index, first_line(error))
        # What all pieces share may have been lost with the machine that kept it.
        self._shared = self._ray.put(self._work)
        if index not in self._running.values():
            self._waiting.append(index)

    def _back_up(self) -> None:
        """Starts the slowest piece once more, if all are handed out and a core is free."""
        if not self._copies or self._waiting or len(self._running) >= self._cores or len(self._took_s) < 3:
            return
        slow_s = max(_SLOW * statistics.median(self._took_s), _SLOW_AT_LEAST_S)
        copies = Counter(self._running.values())
        single = {ref: at for ref, at in self._since_s.items() if copies[self._running[ref]] == 1}
        if single and time.monotonic() - (since_s := min(single.values())) > slow_s:
            index = next(self._running[ref] for ref, at in single.items() if at == since_s)
            log.warning("piece %d takes long; it is run once more on another core", index)
            self._submit(index)

    def _say_waiting(self) -> None:
        """Prints why nothing moves: pieces are long, others hold the cluster's cores, or it has no cores.

        Raises WorkerError if the cluster has had no core for too long.
        """
        now_s = time.monotonic()
        if self._cores:
            self._had_cores_s = now_s
        elif now_s - self._had_cores_s > _PATIENCE_S:
            raise WorkerError(
                f"the Ray cluster has had no core for {now_s - self._had_cores_s:.0f} s, and "
                f"{len(self._pieces) - len(self._over)} of {len(self._pieces)} pieces of work are left; add a machine "
                f"(`ray start --address ...`), and {again()}"
            )
        if now_s - self._said_s < (_SILENT_S if self._cores else _NO_CORE_S):
            return
        self._said_s = now_s
        free = self._ray.available_resources().get("CPU", 0)
        log.warning(
            "no piece was over for %.0f s: %d are left, and of the cluster's %d cores %d are free%s",
            now_s - self._moved_s,
            len(self._pieces) - len(self._over),
            self._cores,
            free,
            "" if self._cores else "; add a machine (`ray start --address ...`): the work then goes on",
        )

    def _show(self) -> None:
        from ray.util.metrics import Gauge

        if self._gauges is None:
            self._gauges = {
                name: Gauge(f"ccarena_pieces_{name}", f"pieces of work: {name}")
                for name in ("waiting", "running", "over", "lost")
            }
        found = {"waiting": len(self._waiting), "running": len(self._running), "over": len(self._over)}
        for name, value in {**found, "lost": self._lost}.items():
            self._gauges[name].set(value)

    def _drop(self, reference: Any) -> None:
        self._running.pop(reference, None)
        self._since_s.pop(reference, None)
        with contextlib.suppress(self._ray.exceptions.RayError, TypeError, ValueError):
            self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Ends running pieces."""
        for reference in list(self._running):
            self._drop(reference)


def _perform(work: Parcel[Callable[[Any], Any]], piece: Parcel[Any]) -> Any:
    return answered(work.open()(piece.open()))


def first_line(error: BaseException) -> str:
    """Returns the first line of an error: Ray's errors contain whole logs."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def last_line(error: BaseException) -> str:
    """Returns the last line of an error of Ray's, which is the error in the worker itself."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def reason_of(error: BaseException) -> str:
    """Returns the reason of an error of Ray's on one line: of a task's, its exception; of a death, the cause."""
    errors = module().exceptions
    if isinstance(error, errors.RayTaskError):
        return last_line(error)
    if isinstance(error, errors.RayActorError):  # its second part, after lines about the actor, and before advice
        said = [line for line in str(error).strip().splitlines() if not line.startswith("\t")]
        return said[min(1, len(said) - 1)].partition(" There are some potential")[0].rstrip(".")
    return first_line(error)


def on_machine(error: BaseException) -> str:
    """Returns ` on the machine ADDRESS` of an error that a process of the cluster raised; nothing if it is unknown."""
    found = _ADDRESS.search(str(error))
    return f" on the machine {found[1] or found[2]}" if found else ""
