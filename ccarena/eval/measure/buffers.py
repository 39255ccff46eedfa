"""Notes on flows that socket buffers bounded, and not their congestion control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ccarena.eval.measure.sample import confidence_interval

__all__ = ["NOTABLE", "SHARES", "buffer_notes"]

SHARES = {
    "sender_buffer_share": ("sender's", "net.ipv4.tcp_wmem"),
    "receiver_buffer_share": ("receiver's", "net.ipv4.tcp_rmem"),
}
"""Keys in a flow's result on kernel TCP, with whose buffer it is and the setting that bounds it."""
NOTABLE = 0.1
"""Share of the time with data from which a reader is told, as in the emulator's summary (`shells/connections.rs`)."""


def buffer_notes(flows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a note for each flow and buffer whose mean share over runs is notable, from the flows of each run."""
    shares: dict[tuple[str, str], list[float]] = {}
    for flow in flows:
        for key in SHARES:
            if flow.get(key) is not None:
                shares.setdefault((f"{flow['name']} ({flow['scheme']})", key), []).append(flow[key])
    means = {of: confidence_interval(values).mean for of, values in shares.items()}
    return [
        f"{label}: limited by the {SHARES[key][0]} buffer in at least {mean:.0%} of its time, not by its congestion "
        f"control; a larger {SHARES[key][1]} on this machine lets its window grow"
        for (label, key), mean in means.items()
        if mean >= NOTABLE
    ]
