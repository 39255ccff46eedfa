"""Files and folders that a configuration names and a run does not copy: recordings, finds of attacks, datasets."""

from __future__ import annotations

from ccarena.configs.schema import TrainConfig

__all__ = ["located"]


def located(config: TrainConfig) -> dict[str, list[str]]:
    """Returns the names of such files by configuration key, for the keys that have any; recordings also by name."""
    link = config.env.link
    found = {f"env.link.{name}": getattr(link, name) for name in ("traces", "conditions", "adversarial")}
    found["algorithm.data"] = config.algorithm.datasets
    return {key: list(names) for key, names in found.items() if names and not isinstance(names, str)}
