"""Worst finds of many entrants in one file, which docs/attack.md shows as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.attacks.api import Attacked, Plan
from ccarena.attacks.finds import Find
from ccarena.core.files import write_atomically
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError

__all__ = ["entries", "merge"]


def merge(path: Path, plan: Plan, found: Attacked) -> None:
    """Writes the worst find of each harm into the file, in place of earlier ones of this entrant.

    Raises ConfigError.
    """
    known = entries(path) if path.exists() else {}
    worst: dict[str, Find] = {}
    for find in found.finds:
        worst.setdefault(find.harm, find)
    known[found.entrant] = {
        "candidates": plan.candidates,
        "seed": plan.seed,
        "seeds": plan.seeds,
        "finds": [
            {
                "harm": find.harm,
                "value": float(f"{find.value:.3g}"),
                "threshold": find.threshold,
                "seeds": f"{round(find.share * find.seeds)}/{find.seeds}",
                "kind": find.kind,
                "link": find.case.describe(),
            }
            for find in worst.values()
        ],
    }
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], ensure_ascii=False)}" for name in sorted(known)]
    write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")


def entries(path: Path) -> dict[str, Mapping[str, Any]]:
    """Returns the entrants of the file with their finds. Raises ConfigError if it holds something else."""
    data = read_data(path, "a file of `ccarena attack --write-docs`")
    if not isinstance(data, Mapping) or not all(isinstance(each, Mapping) for each in data.values()):
        raise ConfigError(f"{path}: is no file of `ccarena attack --write-docs`; name another one")
    return dict(data)
