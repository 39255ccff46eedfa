"""Figures, tables and the page of all results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.eval.reproduce import figures, runs, suite, tables

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

Write = Callable[..., Path]

THREE = """figure:
  - {kind: bars, x: rate_mbps, by: scheme, y: {value: total_mbps}, target: 8}
  - {kind: lines, x: flow, panels: scheme, by: rate_mbps, y: {value: throughput_mbps, flow: all}, log_y: true}
  - {kind: over_time, panels: rate_mbps, where: {scheme: reno}}
"""


def drawn(write: Write, quick: bool) -> list[object]:
    old = "figure: {kind: bars, x: rate_mbps, by: scheme, y: {value: total_mbps}}\n"
    loaded = suite.load(str(write({old: THREE, "claims:": "  record: {series: true}\nclaims:"})))
    rows = [runs.perform(run) for run in runs.expand(loaded, quick=True)]
    return [figures._figure(loaded, spec, value, rows, quick) for spec, value in loaded.figures]


def test_figures_show_what_was_measured(write: Write) -> None:
    pytest.importorskip("plotly", reason="PLOTLY IS NOT INSTALLED: figures of suites not tested (ccarena[report])")
    bars, lines, over_time = drawn(write, quick=True)
    assert [trace.name for trace in bars.data] == ["cubic", "reno"]
    assert list(bars.data[0].x) == ["8", "16"]
    assert bars.data[0].y[1] == pytest.approx(16, rel=0.4)
    assert len(lines.data) == 4 and list(lines.data[0].x) == ["w1", "w2"]
    assert [trace.name for trace in over_time.data] == ["capacity", "w1", "w2"] * 2
    assert max(over_time.data[3].y) == 16
    assert all("QUICK" in figure.layout.title.text for figure in (bars, lines, over_time))
    assert "QUICK" not in drawn(write, quick=False)[0].layout.title.text


def test_figures_are_written(write: Write, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="PLOTLY IS NOT INSTALLED: figures of suites not tested (ccarena[report])")
    loaded = suite.load(str(write()))
    rows = [runs.perform(run) for run in runs.expand(loaded, quick=True)]
    written = figures.draw(loaded, rows, tmp_path, quick=True)
    page = written[0].read_text("utf-8")
    assert written[0] == tmp_path / "figure.html" and "QUICK" in page
    assert 'src="plotly.min.js"' in page and (tmp_path / "plotly.min.js").is_file() and "cdn." not in page
    assert all(path.stat().st_size > 1000 for path in written)
    times = [path.stat().st_mtime_ns for path in written]
    again = figures.draw(loaded, rows, tmp_path, quick=True)
    assert again == written
    if len(written) > 1:  # images are drawn again only if they would differ
        assert [path.stat().st_mtime_ns for path in again] == times
    figures.draw(loaded, rows, tmp_path, quick=False)
    assert "QUICK" not in written[0].read_text("utf-8")


def test_the_page_holds_every_claim(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "draw", lambda *_: [])
    out = tmp_path / "out"
    one = write(
        {"{within: 40 %}": "{within: 0.01 %}\n    direction: {at_least: 0.1}\n    note: Slow start fills it late."}
    )
    assert cli.main(["reproduce", str(one), "--out", str(out), "--jobs", "1"]) == 0
    page = tables.page(out, ["own/mine", "own/other"])
    assert page == tables.page(out, ["own/mine", "own/other"])
    assert "## own/mine: Two schemes" in page and "| [own/mine](#ownmine-two-schemes) | none | 0 | 2 | 0 |" in page
    assert "| The link is busy at 8 Mbit/s | 1 | cubic: " in page and "**differs** |" in page
    assert "- The link is busy at 8 Mbit/s: Slow start fills it late." in page
    assert "Not run: own/other." in page and str(tmp_path) not in page
    with pytest.raises(ConfigError, match="holds no results"):
        tables.page(tmp_path / "nothing", ["own/mine"])
    (out / "own" / "mine" / "claims.json").write_text("{")
    with pytest.raises(ConfigError, match=r"claims.json: not the claims of a suite"):
        tables.page(out, ["own/mine"])


def test_rows_are_the_same_bytes_however_they_are_run(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw", lambda *_: [])
    path = write()
    for jobs in ("1", "2"):
        assert cli.main(["reproduce", str(path), "--out", str(tmp_path / jobs), "--jobs", jobs]) == 0
    for name in ("rows.jsonl", "rows.csv", "claims.json", "claims.md", "scenarios.yaml"):
        assert (tmp_path / "1/own/mine" / name).read_bytes() == (tmp_path / "2/own/mine" / name).read_bytes(), name
    row = json.loads((tmp_path / "1/own/mine/rows.jsonl").read_text("utf-8").splitlines()[0])
    assert row["seed"] == 1 and row["cell"] == {"scheme": "cubic", "rate_mbps": "8"}
