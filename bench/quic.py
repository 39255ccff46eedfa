"""QUIC under our controllers: beside the stack's own CUBIC, per acknowledgement, and many connections at once."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from bench.sheet import Sheet
from ccarena.core.measurements import Target
from ccarena.errors import CcarenaError
from ccarena.eval.measure.fairness import jain_index
from ccarena.quic.run import run_scenario

CONNECTIONS = {30: "quic/fairness-30", 100: "quic/fairness"}
"""The number of connections that share a link, and the name of their figure."""


def measure(sheet: Sheet) -> None:
    """Builds and runs `crates/ccarena-quic/examples/transfer.rs`; as root the emulator, too. Raises CcarenaError."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "figures.jsonl")
        # With the profile of `make setup`, which has built the libraries.
        example = ["--profile", "extension", "-p", "ccarena-quic", "--example", "transfer"]
        command = ["cargo", "run", *example, "--", "--json", str(lines)]
        done = subprocess.run(command, check=False, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise CcarenaError(f"QUIC's benchmark failed with status {done.returncode}; run {' '.join(command[:-2])}")
        for line in lines.read_text("utf-8").splitlines():
            figure = json.loads(line)
            bounds = figure.get("at_least"), figure.get("at_most")
            target = None if bounds == (None, None) else Target(*bounds)
            sheet.add(f"quic/{figure['name']}", figure["what"], figure["value"], figure["unit"], target)
    if os.geteuid() == 0:
        fairness(sheet)
    else:
        print("NOT MEASURED without root: QUIC over the emulated link (python -m bench --only quic)")


def fairness(sheet: Sheet, seconds: float = 15.0, runs: int = 3) -> None:
    """Measures how fairly connections share a link under CUBIC: the median of `runs`."""
    queue = {"type": "droptail", "packets": 333}
    link = {"service": {"type": "constant", "rate_mbps": 200}, "queue": queue, "delay_ms": 10}
    for count, name in CONNECTIONS.items():
        flow = {"name": "flow", "scheme": "cubic", "count": count}
        document = {"duration_s": seconds, "links": [link], "flows": [flow]}
        results = [run_scenario(document) for _ in range(runs)]
        index = median(jain_index([flow["delivered_bytes"] for flow in each["flows"]]) for each in results)
        what = f"{count} connections at once under CUBIC, 200 Mbit/s, 20 ms, 1 BDP: Jain's index of their goodput"
        sheet.add(name, what, index, target=Target(at_least=0.95))
