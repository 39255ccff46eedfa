"""Hyvar whose reasoner counts the queue in packets, with the rule of docs/hyvar.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ccarena
from ccarena.core.reader import parse_yaml

DOC = Path(__file__).parents[2] / "docs" / "hyvar.md"
SCENARIO = re.search(r"```yaml\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)


def test_the_rule_keeps_cubics_throughput_at_little_delay_and_is_asked_seldom() -> None:
    assert SCENARIO is not None
    scenario: Any = parse_yaml(SCENARIO[1], str(DOC))
    (rule,) = scenario["flows"]
    slides = {**rule, "params": {**rule["params"], "queue_packets": 0}}
    cubic = {"scheme": "cubic", "base_rtt_ms": rule["base_rtt_ms"]}
    flows = ccarena.run([{**scenario, "flows": [flow]} for flow in (rule, slides, cubic)], progress=False).flows()
    packets, without, alone = flows.itertuples()
    assert packets.goodput_mbps > 0.9 * alone.goodput_mbps > 1.5 * without.goodput_mbps
    assert packets.queueing_delay_mean_ms < 0.1 * alone.queueing_delay_mean_ms
    assert packets.decisions < 5 * scenario["duration_s"]
