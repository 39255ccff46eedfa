"""Link models, and their comparison with a table. The processes are tested beside the models, in Rust."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: link models not tested (run make)")

from ccarena.errors import ConfigError, TraceError
from ccarena.traces import compare, models

NAMES = [model["name"] for model in models.all_models()]


@pytest.mark.parametrize("name", NAMES)
def test_traces_repeat_and_are_conditions(name: str, tmp_path: Path) -> None:
    rows = models.draw(name, 30, 7)
    assert np.array_equal(rows, models.draw(name, 30, 7))
    assert not np.array_equal(rows, models.draw(name, 30, 8))
    assert rows[0, 0] == 0 and (np.diff(rows[:, 0]) > 0).all()
    assert (rows >= 0).all() and (rows[:, 3] < 1).all()
    path = models.write(tmp_path / "drawn.csv", rows)
    assert path.read_text().splitlines()[0] == "time_ms,rate_mbps,delay_ms,loss"
    assert np.array_equal(np.loadtxt(path, delimiter=",", skiprows=1), rows)


def test_every_family_of_links_has_a_model() -> None:
    assert {model["family"] for model in models.all_models()} == {"satellite", "5g", "wifi", "cable"}
    for model in models.all_models():
        assert model["source"] and model["summary"]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        models.draw("starlnk", 10, 1)
    for duration_s in (0, -1, float("nan"), 1e6):
        with pytest.raises(ConfigError, match="duration_s"):
            models.draw("wifi", duration_s, 1)
    for seed in (-1, 2**64):
        with pytest.raises(ConfigError, match="seed"):
            models.draw("wifi", 10, seed)
    for mean_mbps in (0, -1, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="mean_mbps"):
            models.draw("wifi", 10, 1, mean_mbps)


def drawn(name: str, seeds: range, duration_s: float = 300) -> list[compare.Session]:
    """Sessions of a model, in seconds, as a table would have them."""
    found = []
    for seed in seeds:
        rows = models.draw(name, duration_s, seed)
        _, rates, delays, losses = rows.T
        found.append(compare.session(np.full(len(rows), rows[1, 0] / 1000), rates, delays, losses))
    return found


def test_a_model_agrees_with_its_own_traces_and_not_with_others() -> None:
    table = drawn("starlink-roam", range(1000, 1006))
    own, other = (compare.compare(name, table, 20) for name in ("starlink-roam", "5g-midband"))
    names = [figure.name for figure in own.figures]
    assert {"rate p50", "autocorrelation 1 s", "autocorrelation 15 s", "outages, share", "delay p95"} <= set(names)
    assert own.agreeing >= 0.65 * len(names)
    assert other.agreeing < own.agreeing and other.distance > own.distance


def test_steps_at_15_s_are_seen_where_they_are() -> None:
    def step(name: str, of: str) -> float:
        found = compare.compare(name, drawn(name, range(50, 54)), 5)
        return next(figure.table for figure in found.figures if figure.name == f"{of} step at 15 s")

    assert step("starlink", "delay") > 2.5 * step("5g-midband", "delay")
    assert step("starlink", "rate") > 1.3 * step("5g-midband", "rate")


def test_rows_of_any_length_become_equal_intervals() -> None:
    one = compare.session(np.array([0.5, 1.0, 0.5, 2.0]), np.array([10.0, 20.0, 0.0, 4.0]))
    assert one.interval_s == 1.0
    assert one.rates_mbps.tolist() == [15.0, 10.0, 4.0, 4.0]


def test_outages_are_counted_by_run() -> None:
    rates = np.tile([5.0, 0.0, 0.0, 5.0, 5.0, 0.0, 5.0, 5.0, 5.0, 5.0], 12)
    found = compare.compare("wifi", [compare.session(np.ones(120), rates)], 2)
    figures = {figure.name: figure.table for figure in found.figures}
    assert figures["outages, share"] == pytest.approx(0.3)
    assert figures["outages"] == pytest.approx(12)
    assert figures["outage, mean"] == pytest.approx(1.5)


def test_tables_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(TraceError, match="no session lasts 100 s"):
        compare.compare("wifi", [compare.session(np.ones(50), np.ones(50))])
    mixed = [compare.session(np.full(200, span), np.ones(200)) for span in (1.0, 3.0)]
    with pytest.raises(TraceError, match=r"intervals of \[1.0, 3.0\] s"):
        compare.compare("wifi", mixed)
