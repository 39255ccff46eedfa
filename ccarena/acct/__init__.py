"""ACCT is a congestion controller whose window grows by α per round trip, α being chosen each round by an agent that
was trained with a different reward in each of four zones: below or above the rate that the network advertises, and
within or over a queueing delay budget.

Source: Kheirkhah, Reis, Yang, Griffin, Rio, "ACCT: An Intelligent Congestion Control Mechanism for Future Internet".
The sender itself is a document of the native crate; here are the rewards (`rewards`) and the zones (`zones`).
"""

from ccarena.acct.zones import Zone

__all__ = ["Zone"]
