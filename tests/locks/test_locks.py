"""Locks: results, environments, trainings, parameters, options, tables and claims are as `locks.json` says.

Something new needs no entry, and nothing that is locked may change or go unnoticed. A new name for the same thing is
listed in `RENAMED` until `locks.json` is written again.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: nothing is held against the locks (run make)")

from tests.locks import measured

LOCKS = Path(__file__).with_name("locks.json")
LOCKED = json.loads(LOCKS.read_text("utf-8"))

RENAMED: dict[str, dict[str, str]] = {
    **{section: {} for section in measured.SECTIONS},
    "tables": {
        "run flows.csv jain_index": "run flows.csv jain_goodput",
        "run summary.csv jain_index": "run summary.csv jain_goodput",
        "run flows.csv satisfaction": "run flows.csv satisfaction_goodput",
        "run flow_series.csv throughput_mbps": "run flow_series.csv received_mbps",
        "compete rows.csv jain_index": "compete rows.csv jain_weighted",
        "leaderboard export runs.csv jain_index": "leaderboard export runs.csv jain_weighted",
        "leaderboard export --means means.csv jain_index": "leaderboard export --means means.csv jain_weighted",
    },
    "options": {"policy control --out": "policy rule --out", "policy control ENTRANT": "policy rule ENTRANT"},
}
"""By section: what is locked under an old name, to its new one. Names and values may change whole or by a word."""


def renamed(text: str, names: dict[str, str]) -> str:
    """Returns a locked name or value as it is called now."""
    return names[text] if text in names else " ".join(names.get(word, word) for word in text.split(" "))


def differences(section: str, now: measured.Values) -> list[str]:
    """Returns a line for each locked value that is another one now, or is gone."""
    names = RENAMED[section]
    locked = {renamed(name, names): renamed(value, names) for name, value in LOCKED[section].items()}
    return [
        f"{name}: locked {value or 'as there'}, found {now.get(name, 'nothing')}"
        for name, value in locked.items()
        if name not in now or not same(section, value, now[name])
    ]


def same(section: str, locked: str, now: str) -> bool:
    """Returns whether two values are the same; sums of tensors to 1e-4, which holds for other machines' arithmetic."""
    if section == "tensor_sums":
        return math.isclose(float(locked), float(now), rel_tol=1e-4, abs_tol=1e-4)
    return locked == now


@pytest.mark.parametrize("section", measured.SECTIONS)
def test_what_is_locked_is_as_it_was(section: str) -> None:
    if section.startswith("tensor"):
        pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: trainings are not held against the locks")
        pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: trainings are not held")
    if section == "tensors" and measured.machine() != LOCKED["machine"]:
        pytest.skip(f"TENSORS NOT COMPARED: locked with {LOCKED['machine']}, here is {measured.machine()}")
    found = differences(section, measured.SECTIONS[section]())
    assert not found, (
        f"{len(found)} of {section} differ from {LOCKS.name}:\n"
        + "\n".join(found)
        + f"\nIf only a name has changed, list it in RENAMED; if the change is intended, say why in the commit and run "
        f"`python -m tests.locks --write {section}`"
    )


def test_a_change_and_a_loss_are_found_and_a_new_name_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOCKED, "options", {"eval --seeds": "5", "eval --out": "None"})
    assert differences("options", {"eval --seeds": "5", "eval --out": "None", "eval --new": "1"}) == []
    assert differences("options", {"eval --seeds": "6"}) == [
        "eval --seeds: locked 5, found 6",
        "eval --out: locked None, found nothing",
    ]
    monkeypatch.setitem(RENAMED, "options", {"eval": "judge", "judge --out": "", "--seeds": "--repeats"})
    assert differences("options", {"judge --repeats": "5", "judge --out": "None"}) == []
    monkeypatch.setitem(LOCKED, "tensor_sums", {"acct out.bias": "10"})
    assert differences("tensor_sums", {"acct out.bias": "10.0005"}) == []
    assert len(differences("tensor_sums", {"acct out.bias": "10.01"})) == 1
