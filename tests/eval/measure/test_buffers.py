"""Flows that socket buffers bounded are told."""

from __future__ import annotations

from ccarena.eval.measure.buffers import buffer_notes


def test_a_flow_that_a_buffer_bounds_is_told_by_its_mean_over_runs() -> None:
    def flow(name: str, sender: float | None, receiver: float | None) -> dict[str, object]:
        shares = {"sender_buffer_share": sender, "receiver_buffer_share": receiver}
        return {"name": name, "scheme": "cubic", **{key: share for key, share in shares.items() if share is not None}}

    first = [flow("a", 0.3, 0.0), flow("b", 0.0, 0.12), flow("c", 0.05, 0.09), flow("simulated", None, None)]
    second = [flow("a", 0.1, 0.0), flow("b", 0.0, 0.02), flow("c", 0.05, 0.0), flow("simulated", None, None)]
    (note,) = buffer_notes([*first, *second])
    assert note.startswith("a (cubic): limited by the sender's buffer in at least 20% of its time")
    (note, other) = buffer_notes(first)
    assert "net.ipv4.tcp_wmem" in note and other.startswith(
        "b (cubic): limited by the receiver's buffer in at least 12%"
    )
    assert "net.ipv4.tcp_rmem" in other
