"""What all training runs have in common: their files, resuming and interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ccarena.agents import checkpoint
from ccarena.configs import TrainConfig
from ccarena.errors import CheckpointError, ConfigError

INTERRUPTED = 130
MAY_CHANGE = ("total_decisions", "out", "threads", "checkpoint_every_s", "eval", "baselines", "expectations", "rules")
"""Keys that may differ between a run and its continuation."""


def check_device(device: str) -> None:
    """Raises ConfigError if PyTorch cannot use `device`."""
    if device != "cpu" and not torch.cuda.is_available():
        raise ConfigError(f"device = {device}: PyTorch finds no CUDA GPU on this machine; expected cpu")


def resumable(config: TrainConfig, out: Path) -> checkpoint.Checkpoint:
    """The last checkpoint in `out`, refused if the configuration is not that of its run."""
    start = checkpoint.load(out)
    was, now = start.rest.get("config"), fixed(config)
    if was != now:
        keys = ", ".join(sorted(_differences(was if isinstance(was, dict) else {}, now)))
        raise CheckpointError(f"{out}: the run was started with other values of {keys}; give those, or start a new run")
    return start


def fixed(config: TrainConfig) -> dict[str, Any]:
    """The part of a configuration that a run and its continuation have in common, as JSON."""
    return config.model_dump(mode="json", exclude=set(MAY_CHANGE))


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in a.keys() | b.keys():
        x, y = a.get(key), b.get(key)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            yield from _differences(x, y, f"{prefix}{key}.")
        elif x != y:
            yield prefix + key


@contextmanager
def signals() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one has its usual effect."""
    event = threading.Event()
    old: dict[int, Any] = {}

    def handle(number: int, _frame: Any) -> None:
        event.set()
        signal.signal(number, old[number])

    # Handlers belong to the main thread; a caller in another one looks after signals itself.
    watched = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    for kind in watched:
        old[kind] = signal.signal(kind, handle)
    try:
        yield event
    finally:
        for kind in watched:
            signal.signal(kind, old[kind])
