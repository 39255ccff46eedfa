"""The class that a user's controller derives from.

A controller says how much may be in flight (`window`) and, if it wants, how fast packets leave (`pacing_rate`). The
simulator calls its methods and reads these two after each call.
"""

from __future__ import annotations

import random
from typing import ClassVar

__all__ = ["Controller"]


class Controller:
    """Controller of one flow; parameters are arguments of `__init__`, numbers with defaults.

    The order of calls: the transport books an acknowledgement, calls `on_loss` if it marks packets lost, then `on_ack`,
    and then reads the attributes. A method that is not defined is not called; `on_ack(ack)` has to be there. An event
    is valid until the method returns. docs/write-a-controller.md lists methods and events.
    """

    window: float = 10.0
    """Packets that may be in flight; less than 1 counts as 1."""
    pacing_rate: float | None = None
    """Rate in Mbit/s of payload at which packets leave; None sends as the window allows."""
    timer_s: float | None = None
    """Time of the simulation, s, at which to call `on_timer`, once; None is never."""
    threshold: float | None = None
    """Slow-start threshold in packets, if it has one: proportional rate reduction (RFC 6937) reads it."""
    owns_recovery: ClassVar[bool] = False
    """True if the window alone says what is sent during loss recovery, without proportional rate reduction."""

    mss_bytes: int
    """Payload of a full packet. This and the next three are set before `__init__` is called."""
    initial_window: int
    """Packets that may be sent before the first acknowledgement, of the scenario's flow."""
    weight: float
    """Weight of the scenario's flow."""
    random: random.Random
    """Source of randomness, seeded by the run's seed."""
