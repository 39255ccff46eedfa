"""Plots for papers: what they show, their formats, and what is refused."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: plots not tested (run make)")
pytest.importorskip("matplotlib", reason="MATPLOTLIB IS NOT INSTALLED: plots for papers not tested (ccarena[render])")

import ccarena
from ccarena.cli import main
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.eval.compete.competition import Competition
from ccarena.eval.heldout.outcome import Outcome
from ccarena.extras import how_to_add
from ccarena.pages import charts
from ccarena.pages.paper import look
from ccarena.pages.paper_files import INKS
from ccarena.scenarios.results import Results
from ccarena.scenarios.row_plots import _mean_region

LINK: ccarena.Link = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10, "loss": 0.002}
SWEPT: dict[str, Any] = {
    "duration_s": 2,
    "links": [LINK],
    "flows": [{"scheme": "${scheme}", "base_rtt_ms": "${rtt_ms}"}],
}


@pytest.fixture(scope="module")
def results() -> Results:
    return ccarena.run(SWEPT, sweep={"rtt_ms": [20, 60], "scheme": ["cubic", "copa"]}, seeds=4, threads=2)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return ccarena.evaluate("cubic", "copa", link_sets=["slides"], seeds=2, duration_s=1)


@pytest.fixture(scope="module")
def match() -> Competition:
    return ccarena.compete("cubic", "copa", links=["12mbps,20ms"], stagger_s=0.5, duration_s=2, seeds=2)


def names(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_a_scatter_plot_has_a_mean_and_its_region_per_entrant(results: Results) -> None:
    figure = results.plot("scatter", by="scheme")
    (axes,) = figure.axes
    assert names(figure) == ["cubic", "copa"] and axes.xaxis_inverted() and "better" in axes.get_title("right")
    assert axes.get_xlabel() == "p95 queueing delay (ms)" and axes.get_ylabel() == "throughput (Mbit/s)"
    table = results.columns("flows")
    chosen = table["scheme"] == "copa"
    per_seed = {
        seed: [
            table[name][chosen & (table["seed"] == seed)].mean()
            for name in ("queueing_delay_p95_ms", "throughput_mbps")
        ]
        for seed in np.unique(table["seed"])
    }
    points = np.asarray(list(per_seed.values()))
    (mark,) = [line for line in axes.lines if line.get_label() == "copa"]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == pytest.approx(points.mean(axis=0))
    ellipse = axes.patches[1]
    # Area of the region {m : (m - mean)' S^-1 (m - mean) <= factor²} is pi factor² sqrt(det S).
    area = np.pi / 4 * ellipse.width * ellipse.height
    factor = _mean_region(4)
    assert area == pytest.approx(np.pi * factor**2 * np.sqrt(np.linalg.det(np.cov(points.T))), rel=1e-6)
    assert len(results.plot("scatter", ellipse=None).axes[0].patches) == 0
    assert len(results.plot("scatter", ellipse="runs").axes[0].patches) == 4


def test_the_region_is_hotellings() -> None:
    # F(0.95; 2, 3) = 9.5521 and F(0.95; 2, 8) = 4.4590, from tables.
    assert _mean_region(5) ** 2 == pytest.approx(2 * 4 / (5 * 3) * 9.5521, rel=1e-4)
    assert _mean_region(10) ** 2 == pytest.approx(2 * 9 / (10 * 8) * 4.4590, rel=1e-4)


def test_plots_over_time_show_flows_links_and_capacity(results: Results) -> None:
    rate, delay = results.plot("rate", run=2), results.plot("delay", run=2)
    assert names(rate) == ["capacity", "flow0 (cubic)"] and names(delay) == ["link0"]
    series = results.columns("flow_series")
    mine = (series["scenario"] == results[2].scenario) & (series["seed"] == results[2].seed)
    assert np.mean(rate.axes[0].lines[0].get_ydata()) == pytest.approx(series["received_mbps"][mine].mean())


def test_a_distribution_is_that_of_packets_or_of_runs(results: Results) -> None:
    figure = results.plot("cdf", by="scheme")
    packets = results.columns("link_packets")
    line = next(line for line in figure.axes[0].lines if line.get_label() == "copa")
    x, y = line.get_xdata(), line.get_ydata()
    delays = packets["queueing_delay_ms"][packets["scheme"] == "copa"]
    for share in (0.1, 0.5, 0.9):
        at = float(np.quantile(delays, share))
        assert y[np.searchsorted(x, at, "right") - 1] / 100 == pytest.approx(np.mean(delays <= at), abs=0.005)
    of_runs = results.plot("cdf", figure="utilisation", by="scheme").axes[0]
    assert of_runs.get_xlabel() == "utilisation (%)" and len(of_runs.lines[0].get_xdata()) == 8 + 1


def test_lines_run_over_an_axis_of_the_sweep(results: Results) -> None:
    figure = results.plot("line", x="rtt_ms", figure="goodput_mbps")
    (axes,) = figure.axes
    assert names(figure) == ["cubic", "copa"] and axes.get_xlabel() == "rtt_ms"
    frame = results.columns("flows")
    chosen = (frame["scheme"] == "cubic") & (frame["rtt_ms"] == 60)
    assert list(axes.lines[0].get_xdata()) == [20, 60]
    assert axes.lines[0].get_ydata()[1] == pytest.approx(frame["goodput_mbps"][chosen].mean())
    assert len(results.plot("bar").axes[0].patches) == 4


def test_evaluations_and_competitions_have_the_same_plots(outcome: Outcome, match: Competition) -> None:
    for kind in ("scatter", "cdf", "bar", "rate", "delay"):
        assert outcome.plot(kind).axes
    assert outcome.plot("scatter").axes[0].get_ylabel() == "utilisation (%)"
    for kind in ("scatter", "cdf", "bar"):
        assert match.plot(kind).axes
    share, *_ = match.plot().axes
    shown = [text.get_text() for text in share.texts]
    assert shown[0] == shown[3] == "50" and int(shown[1]) + int(shown[2]) == 100


@pytest.mark.parametrize(
    "words",
    [
        "eval --scenario one.yaml --pcap one.pcap",
        "eval cubic --link-sets constant --seeds 1 --duration-s 0.2",
        "compete cubic --duration-s 1 --seeds 1",
    ],
)
def test_commands_name_the_plot_that_they_wrote(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    service = "{type: constant, rate_mbps: 24}"
    Path("one.yaml").write_text(
        f"duration_s: 1\nlinks: [{{service: {service}, delay_ms: 10}}]\nflows: [{{scheme: cubic}}]"
    )
    assert main([*words.split(), "--plot", "one.svg"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert Path("one.svg").is_file() and "wrote one.svg" in said
    assert Path("one.pcap").is_file() == ("wrote one.pcap" in said) == ("--pcap" in words)


def test_files_are_vectors_with_type_42_fonts_and_the_same_bytes(results: Results, tmp_path: Path) -> None:
    for suffix in ("pdf", "svg", "png"):
        written = [tmp_path / f"{turn}.{suffix}" for turn in (1, 2)]
        for path in written:
            results.plot("scatter", path)
        assert written[0].read_bytes() == written[1].read_bytes(), suffix
    pdf = (tmp_path / "1.pdf").read_bytes()
    objects = pdf + b"".join(
        zlib.decompress(part)
        for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
        if part[:1] == b"x"
    )
    assert b"/FontFile2" in objects and b"/Type3" not in objects and b"/CreationDate" not in objects
    width = float(re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", pdf)[1])  # type: ignore[index]
    assert width == pytest.approx(3.33 * 72, abs=1)
    svg = (tmp_path / "1.svg").read_text()
    assert "<image" not in svg and "<dc:date>" not in svg
    page = results.plot("rate", width="page")
    assert page.get_size_inches()[0] == 7.0


def test_a_figure_can_be_changed_and_saved_by_its_owner(results: Results, tmp_path: Path) -> None:
    figure = results.plot("rate")
    figure.axes[0].set_title("mine")
    for turn in ("1.pdf", "2.pdf"):
        figure.savefig(tmp_path / turn)
    data = (tmp_path / "1.pdf").read_bytes()
    assert data == (tmp_path / "2.pdf").read_bytes() and b"/Type3" not in data
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_series_differ_in_colour_marker_and_dash() -> None:
    looks = [look(index) for index in range(30)]
    assert len({(each["color"], each["marker"]) for each in looks}) == 30
    assert len({str(each["linestyle"]) for each in looks[:6]}) == 6
    assert len({each["marker"] for each in looks[:10]}) == 10


def test_colours_are_those_of_light_pages() -> None:
    css = (Path(charts.__file__).parent / "assets" / "page.css").read_text()
    assert dict(re.findall(r"--(\w+): light-dark\((#\w+)", css)).items() >= INKS.items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "scater"}, 'no plot "scater"; did you mean "scatter"'),
        ({"kind": "pie"}, 'no plot "pie"; expected rate, delay, scatter, cdf, bar or line'),
        ({"kind": "bar", "path": "a.html"}, r"a\.html: cannot draw as \"\.html\"; expected \.pdf, \.svg or \.png"),
        ({"kind": "bar", "width": "wide"}, 'width = "wide"; expected "column" or "page"'),
        (
            {"kind": "bar", "figure": "goodput"},
            'figure = "goodput": these runs have no such figure; did you mean',
        ),
        ({"kind": "bar", "figure": "satisfaction_goodput"}, "satisfaction_goodput is not known of any run"),
        ({"kind": "bar", "by": "sheme"}, 'by = "sheme": the table has no such column; did you mean "scheme"'),
        ({"kind": "bar", "x": "rtt_ms"}, "has no effect"),
        ({"kind": "line"}, "needs a column of the table on its x axis, such as an axis of the sweep"),
        (
            {"kind": "line", "x": "seed", "by": "scheme"},
            r"a point would be a mean over rtt_ms \(20, 60\).*expected by=\['scheme', 'rtt_ms'\]",
        ),
        ({"kind": "line", "x": "rtt"}, 'x = "rtt": .*did you mean "rtt_ms"'),
        ({"kind": "bar", "run": 1}, "run = 1 has no effect"),
        ({"kind": "rate", "run": 99}, "run = 99: expected 0 to 15"),
        ({"kind": "rate", "figure": "utilisation"}, "figure has no effect"),
        ({"kind": "scatter", "ellipse": "95"}, 'ellipse = "95"; expected'),
    ],
)
def test_what_cannot_be_drawn_is_refused(results: Results, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        results.plot(**options)


def test_nothing_and_no_packets_are_refused(match: Competition) -> None:
    with pytest.raises(ConfigError, match="nothing to plot: there are no valid runs"):
        Results(()).plot("scatter")
    with pytest.raises(ConfigError, match="there are no runs; run a scenario first"):
        Results(()).plot("rate")
    bare = ccarena.run(SWEPT, sweep={"rtt_ms": [20], "scheme": ["cubic"]}, packets=False)
    with pytest.raises(ConfigError, match=r"no packets were recorded, .* run with packets=True, or name a figure"):
        bare.plot("cdf")
    with pytest.raises(ConfigError, match="queueing_delay_p95_ms is not known of any run; run with packets=True"):
        bare.plot("scatter")
    with pytest.raises(ConfigError, match=r"compete keeps no series; ccarena\.run draws a match over time"):
        match.plot("rate")


def test_the_extra_is_named_where_matplotlib_is_missing(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r'a plot needs .*"matplotlib"') as error:
        results.plot("bar")
    assert how_to_add("render") in str(error.value)
