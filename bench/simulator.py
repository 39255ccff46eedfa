"""The simulator's packets per second, by `crates/ccarena-sim/examples/packets.rs`, which measures without Python.

It is built twice, both times as the extension is: ordinarily, and profile-guided, with counts of the workload that
`make wheel` counts (`bench.guided`: every scheme and queue discipline, traces, many flows). What both are
divided by, the bare event loop, is the ordinary build's in both cases. Targets judge the guided build, as such a
wheel is built; where llvm-profdata is missing, the ordinary one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench import guided
from bench.sheet import Sheet
from ccarena.core.measurements import Ratio, Target
from ccarena.errors import CcarenaError

GROWTH = "How the cost of a packet on a link grows"
SCHEMES = "One flow of each scheme, 100 Mbit/s, 20 ms, 1 BDP of buffer, one core"
GUIDED = "The same, profile-guided as `make wheel` builds it: what targets judge"
EXAMPLE = ("--package", "ccarena-sim", "--example", "packets")


def measure(sheet: Sheet) -> None:
    """Builds and runs the example, guided and not. Raises CcarenaError if that fails."""
    ordinary = guided.build(EXAMPLE, guided.ROOT / "target", {}) / "examples" / "packets"
    judged = _guided()
    add(sheet, _figures(ordinary), judged=judged is None)
    if judged is not None:
        add(sheet, _figures(judged, "--heap", str(ordinary), "--targets"), prefix="guided/", table=GUIDED)


def _guided() -> Path | None:
    """The example, profile-guided; none where the tool for it is missing."""
    try:
        guided.profdata()
    except CcarenaError as error:
        print(f"NOT MEASURED, so that targets judge the ordinary build: the profile-guided one ({error})")
        return None
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts.profdata")
        guided.record_program(counts, EXAMPLE, "examples/packets")
        return guided.build(EXAMPLE, guided.ROOT / "target" / "guided", guided.flags(counts)) / "examples" / "packets"


def _figures(program: Path, *options: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "figures.jsonl")
        # Some of its runs are cut short by the clock, and would take more packets than are allowed by default.
        environment = os.environ | {"CCARENA_LIMITS": "100"}
        command: Sequence[str] = [str(program), "--json", str(lines), *options]
        done = subprocess.run(command, check=False, cwd=guided.ROOT, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise CcarenaError(f"the simulator's benchmark failed with status {done.returncode}; run {program}")
        return lines.read_text("utf-8").splitlines()


def add(sheet: Sheet, lines: Iterable[str], prefix: str = "", table: str = "", judged: bool = True) -> None:
    """Adds the example's figures: a JSON object per line with `name`, `what`, `value`, `unit`, and perhaps `at_least`
    or `at_most`, `scheme`, `growth` and `ratio` with `value`, `of` and perhaps a bound.

    Names get `prefix`. What is in no other table is in `table`. Without `judged` bounds are left out.
    """
    for line in lines:
        figure = json.loads(line)
        ratio = figure.get("ratio")
        sheet.add(
            f"simulator/{prefix}{figure['name']}",
            f"`{figure['scheme']}`" if "scheme" in figure else figure["what"],
            figure["value"],
            figure["unit"],
            _target(figure) if judged else None,
            None if ratio is None else Ratio(ratio["value"], ratio["of"], _target(ratio) if judged else None),
            SCHEMES if "scheme" in figure else GROWTH if "growth" in figure else table,
        )


def _target(fields: dict[str, float]) -> Target | None:
    if "at_least" not in fields and "at_most" not in fields:
        return None
    return Target(fields.get("at_least"), fields.get("at_most"))
