"""Hyvar's reward, and Orca's, which differs in details only (slides):

    R = ((thr - ε loss) / RTT) / (thr_max / RTT_min)

R is 1 at the highest throughput so far with empty queues. Throughput and loss are rates in one unit, RTT the mean,
thr_max and RTT_min the extremes of the flow so far. The slides do not give ε: 5 is our value. Two options are ours:

- `lately`: thr_max forgets. If capacity varies, the highest throughput of minutes ago says nothing of the present.
- `inference_ms`: an inference has a cost. Otherwise the reasoner asks at its shortest period while there is a queue,
  although the purpose of Hyvar is to ask seldom.
"""

from __future__ import annotations

from ccarena.envs.native_reward import NativeReward


class hyvar(NativeReward):  # noqa: N801 - configurations call the reward by this name
    """((thr - ε loss) / RTT) / (thr_max / RTT_min) - inference_ms / interval, `[N]`; 0 before anything arrives.
    thr and loss are rates, RTT is the mean, and thr_max the flow's highest throughput, with `lately` = 1 of the last 10
    to 15 s.
    """

    def __init__(self, epsilon: float = 5.0, lately: float = 0.0, inference_ms: float = 0.0) -> None:
        highest = "throughput_lately_mbps" if lately >= 0.5 else "throughput_max_mbps"
        columns = ("throughput_mbps", "loss_mbps", highest, "rtt_ms", "rtt_min_ms", "interval_ms")
        super().__init__("hyvar", columns, (epsilon, inference_ms))
