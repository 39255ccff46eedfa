"""`ccarena eval --scenario`: every option has its effect or is refused."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: eval --scenario not tested (run make)")

import ccarena
from ccarena import __version__
from ccarena.cli import main
from ccarena.core.learned_schemes import shipped_policies
from ccarena.eval.measure.table import FIGURES
from tests.controllers.made import module

TEXT = """\
duration_s: 1
seed: 3
links: [{service: {type: constant, rate_mbps: 24}, delay_ms: 10, loss: 0.002}]
flows: [{name: mine, scheme: reno, requirement: {min_mbps: 10, max_mbps: 20}}, {scheme: cubic}]
"""

CONTROLLER = """\
import ccarena


class Fixed(ccarena.Controller):
    def on_ack(self, ack):
        self.window = 20
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


def test_a_copy_of_the_folder_repeats_the_runs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.down").write_text("1\n2\n")
    shutil.copy(shipped_policies()["acct"], "mine.safetensors")
    Path("mine.py").write_text(CONTROLLER)
    document = yaml.safe_load(TEXT)
    document["links"][0]["service"] = {"type": "trace", "file": "own.down"}
    document["flows"] = [{"scheme": "acct", "policy": name} for name in ("mine.safetensors", "acct")]
    document["flows"].append({"scheme": "mine.py:Fixed"})
    document["flows"].append({"scheme": "own", "controller": {"type": "wasm", "module": str(module(tmp_path))}})
    document["flows"].append({"scheme": "cubic"})
    Path("cubic").write_text("a file, and no scheme")
    Path("one.yaml").write_text(yaml.safe_dump(document))
    assert main([*words, "--out", "there", "--seeds", "2"]) == 0
    about = json.loads(Path("there/run.json").read_text())
    assert about["ccarena"] == __version__ and len(about["seeds"]) == 2 and about["backend"] == "sim"
    assert about["commands"] == ["ccarena eval --scenario one.yaml --out there --seeds 2"]
    assert len(about["digests"]) == 5 and about["digests"]["acct"] in about["digests"].values()
    page = Path("there/page.html").read_text()
    assert f"ccarena {__version__}" in page and "ccarena eval --scenario scenario.yaml --seeds 2 --out again" in page
    assert str(tmp_path) not in Path("there/scenario.yaml").read_text() + Path("there/run.json").read_text()
    copy = tmp_path / "elsewhere"
    shutil.move("there", copy)
    for file in ("one.yaml", "own.down", "mine.safetensors", "mine.py", "constant.wasm", "cubic"):
        Path(file).unlink()
    monkeypatch.chdir(copy)
    assert main(["eval", "--scenario", "scenario.yaml", "--seeds", "2", "--out", "again"]) == 0, capsys.readouterr().err
    for table in ("flow_series.csv", "link_series.csv"):
        first, second = (Path(folder, table).read_text().split("\n", 1)[1] for folder in (".", "again"))
        assert first.replace("one.yaml", "scenario.yaml") == second


def test_no_interval_of_few_seeds_reaches_beyond_what_a_figure_can_be(words: list[str]) -> None:
    Path("one.yaml").write_text(TEXT.replace("loss: 0.002", "loss: 0.02"))
    assert main([*words, "--out", "there", "--seeds", "2"]) == 0
    rows = [row for row in csv.DictReader(Path("there", "summary.csv").open()) if row["low"] not in ("", "nan")]
    assert rows
    for row in rows:
        least, most = FIGURES[row["figure"]].range
        assert least <= float(row["low"]) <= float(row["mean"]) <= float(row["high"]) <= most, row
    cut = [row for row in rows if row["figure"] == "loss_share"]
    assert cut and float(cut[0]["low"]) == 0.0
    page = Path("there", "page.html").read_text()
    assert " [0.000, " in page and "Intervals are over 2 runs, so few that they are wide" in page


def test_seeds_that_change_nothing_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.yaml").write_text(TEXT.replace(", loss: 0.002", ""))
    assert main([*words, "--seeds", "2", "--out", "there"]) == 0
    assert "Seeds change nothing here" in capsys.readouterr().out
    assert "Seeds change nothing here" in Path("there", "page.html").read_text()
    assert "Seeds change nothing here" in repr(ccarena.run("one.yaml", seeds=2))
    assert "Seeds" not in repr(ccarena.run("one.yaml"))


def test_a_folder_is_no_scenario_and_leaves_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--scenario", ".", "--out", "there"]) == 2
    assert "cannot read the scenario: it is a folder" in capsys.readouterr().err and not Path("there").exists()
