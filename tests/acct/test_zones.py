"""The zones that reports carry are those of the paper: two axes, the advertised rate and the delay budget (§II-B)."""

from __future__ import annotations

import json

import numpy as np

from ccarena import _core
from ccarena.acct import Zone
from ccarena.configs import load_config
from ccarena.policies.spec import spec_of

BUDGET_MS = 5.0


def test_reports_say_in_which_zone_a_decision_was() -> None:
    steps = [{"at_s": 0, "rate_mbps": 24}, {"at_s": 4, "rate_mbps": 6}, {"at_s": 8, "rate_mbps": 40}]
    scenario = {
        "duration_s": 12,
        "links": [{"service": {"type": "steps", "steps": steps}, "queue": {"type": "droptail", "packets": 100}}],
        "flows": [{"scheme": "acct", "policy": {"constant": 3}}],
        "record": {"reports": True},
    }
    runs = [{**scenario, "links": [{**scenario["links"][0], "router": router}]} for router in (True, False)]
    reports = np.concatenate([_core.simulate(json.dumps(run))["flows"][0]["reports"] for run in runs])
    column = dict(zip(spec_of(load_config("acct")).report, reports.T, strict=True))
    below = column["cwnd_packets"] < column["twnd_packets"]
    within = column["queueing_delay_ms"] < BUDGET_MS
    expected = np.where(within, np.where(below, Zone.GREEN, Zone.YELLOW), np.where(below, Zone.BLUE, Zone.RED))
    assert set(expected) == set(Zone)
    np.testing.assert_array_equal(column["zone"], expected)
