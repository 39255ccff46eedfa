"""Parts that all training runs share: their files, resuming and interruption."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from ccarena.agents import checkpoint
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.link_distribution import trained_on
from ccarena.configs.own_files import portable
from ccarena.core.files import digest, remove_stale
from ccarena.data.dataset import MANIFEST
from ccarena.errors import CheckpointError, ConfigError
from ccarena.runs.run_folder import CONFIG, LOCK

JUDGING = ("eval", "baselines", "expectations", "rules")
"""Keys of the configuration that say how a trained policy is judged."""
MAY_CHANGE = (
    *("total_decisions", "out", "threads", "checkpoint_every_s", "checkpoints_kept", "track"),
    *("executor", "ray", "device"),
    *JUDGING,
)
"""Keys that may differ between a run and its continuation; so may the number of A3C's workers."""

STOPPING = "stopping after this update, with a checkpoint; a second Ctrl-C stops at once, at the last checkpoint"


def check_device(config: TrainConfig) -> None:
    """Raises ConfigError if this process learns, and PyTorch cannot use `device` here.

    If processes on a cluster learn, each looks for its GPU itself (`check_gpu`), and this machine needs none.
    """
    if config.learns_in is None:
        check_gpu(config.device)
    elif config.device not in ("cpu", "cuda"):
        raise ConfigError(
            f"device = {config.device}: the {config.learns_in} on the cluster learn, and Ray chooses the GPU of each; "
            "expected cpu or cuda"
        )


def check_gpu(device: str) -> None:
    """Raises ConfigError if PyTorch cannot use `device` on this machine."""
    if device == "cpu":
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise ConfigError(
            f"device = {device}: PyTorch {torch.__version__} finds no CUDA GPU on the machine {socket.gethostname()}, "
            "where the training learns; expected --device cpu, on which a run can be resumed, too, or a machine whose "
            "GPU `ccarena doctor` finds"
        )
    if (torch.device(device).index or 0) >= count:
        raise ConfigError(
            f"device = {device}: the machine {socket.gethostname()} has {count} CUDA GPUs; expected cuda:0 to "
            f"cuda:{count - 1}"
        )


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Makes the folder `out` and locks it against other trainings. The kernel releases the lock when the process ends.

    Removes temporary files of killed trainings.

    Raises ConfigError if another training uses it, or if the folder cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = open(out / LOCK, "a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out}: cannot write: {error.strerror}; give another folder with --out") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            who = file.read().strip()
            raise ConfigError(
                f"{out}: another training is running in this folder{f' (process {who})' if who else ''}; wait for its "
                "end, or name another folder with --out"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        with suppress(OSError):  # the process's number is for the message alone, and the disk may be full
            file.flush()
        for folder in (out, out / checkpoint.OLDER):
            remove_stale(folder)
        try:
            yield
        finally:
            with suppress(OSError):
                file.close()


def resumable(config: Mapping[str, Any], out: Path) -> checkpoint.Checkpoint | None:
    """Returns the last checkpoint in `out`; None if the run ended before its first one. `config` is as from `portable`.

    Raises CheckpointError if there is no run, or if the configuration is not the run's.
    """
    if checkpoint.exists(out):
        start = checkpoint.load(out)
        was = start.rest.get("config")
    elif (out / CONFIG).is_file():
        start, was = None, fixed(portable(load_config(out / CONFIG)))
    else:
        raise CheckpointError(f"{out}: holds no run (no {CONFIG}); leave --resume out")
    # A checkpoint has its configuration as the version before saw it: with keys that may change by now.
    if keys := sorted(_differences(fixed(was) if isinstance(was, dict) else {}, fixed(config))):
        raise CheckpointError(
            f"{out}: the run was started with other values of {', '.join(keys)}; give those, or start a new run"
        )
    return start


def sources(config: TrainConfig) -> list[list[str]]:
    """Returns kind, name and digest of each file that `config` learns from and a run does not copy."""
    links = [each for each in trained_on(config) if each["kind"] in ("trace", "conditions", "find")]
    found = [[each["kind"], each["name"], each["digest"]] for each in links]
    for folder in config.algorithm.datasets:
        found.append(["dataset", Path(folder).name, digest((Path(folder) / MANIFEST).read_bytes())])
    return found


def check_sources(config: TrainConfig, start: checkpoint.Checkpoint, out: Path) -> None:
    """Raises CheckpointError if a file of `sources` is another one than the run in `out` has learned from."""
    now = sources(config)
    for kind, name, was in start.rest.get("sources", ()):  # older checkpoints have none
        if [kind, name, was] not in now:
            raise CheckpointError(
                f"{out}: the {kind} {name} was changed after the run began (it had the digest {was}); put it back as "
                "it was, or start a new run for the changed one"
            )


def fixed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of a configuration (`own_files.portable`) that a run and its continuation have in common."""
    algorithm = {key: value for key, value in config.get("algorithm", {}).items() if key != "workers"}
    return {**{key: value for key, value in config.items() if key not in MAY_CHANGE}, "algorithm": algorithm}


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yields the keys whose values differ. A key that is missing is null: a later version may have added it."""
    for key in a.keys() | b.keys():
        x, y = a.get(key), b.get(key)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            yield from _differences(x, y, f"{prefix}{key}.")
        elif x != y:
            yield prefix + key


@contextmanager
def signals(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """Yields an event that the first SIGINT or SIGTERM sets, which is also said; a second one has its usual effect."""
    event = threading.Event()
    old: dict[int, Any] = {}

    def handle(number: int, _frame: Any) -> None:
        event.set()
        signal.signal(number, old[number])
        with suppress(RuntimeError):  # of a stream that the interrupted code is writing to
            say(STOPPING)

    # Handlers belong to the main thread; a caller in another one looks after signals itself.
    watched = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    for kind in watched:
        old[kind] = signal.signal(kind, handle)
    try:
        yield event
    finally:
        for kind in watched:
            signal.signal(kind, old[kind])
