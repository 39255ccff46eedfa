"""ACCT's four zones, as the native code finds them and reports carry them."""

from __future__ import annotations

from enum import IntEnum


class Zone(IntEnum):
    """Operating zone of a decision interval (paper, §II-B)."""

    GREEN = 0
    """Below the advertised rate, queueing delay within the budget."""
    YELLOW = 1
    """At or above the advertised rate, within the budget."""
    RED = 2
    """At or above the advertised rate, over the budget."""
    BLUE = 3
    """Below the advertised rate, over the budget: the bottleneck does not signal."""
