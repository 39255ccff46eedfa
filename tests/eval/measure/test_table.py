"""The table of figures: a new one is an entry, nothing else defines one, and Rust's trials have the same names."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ccarena
from ccarena import _core
from ccarena.eval.leaderboard.run import Board, run
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.record import PACKETS
from ccarena.eval.measure.table import FIGURES, Figure, register, value
from tests import test_structure

NEW = "time_at_link_max_ms"
CONDITIONS = {"duration_s", "base_rtt_ms", "flows", "decisions"}
"""Columns of a trial that say where it ran."""


@pytest.fixture
def new() -> Iterator[str]:
    figure = Figure(
        "Longest time at the link", "ms", 1, "Longest time that a packet spent in the queue and on the wire.",
        lambda flow: float((flow.log.departure_ns - flow.log.arrival_ns).max() / 1e6) if len(flow.log) else np.nan,
        frozenset({PACKETS}),
    )  # fmt: skip
    register(NEW, figure)
    yield NEW
    del FIGURES[NEW]


def test_a_new_figure_is_an_entry(new: str, tmp_path: Path) -> None:
    """It has a column in the tables of `run`, `eval` and `compete`, and in a store that was made before it came."""
    store = str(tmp_path / "results.db")
    known = FIGURES.pop(new)
    with Store(store):
        pass
    FIGURES[new] = known
    link = {"service": {"type": "constant", "rate_mbps": 12}, "queue": {"type": "droptail", "packets": 50}}
    scenario = {"duration_s": 1, "links": [link], "flows": [{"scheme": "reno"}]}
    results = ccarena.run(scenario, progress=False)
    evaluation = ccarena.evaluate("reno", link_sets=["slides"], seeds=1, duration_s=1)
    competition = ccarena.compete("reno", "cubic", links=["12mbps"], duration_s=1, stagger_s=0.1, seeds=1)
    board = Board(["lte-bus"], ["reno", "cubic"], [], buffers_packets=[100], duration_s=1, seeds=1, meeting_seeds=1)
    run(board, store)
    with Store(store, read_only=True) as opened:
        stored = list(opened.all_runs())
    results.write(tmp_path)
    with (tmp_path / "flows.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    for rows in (results.columns("flows")[new], evaluation.columns("rows")[new], [float(row[new]) for row in written]):
        assert np.nanmin(rows) > 0
    assert all(row[new] > 0 for row in competition.flows)
    assert len(stored) >= 6 and all(row[new] > 0 for row in stored if row["utilisation"] and row["power"])
    with pytest.raises(ValueError, match="in the table already"):
        register(new, known)


def test_figures_of_many_runs_are_those_of_each_flow_alone() -> None:
    """In any order, also of a flow that never starts and of a result without arrays of lost packets."""
    link = {
        "service": {"type": "constant", "rate_mbps": 5},
        "delay_ms": 10,
        "queue": {"type": "droptail", "packets": 9},
    }
    late = {"scheme": "reno", "start_s": 2}
    transfers = {"scheme": "cubic", "app": {"type": "transfers", "sizes_bytes": [9000, 200_000]}}
    mixes = [[{"scheme": "cubic"}], [{"scheme": "bbr"}, late], [transfers, transfers, {"scheme": "reno"}]]
    results = ccarena.run([{"duration_s": 1, "links": [link], "flows": flows} for flows in mixes], progress=False)
    bare = [dict(links) for links in results[1].result["links"]]
    for each in bare:
        del each["drops"], each["losses"]
    results[1].result["links"][:] = bare
    table = results.columns("flows")
    flows = [flow for run in results for flow in run.measured().flows]
    for name in reversed([name for name in FIGURES if name in table]):
        alone = np.array([value(flow, name) for flow in flows], np.float64)
        assert np.array_equal(alone, table[name].astype(np.float64), equal_nan=True), name


def test_trials_name_their_figures_as_the_table_does() -> None:
    """`tests/envs/test_trials.py` holds their values."""
    assert set(_core.Trials.figures) - CONDITIONS <= FIGURES.keys()


def test_nothing_else_defines_a_figure() -> None:
    """A definition is a sentence behind a figure's name in a dictionary; headings are none."""
    for name, path in test_structure.modules(test_structure.ROOT).items():
        if name == "ccarena.eval.measure.table":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                texts = [
                    value
                    for value in node.values
                    if isinstance(value, ast.Constant) and len(str(value.value).split()) > 5
                ]
                assert len(FIGURES.keys() & set(keys)) < 2 or not texts, f"{path}:{node.lineno}: defines figures"


def test_titles_are_words_and_no_names_of_columns() -> None:
    assert [figure.title for figure in FIGURES.values() if "_" in figure.title] == []
