"""Real-time media and adaptive video: their figures from known frames and chunks, and from links that stall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: applications are not tested (run make)")

import ccarena
from ccarena.eval.measure import table
from ccarena.eval.measure.applications import APPLICATIONS
from ccarena.eval.measure.record import Record
from ccarena.scenarios.tables import application_tables

STEADY: dict[str, Any] = {"type": "constant", "rate_mbps": 3}
STALLS: dict[str, Any] = {
    "type": "steps",
    "steps": [{"at_s": 0, "rate_mbps": 3}, {"at_s": 2, "rate_mbps": 0.01}, {"at_s": 3, "rate_mbps": 3}],
}


def run(app: dict[str, Any], service: dict[str, Any] = STEADY, seconds: float = 6.0) -> ccarena.Results:
    link = {"service": service, "delay_ms": 20, "queue": {"type": "droptail", "packets": 60}}
    document = {"duration_s": seconds, "links": [link], "flows": [{"scheme": "cubic", "app": app}]}
    return ccarena.run(document)


def figures(results: ccarena.Results, application: dict[str, list[float]] | None = None) -> dict[str, float]:
    """Returns the figures of the only flow's application, of other frames or chunks if they are given."""
    result = {**results[0].result}
    if application is not None:
        result["flows"] = [{**result["flows"][0], "application": application}]
    (subject,) = Record(results[0].document, result).flows
    return {name: table.value(subject, name) for name in APPLICATIONS if name.startswith(("media", "video"))}


def test_media_figures_are_those_of_its_frames() -> None:
    """Frames at 10 Hz over 2 s, with a playout delay of 200 ms: one is late, one skipped, one on its way at the end."""
    captured = [0.1 * k for k in range(20)]
    size = [1000.0] * 20
    size[3] = 0.0
    arrived = [at + 0.05 for at in captured]
    arrived[8] = captured[8] + 0.7  # in order, so that those behind it come with it
    arrived[9:15] = [arrived[8]] * 6
    arrived[19] = -1.0
    of_sent = [at for at, bytes_ in zip(arrived, size, strict=True) if bytes_]
    found = figures(
        run({"type": "media", "fps": 10, "playout_ms": 200}, seconds=2),
        {"captured_s": captured, "frame_bytes": size, "arrived_s": of_sent},
    )
    assert found["media_delay_p50_ms"] == pytest.approx(50)
    assert found["media_delay_p99_ms"] == pytest.approx(700, rel=0.1)
    # Those captured at 0.8 to 1.2 s miss 200 ms, and the skipped one; the last to be judged is that of 1.8 s.
    assert found["media_late"] == pytest.approx(6 / 19)
    # Shown at 0.9 s and then at 1.5 s: more than 3 * 100 ms.
    assert found["media_freezes"] == 1
    assert found["media_freeze_share"] == pytest.approx(0.6 / 2)
    assert found["media_mbps"] == pytest.approx(18 * 1000 * 8 / 2 / 1e6)


def test_video_figures_are_those_of_its_chunks() -> None:
    app = {"type": "video", "ladder_mbps": [1, 4], "chunk_s": 1, "buffer_s": 5}
    chunks = {
        "chunk_mbps": [1.0, 4.0, 1.0],
        "chunk_arrived_s": [0.5, 1.0, 3.0],
        "chunk_took_s": [0.5, 0.5, 2.0],
        "stalled_s": [0.0, 0.0, 0.5],
    }
    found = figures(run(app, seconds=6), chunks)
    assert found["video_mbps"] == 2 and found["video_startup_s"] == 0.5 and found["video_switches"] == 2
    # 0.5 s before the third chunk, which lasts until 4 s; then nothing comes until the end.
    assert found["video_rebuffering_s"] == pytest.approx(0.5 + 2.0)
    assert found["video_qoe"] == pytest.approx((6 - 6 - 4 * 3.0) / 3)
    never = figures(run(app, seconds=6), {name: [] for name in chunks})
    assert never["video_startup_s"] == 6 and never["video_qoe"] == -24 and np.isnan(never["video_mbps"])


def test_a_link_that_stalls_freezes_the_picture() -> None:
    steady, stalls = (figures(run({"type": "media"}, service)) for service in (STEADY, STALLS))
    assert steady["media_late"] < 0.01 and steady["media_freezes"] == 0
    assert steady["media_delay_p95_ms"] < 100
    # It stands still for the second, and may again while the queue drains.
    assert 1 <= stalls["media_freezes"] <= 3 and 0.9 < stalls["media_freeze_share"] * 6 < 2.0
    assert 0.1 < stalls["media_late"] < 0.4 and stalls["media_delay_p99_ms"] > 150


def test_a_link_below_the_ladder_rebuffers() -> None:
    app = {"type": "video", "ladder_mbps": [2], "chunk_s": 1, "buffer_s": 4}
    steady = figures(run(app))
    slow = figures(run(app, {"type": "constant", "rate_mbps": 1}))
    assert steady["video_rebuffering_s"] == 0 and steady["video_qoe"] > 1
    # Half of what is played is there; the first chunk takes 2 s.
    assert 1.5 < slow["video_rebuffering_s"] < 3 and slow["video_qoe"] < 0


def test_arrivals_agree_with_completion_and_repeat() -> None:
    """A frame is there after the propagation delay and the sending of its bytes, and not before."""
    results, again = run({"type": "media", "key_every_s": 1}), run({"type": "media", "key_every_s": 1})
    application = results[0].result["flows"][0]["application"]
    assert application == again[0].result["flows"][0]["application"]
    captured, size = (np.asarray(application[name]) for name in ("captured_s", "frame_bytes"))
    arrived = np.asarray(application["arrived_s"])
    sent = np.flatnonzero(size)[arrived >= 0]
    least = 0.02 + size[sent] * 8 / 3e6
    assert np.all(arrived[arrived >= 0] - captured[sent] >= least - 1e-9)
    assert size.sum() >= results[0].result["flows"][0]["delivered_bytes"] >= size[sent].sum()


def test_tables_show_the_figures_of_each_flow() -> None:
    link = {"service": STEADY, "delay_ms": 20}
    flows = [{"scheme": "cubic", "app": {"type": "media"}}, {"scheme": "cubic", "app": {"type": "video", "chunk_s": 1}}]
    results = ccarena.run({"duration_s": 4, "links": [link], "flows": flows})
    [(media, [media_row]), (video, [video_row])] = application_tables(results.runs)
    assert media[0] == "flow" and any("Media delay" in head for head in media) and media_row[0] == "flow0"
    assert any("QoE" in head for head in video) and video_row[0] == "flow1"
    assert not any(name.startswith("fct") for name in results.columns("flows"))
