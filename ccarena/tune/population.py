"""Population-based training: the worst members of a population go on with copies of the best ones' trainings.

A member is a trial, trained with all its seeds. Whenever all members have reached the next validation, each of the
worst quarter copies the checkpoints of a member of the best quarter, seed by seed. It goes on with that member's
setting, in which every value is perturbed (Jaderberg et al. 2017, arXiv:1711.09846, section 3: truncation selection,
perturbation and resampling).

`population.jsonl` in the sweep's folder has a line per comparison, written before anything is copied. The same scores
give the same copies and perturbations, so that a sweep which is killed in between repeats what is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.configs import TrainConfig
from ccarena.configs.schema import OwnAlgorithm
from ccarena.configs.userfile import find
from ccarena.core.dimensions import Dimension
from ccarena.core.files import write_atomically
from ccarena.errors import ConfigError
from ccarena.runs.run_folder import read_progress
from ccarena.tune.space import Space

__all__ = ["POPULATION", "Comparison", "Copy", "add", "check", "compare", "read", "settings"]

POPULATION = "population.jsonl"
"""File of the sweep's folder with a line per comparison."""
SHARE, RESAMPLED, FACTORS = 0.25, 0.25, (0.8, 1.2)
"""Share of the population that copies; chance that a value is drawn anew; factors of a value that is not."""


@dataclass(frozen=True)
class Copy:
    """Copy of a member's training."""

    member: str
    """Member that goes on with the copy."""
    source: str
    """Member whose checkpoints it copies."""
    setting: dict[str, Any]
    """Setting with which the member goes on."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of the members at a validation."""

    validation: int
    scores: dict[str, float]
    """Mean score over seeds by member."""
    copies: list[Copy]


def check(config: TrainConfig, space: Space, where: Path) -> None:
    """Raises ConfigError for a training that cannot be copied, or a key that cannot change while it trains."""
    section, name = config.algorithm, config.algorithm.name
    keys = section.in_flight
    if isinstance(section, OwnAlgorithm):
        own = find(name, "algorithm")
        if missing := [method for method in ("state", "restore") if not hasattr(own, method)]:
            raise ConfigError(
                f"algorithm = {name}: it has no {', '.join(missing)}, and a population copies checkpoints; add "
                "them, or take --scheduler asha"
            )
        keys = frozenset(getattr(own, "in_flight", ()))
    if not keys:
        what = "an attribute `in_flight` of its class names those that may" if isinstance(section, OwnAlgorithm) else ""
        raise ConfigError(
            f"algorithm = {name}: none of its keys can change while it trains, so there is nothing for a population to "
            f"search{f' ({what})' if what else ''}; take --scheduler asha"
        )
    for key in space.dimensions:
        part, _, rest = key.partition(".")
        if part != "algorithm" or rest not in keys:
            raise ConfigError(
                f"{where}: {key} cannot change while {name} trains, and members of a population copy each other's "
                f"checkpoints; expected algorithm.KEY with KEY one of {', '.join(sorted(keys))}, or --scheduler asha"
            )
    if config.validation.patience is not None:
        raise ConfigError(
            f"validation.patience = {config.validation.patience}: it ends a training early, and all members "
            "of a population train to the end; set it to null"
        )
    if config.env.link.attack is not None:
        raise ConfigError(
            "env.link.attack: its finds belong to one run, and members of a population copy each other; set it to null"
        )


def compare(
    validation: int, scores: Mapping[str, float], now: Mapping[str, Mapping[str, Any]], space: Space
) -> Comparison:
    """Returns who copies whom after `validation`; `now` has each member's setting.

    The result depends on the arguments alone, whatever the order of the members.
    """
    order = sorted(scores, key=lambda member: (_rank(scores[member]), member))
    count = min(math.ceil(SHARE * len(order)), len(order) // 2)
    copies = []
    for member in order[:count]:
        rng = np.random.Generator(np.random.PCG64([validation, sorted(scores).index(member)]))
        source = order[len(order) - 1 - int(rng.integers(count))]
        copies.append(Copy(member, source, _perturbed(now[source], space, rng)))
    return Comparison(validation, {member: scores[member] for member in sorted(scores)}, copies)


def _rank(score: float) -> float:
    return score if math.isfinite(score) else -math.inf


def _perturbed(setting: Mapping[str, Any], space: Space, rng: np.random.Generator) -> dict[str, Any]:
    return {key: _changed(setting[key], each, rng) for key, each in space.dimensions.items()}


def _changed(value: Any, dimension: Dimension, rng: np.random.Generator) -> Any:
    """Returns another value: drawn anew, or next to `value`. A range's ends are values, too."""
    anew, up, share = bool(rng.random() < RESAMPLED), bool(rng.integers(2)), float(rng.random())
    values = dimension.values
    if dimension.kind in ("choice", "grid"):
        if anew or value not in values:
            return values[int(share * len(values))]
        return values[min(max(values.index(value) + (1 if up else -1), 0), len(values) - 1)]
    low, high = values
    if not anew:
        new = value * FACTORS[up]
    elif dimension.kind.startswith("log"):
        new = low * (high / low) ** share
    else:
        new = low + (high - low) * share
    new = min(max(new, low), high)
    if not dimension.kind.endswith("int"):
        return float(new)
    near = round(new)
    if near == value and not anew:  # a factor of a small number changes nothing
        near += 1 if up else -1
    return int(min(max(near, low), high))


def read(sweep: Path) -> list[Comparison]:
    """Returns the comparisons so far. Raises ConfigError if their file is damaged."""
    try:
        return [
            Comparison(row["validation"], row["scores"], [Copy(**copy) for copy in row["copies"]])
            for row in read_progress(sweep / POPULATION)
        ]
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{sweep / POPULATION}: is damaged: {error}; start another sweep") from error


def add(sweep: Path, comparison: Comparison) -> None:
    """Adds a comparison to the file in one step."""
    lines = [json.dumps(asdict(each)) + "\n" for each in [*read(sweep), comparison]]
    write_atomically(sweep / POPULATION, "".join(lines))


def settings(comparisons: Sequence[Comparison], member: str, first: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the setting with which a member that began with `first` trains now."""
    taken = [copy.setting for each in comparisons for copy in each.copies if copy.member == member]
    return dict(taken[-1] if taken else first)
