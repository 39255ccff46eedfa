"""`ccarena eval --scenario`: every option has its effect or is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: eval --scenario not tested (run make)")

from ccarena.cli import main

TEXT = """\
duration_s: 1
seed: 3
links: [{service: {type: constant, rate_mbps: 24}, delay_ms: 10, loss: 0.002}]
flows: [{name: mine, scheme: reno, requirement: {min_mbps: 10, max_mbps: 20}}, {scheme: cubic}]
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text(TEXT)
    return ["eval", "--scenario", "one.yaml"]


def test_it_prints_and_writes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "one.yaml: backend sim, seed 3" in printed and "mine" in printed and "Jain's index" in printed
    folder = Path("runs", "scenario", "one")
    assert {"flows.csv", "links.csv", "summary.csv", "page.html"} <= {file.name for file in folder.iterdir()}
    (row, _) = csv.DictReader((folder / "flows.csv").open())
    assert (row["flow"], row["seed"]) == ("mine", "3")
    assert float(row["satisfaction_goodput"]) == pytest.approx(float(row["goodput_mbps"]) / 10)


def test_out_seeds_and_duration_have_their_effect(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--out", "there", "--seeds", "3", "--duration-s", "0.5", "--threads", "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in shown] == [3, 3, 4, 4, 5, 5]
    assert len(list(csv.DictReader(Path("there", "flow_series.csv").open()))) == 6 * 50
    assert main([*words, "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2 seeds, 3 to 4; mean ± half of the 95 % interval" in printed and printed.count("±") > 5


@pytest.mark.parametrize("option", ["--link-sets", "--schemes"])
def test_options_of_the_link_sets_are_refused(
    words: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, option, "constant"]) == 2
    assert f"{option} has no effect beside --scenario" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    assert main([*words, "--out", "file/below"]) == 2
    captured = capsys.readouterr()
    assert "file/below: cannot write there" in captured.err and "nothing was run" in captured.err and not captured.out


def test_the_page_draws_every_seed_and_says_how_to_repeat_it(words: list[str]) -> None:
    assert main([*words, "--out", "there", "--seeds", "2"]) == 0
    page = Path("there", "page.html").read_text()
    assert "ccarena eval --scenario one.yaml --out there --seeds 2" in page and "one.yaml, seed 4" in page
    assert "±" in page and page.count("<option") == 2


def test_seeds_that_change_nothing_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.yaml").write_text(TEXT.replace(", loss: 0.002", ""))
    assert main([*words, "--seeds", "2", "--out", "there"]) == 0
    assert "Seeds change nothing here" in capsys.readouterr().out
    assert "Seeds change nothing here" in Path("there", "page.html").read_text()


def test_a_folder_is_no_scenario_and_leaves_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--scenario", ".", "--out", "there"]) == 2
    assert "cannot read the scenario: it is a folder" in capsys.readouterr().err and not Path("there").exists()
