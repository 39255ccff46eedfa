"""`ccarena leaderboard run` in real time: alone and in pairs, over Linux TCP and over QUIC."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena import cli
from ccarena.eval.leaderboard import measure
from ccarena.eval.leaderboard.run import Board, run
from ccarena.eval.leaderboard.store import Store
from tests.privileged.test_foreign import entrant


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


@pytest.mark.parametrize("backend", ["kernel", "quic"])
def test_programs_of_others_are_ranked_and_their_failures_stated(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    request.getfixturevalue(backend)
    (tmp_path / "dies").mkdir()
    dies = entrant(tmp_path / "dies", name="dies", sender="python3 -c 'raise SystemExit(3)'")
    theirs, store = entrant(tmp_path, version="1.0"), str(tmp_path / "results.db")
    words = ["leaderboard", "run", "--store", store, "--backend", backend, "--entrants", theirs, dies, "reno"]
    words += ["--traces", "stacks", "--seeds", "1", "--duration-s", "1"]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert f"9 runs {'on kernel TCP' if backend == 'kernel' else 'over QUIC'}, one at a time: about" in err
    assert (
        "9 cells: 9 ran now" in out and "FAILED: dies failed in 3 runs, which no mean counts: the sender ended" in out
    )
    assert cli.main(["leaderboard", "export", str(tmp_path / "means.csv"), "--means", "--store", store]) == 0
    assert "theirs" in (tmp_path / "means.csv").read_text("utf-8")
    with Store(store, read_only=True) as opened:
        known = {row["digest"]: row for row in opened.entrants()}
        rows = {(known[row["entrant"]]["label"], row["place"]): row for row in opened.all_runs()}
        group = opened.group("all traces")
    assert {known[row["entrant"]]["track"] for row in rows.values()} == {"end to end"}
    assert sum(row["valid"] for (label, _), row in rows.items() if label == "dies") == 0
    fastest = max(row["throughput_mbps"] for (label, _), row in rows.items() if label == "theirs")
    # It sends 2 Mbit/s, in a run of one second in which it also has to start.
    assert 1.0 < fastest < 2.0 * 1.028 * 1.05 and group is not None and len(group["rows"]) == 2
    assert "Version: 1.0" in next(row["card"] for row in known.values() if row["label"] == "theirs")
