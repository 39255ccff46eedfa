"""Hyvar whose reasoner counts the queue in packets, with the rule of docs/hyvar.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ccarena
from ccarena.configs.yamlfile import parse_yaml

DOC = Path(__file__).parents[2] / "docs" / "hyvar.md"
RULE = re.search(r"```yaml\n(scheme: hyvar\n.*?)```", DOC.read_text(), re.DOTALL)
DELAY_MS = 20


def run(flow: Any, service: Any) -> Any:
    link = {"service": service, "delay_ms": DELAY_MS, "queue": {"type": "droptail", "packets": 1000}}
    scenario = {"duration_s": 60, "links": [link], "flows": [{**flow, "base_rtt_ms": 2 * DELAY_MS}]}
    (row,) = ccarena.run([scenario], progress=False).flows().itertuples()
    return row


def test_the_rule_keeps_cubics_throughput_at_little_delay_and_is_asked_seldom() -> None:
    assert RULE is not None
    rule = parse_yaml(RULE[1].encode(), str(DOC))
    service = {"type": "cellular", "preset": "lte-bus"}
    cubic, packets = run({"scheme": "cubic"}, service), run(rule, service)
    slides = run({**rule, "params": {**rule["params"], "queue_packets": 0}}, service)
    assert packets.goodput_mbps > 0.9 * cubic.goodput_mbps > 1.5 * slides.goodput_mbps
    assert packets.queueing_delay_mean_ms < 0.1 * cubic.queueing_delay_mean_ms
    assert packets.decisions < 5 * 60
