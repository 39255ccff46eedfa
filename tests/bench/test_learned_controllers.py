"""Comparison of learned controllers: who takes part, runs that are kept, and tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import learned_controllers as compared
from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import parse
from tests.policies.test_remy import tree

WHO = {name: parse(name) for name in ("cubic", "vegas")}


def test_files_that_are_there_are_imported_and_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clones, out = tmp_path / "clones", tmp_path / "out"
    (clones / "remy" / "tests").mkdir(parents=True)
    (clones / "remy" / "tests" / "RemyCC-2013-delta1.dna").write_bytes(tree())
    monkeypatch.setattr(compared, "OURS", ("acct",))
    who, missing = compared.entrants(clones, out)
    assert list(who) == ["RemyCC 2013-delta1", "acct", *compared.OTHERS]
    assert missing == ["Orca", "Astraea", "Indigo", "RemyCC 2014-100x"]
    assert compared.entrants(None, out)[1] == [each.label for each in compared.PUBLISHED]
    with pytest.raises(ConfigError, match="absent: no such folder; expected the authors' repositories"):
        compared.entrants(tmp_path / "absent", out)


def test_finished_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runs.json"
    compared.run(WHO, compared.Kept(file), threads=1, few=1)
    before = json.loads(file.read_text())
    assert len(before) == len(WHO) * len(compared.CASES)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a finished run is made again")

    monkeypatch.setattr(compared, "perform", fail)
    compared.run(WHO, compared.Kept(file), threads=1, few=1)
    assert json.loads(file.read_text()) == before


def test_tables_are_ordered_and_name_who_is_missing(tmp_path: Path) -> None:
    kept = compared.Kept(tmp_path / "runs.json")
    compared.run(WHO, kept, threads=2, few=2)
    text = compared.tables(WHO, ["Orca"], kept)
    assert text.startswith(compared.GENERATED)
    assert "Not imported: Orca." in text
    wired = text.partition("### Wired links")[2].partition("###")[0]
    scores = [float(score) for score in re.findall(r"\| (?:cubic|vegas) \| ([0-9.]+) \[", wired)]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    assert "4 runs; intervals are over 2 links." in wired


def test_repetitions_of_a_recording_are_one_unit() -> None:
    runs = [{"link": link, "share": value} for link, value in (("a", 0.2), ("a", 0.4), ("b", 0.6))]
    mean, low, high = compared.interval(runs, "share")
    assert mean == pytest.approx(0.45)
    assert (low, high) == pytest.approx((0.3, 0.6))
    geometric, *_ = compared.interval([{"link": "a", "score": 0.1}, {"link": "b", "score": 0.4}], "score")
    assert geometric == pytest.approx(0.2)


def test_the_command_refuses_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared.main(["--published", str(tmp_path / "absent"), "--out", str(tmp_path / "out")]) == 1
    assert "absent: no such folder" in capsys.readouterr().err


def test_the_shipped_page_has_every_controller() -> None:
    page = (Path(__file__).parents[2] / compared.PAGE).read_text("utf-8")
    assert page.count(compared.GENERATED) == 1
    results = page.partition(compared.GENERATED)[2]
    for case in compared.CASES.values():
        table = results.partition(f"### {case.title}")[2].partition("###")[0]
        for label in [each.label for each in compared.PUBLISHED] + [*compared.OURS, *compared.OTHERS]:
            assert f"\n| {label} " in table, f"{case.title}: {label} has no row"
