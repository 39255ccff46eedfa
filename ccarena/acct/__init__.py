"""ACCT is a congestion control whose window grows by α per round trip, where a policy chooses α once per round trip. It
is trained with a different reward in each of four zones: below or above the rate that the network advertises, and
within or over a queueing delay budget.

Source: Kheirkhah, Reis, Yang, Griffin, Rio, "ACCT: An Intelligent Congestion Control Mechanism for Future Internet".
The sender itself is a scheme of the native crate; here is what a learner needs: the layout of observations,
reports and actions (`spec`), the rewards (`rewards`) and the zones (`zones`).
"""

from ccarena.acct.rewards import RewardParams, rewards
from ccarena.acct.spec import ACTIONS, OBSERVATION_ID, OBSERVATION_SIZE, REPORT, REPORT_FIELDS, Zone

__all__ = [
    "ACTIONS",
    "OBSERVATION_ID",
    "OBSERVATION_SIZE",
    "REPORT",
    "REPORT_FIELDS",
    "RewardParams",
    "Zone",
    "rewards",
]
