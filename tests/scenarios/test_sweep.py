"""Sweeps of `ccarena.run`: combinations, columns, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: sweeps not tested (run make)")

import ccarena
from ccarena.errors import ConfigError, ScenarioError

LINK = {"service": {"type": "constant", "rate_mbps": 12}}
DOCUMENT: dict[str, Any] = {
    "duration_s": 0.5,
    "links": [{"service": {"type": "constant", "rate_mbps": "${2 * mbps}"}, "queue": "${queue}"}],
    "flows": [{"scheme": "${scheme}"}],
}
SWEEP: dict[str, Any] = {
    "mbps": [4, 6],
    "scheme": ["cubic", "reno"],
    "queue": {"short": {"type": "droptail", "packets": 9}, "codel": {"type": "codel"}},
}


def test_every_combination_runs_and_axes_are_columns_of_all_tables() -> None:
    results = ccarena.run(DOCUMENT, sweep=SWEEP, seeds=2, threads=2)
    assert len(results) == 2 * 2 * 2 * 2
    first = results[2]
    assert first.scenario == "scenario, mbps 4, scheme cubic, queue codel" and first.seed == 1
    assert first.axes == {"mbps": 4, "scheme": "cubic", "queue": "codel"}
    assert first.document["links"][0]["service"]["rate_mbps"] == 8
    assert first.document["links"][0]["queue"]["type"] == "codel"
    for table in ("flows", "links", "flow_series", "link_series", "packets", "link_packets", "summary"):
        columns = results.columns(table)
        assert set(columns["mbps"]) == {4, 6} and set(map(str, columns["queue"])) == {"short", "codel"}, table
    summary = results.columns("summary")
    assert set(summary["n"]) == {2}, "each combination is a group of its own"
    flows = results.columns("flows")
    assert flows["scheme"].tolist()[:3] == ["cubic", "cubic", "cubic"] and flows["mbps"].dtype.kind == "i"


def test_frames_are_ready_for_groups_and_pivots() -> None:
    pytest.importorskip("pandas", reason="PANDAS IS NOT INSTALLED: data frames not tested (ccarena[frames])")
    frame = ccarena.run(DOCUMENT, sweep=SWEEP).flows()
    table = frame.pivot_table(index=["scheme", "queue"], columns="mbps", values="capacity_mbps")
    assert table.shape == (4, 2) and table[6].tolist() == pytest.approx([12.0] * 4)


def test_several_scenarios_are_swept_each() -> None:
    other = {**DOCUMENT, "flows": [{"scheme": "${scheme}", "count": 2}]}
    sweep = {**SWEEP, "mbps": [4], "queue": {"codel": {"type": "codel"}}}
    results = ccarena.run([DOCUMENT, other], sweep=sweep, names=["one", "two"], packets=False)
    assert [run.scenario for run in results][1:3] == [
        "one, mbps 4, scheme reno, queue codel",
        "two, mbps 4, scheme cubic, queue codel",
    ]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({**SWEEP, "rtt_ms": [1]}, r"sweep\.rtt_ms: scenario does not use it; write \$\{rtt_ms\}"),
        ({**SWEEP, "mbps": []}, r"sweep\.mbps: has no values"),
        ({**SWEEP, "mbps": 4}, r"sweep\.mbps: has no values; expected a list"),
        ({**SWEEP, "mbps": [4, 4]}, r"sweep\.mbps\[1\]: 4 is there twice"),
        ({**SWEEP, "a-b": [4]}, r"sweep\.a-b: the name of an axis"),
        (
            {**SWEEP, "mbps": range(1000), "queue": {str(i): {} for i in range(1000)}},
            "more than 1,000,000 combinations",
        ),
    ],
)
def test_what_is_no_sweep_is_refused(sweep: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ccarena.run(DOCUMENT, sweep=sweep)


def test_expressions_and_names_of_columns_are_checked() -> None:
    with pytest.raises(ScenarioError, match=r'scenario, mbps 4: flows\[0\]\.scheme: .*unknown name "scheme"'):
        ccarena.run({**DOCUMENT, "links": [{"service": {"rate_mbps": "${mbps}"}}]}, sweep={"mbps": [4]})
    flow = {"duration_s": 1, "links": [{**LINK, "loss": "${link}"}], "flows": [{"scheme": "cubic"}]}
    with pytest.raises(ConfigError, match=r"sweep\.link: tables have a column of this name"):
        ccarena.run(flow, sweep={"link": [0.1]})
    pair = {**DOCUMENT, "links": [LINK], "flows": [{"scheme": "${scheme}"}, {"scheme": "cubic"}]}
    with pytest.raises(ConfigError, match=r"sweep\.scheme: tables have a column of this name"):
        ccarena.run(pair, sweep={"scheme": ["reno"]})
