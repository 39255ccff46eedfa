"""Runs between two network namespaces with the emulator between them: `ccarena fit` finds the link that is there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: runs between namespaces not tested (run make)")

from ccarena.core import programs
from ccarena.eval.measure.table import row
from ccarena.remote import records, token
from ccarena.remote.distance import distances
from ccarena.remote.fit import fit

RATE_MBPS, DELAY_MS, PACKETS = 16.0, 15.0, 60
SECONDS, SCHEMES = 3, ("cubic", "bbr")
COMMAND = [sys.executable, "-m", "ccarena_command"]


QUEUE = {"type": "droptail", "packets": PACKETS}
LINK = {"service": {"type": "constant", "rate_mbps": RATE_MBPS}, "delay_ms": DELAY_MS, "queue": QUEUE}
"""The direction in which the flows go."""
OTHER = {"service": {"type": "constant", "rate_mbps": 3 * RATE_MBPS}, "delay_ms": DELAY_MS, "queue": QUEUE}


def measured(tmp_path: Path, flows: str, entrants: Sequence[str], reverse: bool) -> Path:
    """Returns a folder of runs of `flows`, in YAML, over an emulated link."""
    links = [{**(OTHER if reverse else LINK), "name": "there"}, {**(LINK if reverse else OTHER), "name": "back"}]
    paths = [{"scheme": "cubic", "path": ["there"], "return_path": ["back"]}]
    (tmp_path / "link.json").write_text(json.dumps({"links": links, "flows": paths}))
    (tmp_path / "two.yaml").write_text(f"duration_s: {SECONDS}\nflows: {flows}\n")
    secret = tmp_path / "token.txt"
    token.make(secret)
    server = f"{shlex.join([*COMMAND, 'remote', 'serve', '--token', str(secret)])} --listen $CCARENA_RECEIVER_0:4433"
    run = [*COMMAND, "remote", "run", "$CCARENA_RECEIVER_0", "two.yaml", *entrants, "--token", str(secret)]
    client = " ".join([*run, "--out", str(tmp_path / "out"), *(["--reverse"] if reverse else [])])
    words = [programs.find("ccarena-link"), "emulate", f"--far-command={server}", "link.json", "--", "sh", "-c", client]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=90, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "out"


@pytest.mark.parametrize("reverse", [False, True])
def test_the_link_comes_out_and_the_simulator_is_close(quic: str, tmp_path: Path, reverse: bool) -> None:
    runs = records.load_folder(measured(tmp_path, '[{scheme: "${entrant}"}]', SCHEMES, reverse))
    assert {run.axes["direction"] for run, _ in runs} == {"reverse" if reverse else "forward"}
    assert sorted(run.axes["entrant"] for run, _ in runs) == sorted(SCHEMES)
    for run, _ in runs:
        path = run.result["path"]
        # Both namespaces have one clock, so that the true offset is how far apart the programs started.
        assert path["one_way_ms"] == pytest.approx(DELAY_MS, abs=2)
        assert abs(path["one_way_ms"] - DELAY_MS) <= path["clock_uncertainty_ms"]
        assert path["clock_uncertainty_ms"] == pytest.approx(DELAY_MS, abs=2)
        assert abs(path["clock_drift_ppm"]) < 200
        assert run.result["flows"][0].get("error") is None
    found = fit([run for run, _ in runs])
    assert found.rate_mbps == pytest.approx(RATE_MBPS, rel=0.03) and not found.rate_is_bound
    assert found.rtt_ms == pytest.approx(2 * DELAY_MS, abs=2)
    assert found.buffer_bytes == pytest.approx(PACKETS * 1500, rel=0.15) and not found.buffer_is_bound
    assert found.loss < 0.002 and not found.has_competitors
    rows: list[dict[str, Any]] = distances(found, runs)
    for each in rows:
        if each["figure"] == "throughput_mbps":
            assert each["simulated"] == pytest.approx(each["measured"], rel=0.1), each
        # BBR keeps a longer queue where acknowledgements jitter (docs/fidelity.md).
        if each["figure"] == "queueing_delay_mean_ms" and each["scheme"] == "cubic":
            assert each["simulated"] == pytest.approx(each["measured"], rel=0.25, abs=4), each


@pytest.mark.parametrize("reverse", [False, True])
def test_the_kernels_tcp_and_quic_share_the_link_and_see_the_same_queue(
    quic: str, tmp_path: Path, reverse: bool
) -> None:
    folder = measured(tmp_path, '[{scheme: "kernel:cubic"}, {scheme: cubic}]', [], reverse)
    [(run, _)] = records.load_folder(folder)
    assert [flow.get("error") for flow in run.result["flows"]] == [None, None]
    names = ("throughput_mbps", "queueing_delay_mean_ms", "queueing_delay_p95_ms")
    kernel, own = (row(flow, names) for flow in run.measured().flows)
    rates = [figures["throughput_mbps"] for figures in (kernel, own)]
    assert sum(rates) == pytest.approx(RATE_MBPS, rel=0.1) and min(rates) > 0.15 * RATE_MBPS, rates
    # One has it from its RTTs, the other from each packet.
    for name in names[1:]:
        assert kernel[name] == pytest.approx(own[name], rel=0.25, abs=3), (name, kernel, own)
    flow, other = run.result["flows"]
    assert flow["rtt_min_ms"] == pytest.approx(2 * DELAY_MS, abs=2)
    lost = run.result["links"][0]["losses"]["flow"]
    assert (lost == 0).sum() == flow["lost_packets"] == flow["retransmitted_packets"] > 0
    assert flow["transmissions"]["sent_ns"].size == 0 and other["transmissions"]["sent_ns"].size > 0
