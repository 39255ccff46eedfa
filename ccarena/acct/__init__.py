"""Learned scheme ACCT: an agent chooses α, the window's growth per round trip, for each round.

The agent was trained with a different reward in each of four zones: below or above the rate that the network
advertises, and within or over a queueing delay budget.

Source: Kheirkhah, Reis, Yang, Griffin, Rio, "ACCT: An Intelligent Congestion Control Mechanism for Future Internet".
Its spec, its rewards (`rewards`), the zones (`zones`) and its policies are in this folder.
"""

from ccarena.acct.zones import Zone

__all__ = ["Zone"]
