"""The leaderboard that this folder's tests share."""

from __future__ import annotations

from ccarena.eval.leaderboard.run import Board

SMALL = Board(
    traces=("presets",),
    schemes=("cubic", "copa", "reno"),
    policies=(),
    buffers_packets=(100,),
    duration_s=2.0,
    seeds=2,
    meeting_seeds=1,
)
