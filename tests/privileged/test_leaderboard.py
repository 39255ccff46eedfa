"""`ccarena leaderboard run` in real time: alone and in pairs, over Linux TCP and over QUIC."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.eval.leaderboard import measure
from ccarena.eval.leaderboard.run import Board, run
from ccarena.eval.leaderboard.store import Store


@pytest.mark.parametrize("backend", ["kernel", "quic"])
def test_a_pair_in_real_time(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(backend)
    monkeypatch.setattr(measure, "STAGGER_S", 0.2)
    store = str(tmp_path / "results.db")
    board = Board(["lte-walking"], ["cubic"], [], duration_s=1.5, buffers_packets=[100], seeds=1, backend=backend)
    assert board.meeting_seeds is None and run(board, store).cells == 1, "no pairs unless they are asked for"
    paired = Board(**{**vars(board), "meeting_seeds": 1})
    done = run(paired, store)
    assert (done.cells, done.ran) == (2, 1)
    with Store(store, read_only=True) as opened:
        [row] = [row for row in opened.all_runs() if row["opponent"]]
    assert row["backend"] == backend and row["lateness_p99_ms"] > 0
    assert row["share"] == pytest.approx(0.5) and -1 < row["harm_throughput"] < 1 and 0 < row["utilisation"] <= 1.05
