"""Processor time of a suite's runs, in a file of its own beside their rows: the rows of the same runs are the same
bytes, and times are not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ccarena.core.measurements import Entry, Source
from ccarena.eval.reproduce.runs import Run, perform
from ccarena.eval.reproduce.tables import folder_of
from ccarena.runs import journal
from ccarena.scenarios.backends import SIM

__all__ = ["FILE", "WITH_CUBIC", "append", "entries", "known", "timed", "total_s"]

FILE = "costs.jsonl"
WITH_CUBIC = "with-cubic"
"""Folder within a suite's of the runs with CUBIC in the scheme's place."""
_NAME = "papers/cost"


def timed(run: Run) -> tuple[dict[str, Any], float]:
    """Returns the run's row and the seconds of processor time that it took."""
    began_s = time.process_time()
    return perform(run), time.process_time() - began_s


def append(folder: Path, key: str, seconds: float) -> None:
    """Adds the time of a finished run. A disk that is full costs the time alone: the journal reports it."""
    try:
        with (folder / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "cpu_s": round(seconds, 3)}) + "\n")
    except OSError:
        return


def total_s(folder: Path) -> float | None:
    """Returns the processor time of all runs in the journal in `folder`; None if one of them has none."""
    keys, known = ([*_lines(folder / name)] for name in (journal.FILE, FILE))
    seconds = {line["key"]: float(line["cpu_s"]) for line in known if "cpu_s" in line}
    if not keys or any(line["key"] not in seconds for line in keys):
        return None
    return sum(seconds[line["key"]] for line in keys)


def entries(
    out: Path, finished: Iterable[str], names: Sequence[str], known: Iterable[Entry], source: Source
) -> list[Entry]:
    """Returns entries of docs/measurements.json: the time of each suite in the folder `out` that `finished`.

    Runs with CUBIC are included, and a suite with a run that was not timed is left out. The sum over all suites `names`
    is added once each of them is `known` or measured.
    """
    found = []
    for name in finished:
        folder = folder_of(out, name, SIM)
        folders = [folder, folder / WITH_CUBIC] if (folder / WITH_CUBIC).is_dir() else [folder]
        times = [total_s(one) for one in folders]
        if None not in times:
            found.append(_entry(f"{_NAME}/{name}", name, sum(filter(None, times)), source))
    by_name = {entry.name: entry for entry in [*known, *found]}
    all_of = [by_name[f"{_NAME}/{name}"].value for name in names if f"{_NAME}/{name}" in by_name]
    if found and len(all_of) == len(names):
        found.append(_entry(_NAME, "all suites", sum(map(float, all_of)), source))
    return found


def known(entries: Iterable[Entry]) -> dict[str, float]:
    """Returns the seconds of each suite that measured figures have."""
    start = f"{_NAME}/"
    return {each.name.removeprefix(start): float(each.value) for each in entries if each.name.startswith(start)}


def _entry(name: str, what: str, seconds: float, source: Source) -> Entry:
    return Entry(name, "papers", what, round(seconds, 1), source, unit="s", table="Processor time of the suites")


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    """Returns the objects in a file of JSON lines; a line that a kill has cut is none."""
    if not path.is_file():
        return
    for line in path.read_text("utf-8").splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and "key" in one:
            yield one
