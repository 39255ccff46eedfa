"""Report of a canary, metrics, and the judgement of `bench.swaps`, on given records."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from bench.swaps import stalls
from ccarena import cli
from ccarena.cc_kernel_bridge import policies
from ccarena.errors import ConfigError, RunnerError
from ccarena.operation import connections as telemetry
from ccarena.operation.connections import Connection, prometheus
from ccarena.operation.loaded import Loaded
from ccarena.operation.report import Report, report

RECORD: dict[str, Any] = {
    **{"record": 0, "connection": 1, "cookie": 0, "role": "policy", "ended": None, "generation": 1, "sha256": ""},
    "mss": 1448,
    **{"local": "127.0.0.1:5000", "remote": "192.0.2.1:80", "begun_ns": 0, "now_ns": 5 * 10**9, "busy_ns": 10**9},
    **{"acked_bytes": 1_000_000, "sent_bytes": 1_000_000, "retransmitted_bytes": 0, "rtt_us": 10_000, "rtt_count": 1},
    **{"rtt_min_us": 10_000, "srtt_us": 10_000, "window_packets": 10, "pacing_bytes_per_s": 0, "decisions": 5},
    **{"outside": 0, "clamps": 0, "held": 0, "compared": 0, "agreed": 0, "policy_kib": 0, "running_kib": 0},
}
"""A record as the kernel's program prints it: 8 Mbit/s while busy."""

NAMED = {
    "scheme": "acct",
    "fallback": "cubic",
    "policy": "acct",
    "sha256": "",
    "generation": 1,
    "share": 1.0,
    "to": None,
    "cases": {},
}


def connections(*changes: dict[str, Any]) -> list[Connection]:
    """Records as the kernel gives them, read."""
    return [telemetry._connection("mine", RECORD | each) for each in changes]


def loaded(name: str) -> Loaded:
    """A policy that is loaded as `name`."""
    zero = dict.fromkeys((field.name for field in fields(Loaded)), 0)
    return Loaded(**{**zero, **NAMED, "name": name})  # type: ignore[arg-type]


def compared(*changes: dict[str, Any], generation: int = 1) -> Report:
    return report("mine", connections(*changes), generation)


def test_a_report_has_one_policy_and_the_control_of_its_time() -> None:
    old = [
        {"connection": n, "role": role, "ended": "replaced", "busy_ns": 10**9}
        for n, role in enumerate(("policy", "control"))
    ]
    new = [{"connection": n, "role": role, "generation": 2} for n, role in enumerate(("policy", "control"))]
    found = compared(*old, *new, generation=2)
    assert (found.policy, found.control) == (1, 1)
    assert found.figures[0].policy.mean == found.figures[0].control.mean == 8.0
    assert compared(*old, generation=2).policy == 0


def test_a_stalled_connection_counts_with_throughput_zero() -> None:
    found = compared({}, {"connection": 2, "acked_bytes": 0}, {"connection": 3, "acked_bytes": 0, "busy_ns": 0})
    assert found.policy == 2 and found.figures[0].policy.mean == 4.0


def test_a_moved_connection_counts_once_per_side_weighted_by_time_and_samples() -> None:
    found = compared(
        {"ended": "moved", "rtt_us": 10_000, "rtt_count": 1},
        {"role": "control", "ended": "moved"},
        {"acked_bytes": 0, "busy_ns": 3 * 10**9, "rtt_us": 60_000, "rtt_count": 3},
        {"role": "apart"},
        {"role": "shadow"},
    )
    assert (found.policy, found.control) == (1, 1)
    throughput, rtt, _ = found.figures
    assert throughput.policy.mean == 2.0 and rtt.policy.mean == 17.5


def test_a_connection_that_was_handed_back_counts_for_the_policy() -> None:
    found = compared({"ended": "guard"}, {"role": "handed_back"}, {"connection": 2})
    assert (found.policy, found.handed_back, found.control) == (2, 1, 0)


@pytest.mark.parametrize(("megabytes", "verdict"), [(0.5, "worse"), (2.0, "better"), (1.0, "no difference seen")])
def test_verdicts_follow_the_interval(megabytes: float, verdict: str) -> None:
    sides = [("policy", megabytes), ("control", 1.0)]
    found = compared(
        *(
            {"connection": 10 * side + n, "role": role, "acked_bytes": int(1e6 * size) + 1000 * n}
            for side, (role, size) in enumerate(sides)
            for n in range(4)
        )
    )
    assert found.figures[0].verdict == verdict


def test_without_connections_no_difference_is_claimed() -> None:
    verdicts = [{each.verdict for each in found.figures} for found in (compared(), compared({}))]
    assert verdicts == [{"no data"}, {"no data"}]
    assert compared({}, {"connection": 2, "role": "control"}).figures[0].verdict == "too few connections"


def test_a_report_in_shadow_mode_points_to_the_counters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policies, "stats", lambda name: [replace(loaded(name), shadow=True)])
    monkeypatch.setattr(policies, "records", lambda name, after: [RECORD | {"role": "shadow"}])
    assert cli.main(["kernel", "report", "mine"]) == 0
    said = capsys.readouterr().out
    assert "mine is in shadow mode" in said and "`stats mine`" in said and "no difference" not in said


@pytest.mark.parametrize("place", ["kernel", "quic"])
@pytest.mark.parametrize(
    ("words", "says"),
    [(["--share", "2"], "from 0 to 1"), (["--share", "1", "--to", "10.0.0.0/33"], "10.0.0.0/8")],
)
def test_wrong_arguments_of_a_canary_are_the_lines_fault(
    place: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([place, "canary", "mine", *words]) == ConfigError.exit_code
    assert says in capsys.readouterr().err


def test_report_prints_json_where_an_interval_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policies, "stats", lambda name: [loaded(name)])
    monkeypatch.setattr(policies, "records", lambda name, after: [RECORD])
    assert cli.main(["kernel", "report", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["policy"] == 1 and found["figures"][0]["policy"]["low"] is None


def test_metrics_are_of_open_connections_and_escape_labels() -> None:
    text = prometheus([loaded('a"b\\c\nd')], connections({"ended": "closed"}, {"connection": 7}))
    assert 'ccarena_policy_share{name="a\\"b\\\\c\\nd"} 1\n' in text
    assert text.count("ccarena_connection_acked_bytes_total{") == 1
    assert 'connection="7",remote="192.0.2.1:80"} 1000000\n' in text


def test_a_damaged_record_is_an_error() -> None:
    with pytest.raises(RunnerError, match="not understood"):
        telemetry._connection("mine", {key: value for key, value in RECORD.items() if key != "busy_ns"})


def test_a_connection_that_stays_silent_to_the_end_is_stalled() -> None:
    beside = [n / 100 for n in range(101)]
    assert stalls([0.0, 0.1, 1.0], beside) == ([0.9], 0.9)
    assert stalls(beside, beside)[0] == []
    # The whole machine was late.
    assert stalls([0.0, 0.1, 1.0], [0.0, 0.1, 1.0])[0] == []
