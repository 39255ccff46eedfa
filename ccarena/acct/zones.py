"""Zones of ACCT, as the native code finds them and reports carry them."""

from __future__ import annotations

from enum import IntEnum


class Zone(IntEnum):
    """Operating zone of a decision interval (paper, §II-B)."""

    GREEN = 0
    """Zone below the advertised rate, with a queueing delay within the budget."""
    YELLOW = 1
    """Zone at or above the advertised rate, within the budget."""
    RED = 2
    """Zone at or above the advertised rate, over the budget."""
    BLUE = 3
    """Zone below the advertised rate, over the budget: the bottleneck does not signal."""
