"""Where runs on recorded traces start."""

from __future__ import annotations

from pathlib import Path

from ccarena.traces.recorded import trace_start_ms


def test_runs_do_not_start_in_an_outage(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("".join(f"{ms}\n" for ms in [*range(1, 2000), *range(98_000, 100_001)]))
    offsets = [trace_start_ms(path, 5.0, seed, 0) for seed in range(1, 20)]
    assert all(offset < 2000 or offset > 93_000 for offset in offsets)
