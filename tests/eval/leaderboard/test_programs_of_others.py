"""Programs of others on the leaderboard: groups, digests, and failures that are results."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from ccarena.errors import ConfigError
from ccarena.eval.leaderboard import groups
from ccarena.eval.leaderboard.cells import Measured
from ccarena.eval.leaderboard.costs import cpu_ns
from ccarena.eval.leaderboard.entrants import END_TO_END, Ranked, entrants_of, line_up
from ccarena.eval.leaderboard.figures import SCORE
from ccarena.eval.leaderboard.groups import backend_of, expand
from ccarena.eval.leaderboard.measure import tasks_of
from ccarena.eval.leaderboard.run import Board, failures_of, rankings_of, run
from ccarena.eval.leaderboard.site import write_site
from ccarena.eval.leaderboard.stack_links import STACK_LINKS
from ccarena.eval.leaderboard.store import Store


def test_groups_of_entrants_and_the_board_of_stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(groups, "installed_stacks", lambda: {"theirs": None})
    (tmp_path / "available").write_text("reno ccarena cubic\n")
    monkeypatch.setattr(groups, "_AVAILABLE", tmp_path / "available")
    assert expand(["stacks", "copa", "copa"]) == ["stack:theirs", "kernel:cubic", "kernel:reno", "copa"]
    assert {"cubic", "copa"} <= set(expand(["schemes"])) and "shipped:pilot" not in expand(["schemes"])
    assert backend_of(["copa", "kernel:reno"]) == "kernel" and backend_of(["copa"]) == "sim"
    board = Board((STACK_LINKS,), expand(["kernel:reno", "copa"]), (), backend="kernel", seeds=2, duration_s=2.0)
    where = board.places()
    assert [place.name for place in where] == [
        *("wired-24mbps, 10 ms, 100 packets", "lte-walking, 20 ms, 200 packets", "long-12mbps, 100 ms, 200 packets")
    ]
    cells = board.cells(where, line_up(entrants_of(board.entries(), board.policies), {}, 1))
    assert len(cells) == 3 * 2 * 2 and {cell.entrant.track for cell in cells} == {END_TO_END}
    assert [len(task.cells) for task in tasks_of(cells)] == [1] * 12, "each run is stored as it ends"
    with pytest.raises(
        ConfigError, match=r'entrant "kernel:reno": .* does not run in the simulator; use --backend ker'
    ):
        Board((STACK_LINKS,), ["kernel:reno"], ()).entries()


def test_a_program_of_others_is_known_by_what_it_is(tmp_path: Path) -> None:
    def ranked(folder: str, program: str = "echo 1", **fields: str) -> Ranked:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "send.sh").write_text(program)
        about = {"version": "1.0", "licence": "MIT", "title": "Theirs", **fields}
        facts = "".join(f"{name}: {value}\n" for name, value in about.items())
        file = tmp_path / folder / "theirs.yaml"
        file.write_text(f"kind: command\nsender: 'sh {{folder}}/send.sh'\nreceiver: 'sh {{folder}}/send.sh'\n{facts}")
        (entrant, *_) = line_up(entrants_of([str(file)], ()), {}, 1)
        return entrant

    one = ranked("a")
    assert one.digest == ranked("b").digest, "where it lies is no part of it"
    assert one.digest not in {ranked("a", "echo 2").digest, ranked("a", version="1.1").digest}
    assert one.track == END_TO_END and "Version: 1.0" in one.card and "Licence: MIT" in one.card
    assert cpu_ns(one) is None
    if shutil.which("dpkg-query"):
        assert re.search(r"Version: 1\.0 \(dpkg \d[^)]*\)", ranked("a", packages="[dpkg, no-such-package]").card)


def test_a_run_whose_program_failed_is_stored_and_stated(tmp_path: Path) -> None:
    board = Board(("lte-bus",), ("reno", "cubic"), (), buffers_packets=(100,), duration_s=1.0, seeds=2)
    store = str(tmp_path / "results.db")
    run(board, store)
    where = board.places()
    cells = [c for c in board.cells(where, line_up(entrants_of(board.entries(), ()), {}, 1)) if c.kind == "solo"]
    (failed,) = [cell for cell in cells if cell.entrant.label == "reno" and cell.seed == 1]
    again = dataclasses.replace(failed, key="f" * 32, seed=2)
    with Store(store) as opened:
        for _ in range(3):
            assert opened.missing([again.key], 3) == {again.key}
            opened.add([Measured(again, {}, valid=False, error="the sender \x1bended")])
        assert opened.missing([again.key], 3) == set(), "it is not repeated for ever"
        opened.add([Measured(dataclasses.replace(again, key="e" * 32, entrant=other), {SCORE: 0.5}) for other in
                    [cell.entrant for cell in cells if cell.entrant.label == "cubic"][:1]])  # fmt: skip
        assert failures_of(opened, "sim") == ["reno failed in 1 run, which no mean counts: the sender \\x1bended"]
        rows = {row["entrant"]: row["why"] for row in rankings_of(opened)["score"]["groups"]["all traces"]["rows"]}
        why = {each["label"]: rows.get(each["id"]) for each in opened.entrants()}
        assert why["reno"] == "failed in some runs" and why["cubic"] == ""
        write_site(opened, tmp_path / "site")
    assert "reno failed in 1 run" in (tmp_path / "site" / "index.html").read_text("utf-8")
