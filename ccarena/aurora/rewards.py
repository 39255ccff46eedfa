"""Aurora's reward (its paper, §4.2): 10 throughput - 1000 latency - 2000 loss.

Throughput is in packets/s of 1500 bytes, latency in s, and loss the lost share of packets.
"""

from __future__ import annotations

from ccarena.envs.native_reward import NativeReward


class aurora(NativeReward):  # noqa: N801 - configurations call the reward by this name
    """`throughput` × packets/s - `latency` × mean RTT in s - `loss` × lost share of packets, `[N]`."""

    def __init__(self, throughput: float = 10.0, latency: float = 1000.0, loss: float = 2000.0) -> None:
        super().__init__("aurora", ("throughput_mbps", "rtt_ms", "loss_ratio"), (throughput, latency, loss))
