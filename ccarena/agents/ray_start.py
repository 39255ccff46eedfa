"""A training's connection to its cluster, from before it looks after signals until it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ccarena.configs import TrainConfig
from ccarena.executors.ray import connect, module

__all__ = ["on_its_cluster"]


@contextmanager
def on_its_cluster(config: TrainConfig) -> Iterator[None]:
    """Connected to the cluster that `config` names; nothing under another executor. Raises what `connect` does.

    Ray takes SIGTERM over where it connects: the training's own handler, which saves a checkpoint, has to come after.
    """
    if config.executor != "ray":
        yield
        return
    started = connect(config.ray.address)
    try:
        yield
    finally:
        if started:
            module().shutdown()
