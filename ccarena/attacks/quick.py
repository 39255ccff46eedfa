"""Attacks that a training makes on its own policy: bounded, without simplifying and replaying the finds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ccarena.attacks.api import check_competitions
from ccarena.attacks.archive import Archive
from ccarena.attacks.finds import Find, write_finds
from ccarena.attacks.harms import HARMS, chosen
from ccarena.attacks.search import search
from ccarena.attacks.space import Space, read_space
from ccarena.attacks.trial import Trials
from ccarena.policies.artifact import Artifact
from ccarena.runs.journal import Journal
from ccarena.runs.run_folder import POLICY
from ccarena.scenarios.entrants import read

__all__ = ["attack_policy", "check_attack"]


def check_attack(harms: Sequence[str], space: Mapping[str, Any]) -> None:
    """Raises ConfigError for an unknown harm, or for a space without limits or without a case of a harm."""
    _read(harms, space)


def attack_policy(
    policy: Artifact,
    folder: Path,
    *,
    harms: Sequence[str],
    space: Mapping[str, Any],
    candidates: int,
    each: int,
    seed: int,
    workers: int,
) -> list[Path]:
    """Attacks a policy in `folder` and returns the scenarios of its counterexamples, at most `each` of a harm.

    The same policy and arguments find the same with any number of workers. An attack on this policy that was
    interrupted goes on.
    """
    data = policy.encode()
    file = folder / POLICY
    if folder.exists() and not (file.is_file() and file.read_bytes() == data):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    policy.save(file)
    # Named as from the folder: finds of the same training are the same bytes wherever it is.
    entrant, limits = replace(read(file), text=POLICY), _read(harms, space)
    archive = Archive(limits, chosen(harms))
    with Journal(folder, "ccarena train") as journal:
        search(limits, archive.harms, Trials(journal, entrant, workers), archive, candidates, seed)
        journal.settle(sorted(journal.rows))
    finds = []
    for number, elite in enumerate(archive.counterexamples(each), start=1):
        threshold = HARMS[elite.harm].threshold
        value = elite.severity * threshold
        finds.append(Find(number, elite.harm, value, threshold, elite.kind, 1.0, 1, elite.case, simplified=False))
    write_finds(folder, entrant, finds)
    return [folder / find.file for find in finds]


def _read(harms: Sequence[str], changes: Mapping[str, Any]) -> Space:
    space = read_space(changes)
    check_competitions(space, chosen(harms), named=True)
    return space
