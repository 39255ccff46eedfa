"""Processor time of a suite's runs."""

from __future__ import annotations

import json
from pathlib import Path

from ccarena.core.measurements import Entry, Source
from ccarena.eval.reproduce import costs

SOURCE = Source("a command", "1", "2026-01-01")


def folder(out: Path, name: str, keys: str, timed: str) -> Path:
    place = out / name
    place.mkdir(parents=True)
    (place / "rows.jsonl").write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))
    for key in timed:
        costs.append(place, key, 1.5)
    return place


def test_a_suite_costs_what_its_runs_and_those_with_cubic_took(tmp_path: Path) -> None:
    folder(tmp_path, "x/a", "kl", "klm")
    folder(tmp_path, "x/a/with-cubic", "k", "k")
    folder(tmp_path, "x/b", "kl", "k")
    names = ["x/a", "x/b"]
    by_name = {entry.name: entry.value for entry in costs.entries(tmp_path, names, names, [], SOURCE)}
    assert by_name == {"papers/cost/x/a": 4.5}, "a run of x/b has no time"
    known = [Entry("papers/cost/x/b", "papers", "x/b", 10.0, SOURCE)]
    by_name = {entry.name: entry.value for entry in costs.entries(tmp_path, ["x/a"], names, known, SOURCE)}
    assert by_name == {"papers/cost/x/a": 4.5, "papers/cost": 14.5}
    every = [*known, *costs.entries(tmp_path, ["x/a"], names, known, SOURCE)]
    assert costs.known(every) == {"x/a": 4.5, "x/b": 10.0}


def test_a_line_that_a_kill_cut_and_a_folder_without_runs_have_no_time(tmp_path: Path) -> None:
    place = folder(tmp_path, "x/a", "kl", "k")
    with (place / costs.FILE).open("a") as file:
        file.write('{"key": "l", "cpu')
    assert costs.total_s(place) is None
    assert costs.total_s(tmp_path / "nowhere") is None
