"""Results of an evaluation: the data from which the verdict, the page and the terminal's summary are made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.plain_data import plain
from ccarena.core.reader import parse_json, read_bytes
from ccarena.errors import ConfigError
from ccarena.eval.measure.table import Figure, figures_for
from ccarena.scenarios.backends import counts

__all__ = ["BEST_WINDOW", "ORACLE", "Evaluation"]

ORACLE = "oracle"
"""Label of `ccarena.eval.heldout.oracle`, which is in the rows beside the schemes."""
BEST_WINDOW = "best fixed window"
"""Label of the fixed window with the highest power on each link, chosen with hindsight."""


@dataclass(repr=False)
class Evaluation:
    """Results of an evaluation. Plain data, so that it is its own JSON form (NaN is null there)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows, one per run: `link_set`, `group`, `link`, `seed`, `scheme` and the figures of `table.FIGURES`.

    The oracle's rows also have `gain`.
    """
    series: list[dict[str, Any]] = field(default_factory=list)
    """Series of every link of the first seed over time: `time_s`, `capacity_mbps`, and each scheme's rate and largest
    delay.
    """
    queue_ns: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Time for which k packets were queued, k = 0, 1, ..., by group and scheme."""
    actions: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    """Counts of actions `[categories][actions]` by the category of the previous interval, by group and learned scheme.

    A continuous action is counted to the nearest of `meta.action_values`. Empty if the configuration names no category.
    """
    scores: list[dict[str, Any]] = field(default_factory=list)
    """Scores of each policy and its rules without learning, by the objective of the policy's configuration.

    Fields: `policy`, `link_set`, `link`, `seed`, `scheme`, `score`, `throughput_mbps` and `signal_delay_to_end_p95_ms`.
    """
    meta: dict[str, Any] = field(default_factory=dict)
    """Facts of the evaluation: policy, link sets, seeds, durations, versions.

    A policy also has:
    - `scheme`, the label of its rows, and `spec`, the name of its scheme;
    - `constants`, the labels of constant actions, and `rules`, the best rules without learning;
    - `objective`, which gives the scores, and whether it is `logarithmic`;
    - `trained_on`, the tested links among it (`tested_in_training`), and how often they were opened before (`tests`);
    - `expectations`, and `shares` of `progress`, as in its configuration;
    - `categories` and `action_values` of `actions`, and the `action`: the `name` of its column and what it `does`;
      `continuous` if it is any number within bounds.

    With several policies, `policies` lists these.
    """
    warnings: list[str] = field(default_factory=list)
    """Warnings that a reader needs to judge the rows."""
    repeat: list[str] = field(default_factory=list)
    """Shell lines that measure the same again."""
    scenarios: list[dict[str, Any]] = field(default_factory=list)
    """Scenarios of the simulated runs of the first seed, one per link, without its entrant: `group`, `link`, `seed`
    and `document`.
    """
    entrants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Fields of that flow, by the label of its rows."""

    def __repr__(self) -> str:
        return f"Evaluation of {len(self.rows)} runs of {len(self.schemes())} schemes: .rows, .series, .meta, .warnings"

    def save(self, path: Path) -> None:
        """Writes the file atomically: a reader sees the old one or the new one.

        Files of the entrants are named from its folder, so that the same results are the same bytes in any folder.
        """

        def named(value: str) -> str:
            return os.path.join(os.curdir, os.path.relpath(value, path.parent)) if os.path.isabs(value) else value

        whole = {**vars(self), "entrants": _each_text(self.entrants, named)}
        # What the runs gave is plain already, and nearly all of the file.
        made_plain = ("rows", "series", "queue_ns", "actions", "scores")
        whole = {name: value if name in made_plain else plain(value) for name, value in whole.items()}
        write_atomically(path, json.dumps(whole) + "\n")

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Reads a file of `save`. Raises ConfigError if the file is not an evaluation."""

        def found(value: str) -> str:
            return os.path.abspath(path.parent / value) if value.startswith(os.curdir + os.sep) else value

        try:
            read = cls(**parse_json(read_bytes(path), str(path)))
            return replace(read, entrants=_each_text(read.entrants, found))
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the evaluation: {error.strerror}; run `ccarena eval`") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}: not an evaluation saved by `ccarena eval`: {error}") from error

    @property
    def policies(self) -> list[str]:
        """Returns the labels of the rows of every policy."""
        return [str(each["scheme"]) for each in self.meta.get("policies", [self.meta] if "scheme" in self.meta else [])]

    @property
    def figures(self) -> dict[str, Figure]:
        """Returns the figures of its tables: those of one scheme alone only if it takes part."""
        specs = [each["spec"] for each in self.meta.get("policies", [self.meta]) if "spec" in each]
        return figures_for([*self.schemes(), *specs])

    def of_policy(self, label: str) -> Evaluation:
        """Returns the same evaluation with one of its policies as the judged one."""
        about = next(each for each in self.meta.get("policies", [self.meta]) if each["scheme"] == label)
        shared = {key: value for key, value in self.meta.items() if key != "policies"}
        return replace(self, meta={**shared, **about})

    @property
    def policy(self) -> str:
        """Returns the label of the rows of the judged policy; empty if there is none, or more than one."""
        return str(self.meta.get("scheme", ""))

    def of(self, group: str, scheme: str) -> list[dict[str, Any]]:
        """Returns the valid rows of one scheme in one group."""
        return [row for row in self.rows if row["scheme"] == scheme and row["group"] == group and counts(row)]

    def valid_rows(self) -> list[dict[str, Any]]:
        """Returns all rows except those of runs with a late emulator, or of a program that failed."""
        return [row for row in self.rows if counts(row)]

    def groups(self) -> list[str]:
        """Returns the groups in the order of their first row."""
        return list(dict.fromkeys(row["group"] for row in self.rows))

    def schemes(self) -> list[str]:
        """Returns the schemes in the order of their first row."""
        return list(dict.fromkeys(row["scheme"] for row in self.rows))


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Returns `value` with `change` made in every string that is no key."""
    if isinstance(value, dict):
        return {key: _each_text(item, change) for key, item in value.items()}
    return change(value) if isinstance(value, str) else value
