"""What a run shows and records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena.agents.progress import Display, Recorder, summarise
from ccarena.runs.run_folder import PROGRESS

STATS = {
    "decisions": 100.0,
    "reward": 9000.0,
    "episodes": 2.0,
    "return": 5000.0,
    "episode_decisions": 60.0,
    "zone_green": 10.0,
    "zone_yellow": 80.0,
    "zone_red": 10.0,
    "zone_blue": 0.0,
    "entropy": 150.0,
}


def test_summary_is_per_decision_and_per_episode() -> None:
    row = summarise(STATS)
    assert (row["reward_mean"], row["return_mean"], row["episode_decisions_mean"]) == (90, 2500, 30)
    assert (row["zone_yellow"], row["entropy"]) == (0.8, 1.5)
    assert summarise(STATS | {"episodes": 0.0})["return_mean"] is None


def test_an_algorithm_need_not_sum_what_its_episodes_came_to() -> None:
    """It may count the episodes all the same, as the example of imitation does."""
    row = summarise({"decisions": 10.0, "reward": 5.0, "episodes": 2.0})
    assert row == {"reward_mean": 0.5, "return_mean": None, "episode_decisions_mean": None}


def test_rows_come_evenly_and_are_taken_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, total_decisions=100_000, shares={})  # a row at once, then every 250 decisions
    written = [recorder.add(STATS, decisions=decisions) for decisions in range(100, 1001, 100)]
    assert [row["decisions"] for row in written if row] == [100, 300, 500, 800, 1000]
    state = recorder.state()
    for decisions in (1100, 1200, 1300):
        recorder.add(STATS, decisions=decisions)
    recorder.close()

    again = Recorder(tmp_path, total_decisions=100_000, shares={})
    again.restore(json.loads(json.dumps(state)))
    again.add(STATS, decisions=1250)
    again.close()
    rows = [json.loads(line) for line in (tmp_path / PROGRESS).read_text().splitlines()]
    assert [row["decisions"] for row in rows] == [100, 300, 500, 800, 1000, 1250]
    assert list((tmp_path / "tensorboard").iterdir())


@pytest.mark.parametrize("terminal", [False, True])
def test_display(terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1") if terminal else monkeypatch.delenv("FORCE_COLOR", raising=False)
    display = Display(1000, 0, {"zone": ["green", "yellow", "red", "blue"]})
    display.update(100, STATS)
    display.update(500, STATS)
    display.close()
    shown = capsys.readouterr().err
    assert "500 decisions" in shown
    # Where there is no terminal, a line has 80 columns.
    rest = "  zone G/Y/R/B 10/80/10/0 %  entropy 1.50" if terminal else ""
    assert f"reward 90.0  return 2,500{rest}" in shown
    assert "50%" in shown
    assert ("\x1b[" in shown) == terminal
    assert terminal or max(map(len, shown.splitlines())) <= 80


def test_the_rate_counts_from_the_resume(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter((100.0, 110.0, 110.0, 110.0, 110.0))
    monkeypatch.setattr("ccarena.agents.progress.time.monotonic", lambda: next(clock))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    display = Display(24_000_000, 20_000_000, {})
    display.update(20_010_000, STATS)
    assert "20,010,000 decisions  1,000/s  3,990 s left" in capsys.readouterr().err


def test_no_rate_is_told_before_there_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first update of a resumed training may come at once."""
    monkeypatch.setattr("ccarena.agents.progress.time.monotonic", lambda: 100.0)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    Display(1000, 500, {}).update(510, STATS)
    assert "51%  510 decisions  reward" in capsys.readouterr().err
