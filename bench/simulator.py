"""The simulator's packets per second, by `crates/ccarena-sim/examples/bench.rs`, which measures without Python."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.sheet import Sheet
from ccarena.errors import CcarenaError
from ccarena.measurements import Ratio, Target

GROWTH = "How the cost of a packet on a link grows"
SCHEMES = "One flow of each scheme, 100 Mbit/s, 20 ms, 1 BDP of buffer, one core"


def measure(sheet: Sheet) -> None:
    """Builds and runs the example. Raises CcarenaError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "figures.jsonl")
        command = ["cargo", "run", "--release", "-p", "ccarena-sim", "--example", "bench", "--", "--json", str(lines)]
        # Some of its runs are cut short by the clock, and would take more packets than are allowed by default.
        environment = os.environ | {"CCARENA_LIMITS": "100"}
        root = Path(__file__).parents[1]
        done = subprocess.run(command, check=False, cwd=root, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise CcarenaError(
                f"the simulator's benchmark failed with status {done.returncode}; run {' '.join(command[:-2])}"
            )
        add(sheet, lines.read_text("utf-8").splitlines())


def add(sheet: Sheet, lines: Iterable[str]) -> None:
    """Adds the example's figures: a JSON object per line with `name`, `what`, `value`, `unit`, and perhaps `at_least`
    or `at_most`, `scheme`, `growth` and `ratio` with `value`, `of` and perhaps a bound."""
    for line in lines:
        figure = json.loads(line)
        ratio = figure.get("ratio")
        sheet.add(
            f"simulator/{figure['name']}",
            f"`{figure['scheme']}`" if "scheme" in figure else figure["what"],
            figure["value"],
            figure["unit"],
            _target(figure),
            None if ratio is None else Ratio(ratio["value"], ratio["of"], _target(ratio)),
            SCHEMES if "scheme" in figure else GROWTH if "growth" in figure else "",
        )


def _target(fields: dict[str, float]) -> Target | None:
    if "at_least" not in fields and "at_most" not in fields:
        return None
    return Target(fields.get("at_least"), fields.get("at_most"))
