"""Least propagation delay of a scenario's link, to which base RTTs refer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["least_delay_ms"]


def least_delay_ms(link: Mapping[str, Any]) -> float:
    """Returns the least one-way delay of a checked document's link, as the native code has it (`Link::delay`)."""
    delay = link["delay_ms"]
    return float(min(step["delay_ms"] for step in delay["steps"]) if isinstance(delay, Mapping) else delay)
