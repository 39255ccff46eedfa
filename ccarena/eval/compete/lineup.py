"""Line-up of a competition: entrants that meet in pairs, and groups of them, such as `cubic+bbr+bbr`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ccarena.errors import ConfigError
from ccarena.policies import artifact
from ccarena.scenarios.entrants import Entrant, EntrantLike, distinct, read, split_outside_quotes
from ccarena.traces.recorded import TRAINED_ON_TESTED, seen_in_training

__all__ = ["GROUPS", "line_up", "marked", "parse_group"]

GROUPS = """\
A group is ENTRANT+ENTRANT[+ENTRANT]..., such as cubic+bbr+bbr; "+" in a path
stands in double quotes"""


def line_up(
    entries: Sequence[EntrantLike], groups: Sequence[str], stack: ExitStack
) -> tuple[list[Entrant], list[str], list[tuple[str, ...]]]:
    """Returns (all entrants; the labels of those that meet in pairs; those of each group).

    Entrants that only groups name come last. Artifacts in memory are written for as long as `stack` lasts. Raises
    ConfigError or PolicyError, naming entrant and part.
    """
    teams = [parse_group(group) for group in groups]
    given: list[EntrantLike] = [*entries, *(text for team in teams for text in team)]
    named = distinct([read(each, stack) for each in given])
    paired = [entrant.label for entrant in named[: len(entries)]]
    for index, label in enumerate(paired):
        if label in paired[:index]:
            raise ConfigError(f'entrant "{entries[index]}" is given twice; every entrant also runs against itself')
    members = iter(entrant.label for entrant in named[len(entries) :])
    return (
        list({entrant.label: entrant for entrant in named}.values()),
        paired,
        [tuple(next(members) for _ in team) for team in teams],
    )


def marked(
    lineup: Sequence[Entrant],
    paired: Sequence[str],
    groups: Sequence[tuple[str, ...]],
    services: Sequence[Mapping[str, Any]],
) -> tuple[list[Entrant], list[str], list[tuple[str, ...]]]:
    """Returns the result of `line_up`, with labels that mark policies that were trained on the links' services."""
    labels = {entrant.label: entrant.label for entrant in lineup}
    for entrant in lineup:
        file = entrant.policy_file
        if file is not None and seen_in_training(artifact.load(file).trained_on, services):
            labels[entrant.label] = f"{entrant.label} {TRAINED_ON_TESTED}"
    named = [replace(entrant, label=labels[entrant.label]) for entrant in lineup]
    return named, [labels[label] for label in paired], [tuple(labels[label] for label in group) for group in groups]


def parse_group(text: str) -> list[str]:
    """Returns the texts of a group's entrants, at least two, unparsed. Raises ConfigError."""
    entrants = split_outside_quotes(text, "+")
    if len(entrants) < 2 or not all(entrants):
        raise ConfigError(f'--group "{text}": expected two entrants or more, joined by "+", such as cubic+bbr+bbr')
    return entrants
