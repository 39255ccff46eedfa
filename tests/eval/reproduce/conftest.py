"""A small suite of the test's own, over the real simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SUITE = """
title: Two schemes
paper: none
summary: A test's suite.
conditions: [short]
seeds: {full: 2, quick: 1}
constants: {duration_s: 2}
quick:
  constants: {duration_s: 1}
sweep:
  scheme: [cubic, reno]
  rate_mbps: [8, 16]
scenario:
  duration_s: ${duration_s}
  links: [{service: {type: constant, rate_mbps: "${rate_mbps}"}, queue: {type: droptail, packets: 50}}]
  flows:
    - for_each: {weight: [1, 2]}
      name: w${weight}
      scheme: ${scheme}
      start_s: ${uniform(0, 0.1)}
claims:
  - claim: The link is busy at ${rate_mbps} Mbit/s
    paper: 1
    for_each: {rate_mbps: all}
    measured: {value: utilisation, along: scheme}
    holds: {within: 40 %}
    read: printed
    why: Seconds are mostly slow start.
figure: {kind: bars, x: rate_mbps, by: scheme, y: {value: total_mbps}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes the suite with `changes` (old text -> new text) to a file."""

    def to_file(changes: dict[str, str] | None = None, name: str = "mine.yaml") -> Path:
        text = SUITE
        for old, new in (changes or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return to_file
