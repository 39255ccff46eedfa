"""The project's measured figures: one committed file, docs/measurements.json, that measuring commands merge into.

`make bench`, `make gain`, `ccarena fidelity --record`, `ccarena eval --record` and `ccarena reproduce --write-docs`
write them; `make measurements` (`bench.page`) renders `docs/measurements.md` and the marked figures of other pages
from them.
Prose holds no measured figure, so that two pages cannot disagree.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ccarena import __version__
from ccarena.core.files import check_file, write_atomically
from ccarena.core.machine import processor, usable_cores
from ccarena.errors import ConfigError

__all__ = [
    *("FILE", "GROUPS", "Entry", "Ratio", "Source", "Target"),
    *("check", "load", "machine", "merge", "source", "version"),
]

FILE = Path("docs", "measurements.json")
"""Path of the repository's measured figures, from its root."""

GROUPS = {
    "simulator": "Simulator",
    "training": "Environments and training",
    "leaderboard": "Leaderboard",
    "realtime": "Real time: the link emulator",
    "bridge": "Kernel bridge",
    "kernel": "Policies inside the kernel",
    "quic": "QUIC",
    "web": "In the browser",
    "fidelity": "Fidelity",
    "learned": "Learned controllers",
    "papers": "Papers",
}
"""Group of an entry and its heading on the page, in the page's order."""


@dataclass(frozen=True)
class Target:
    """Bounds that a figure has to reach; both are None if there is no target."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Returns whether `value` reaches the target."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True)
class Ratio:
    """Ratio of a figure to another of the same run, which depends less on the machine than each of them."""

    value: float
    of: str
    """Name of the figure in the denominator."""
    target: Target | None = None


@dataclass(frozen=True)
class Source:
    """Command, version, date and machine of a measurement."""

    command: str
    version: str
    date: str
    """ISO 8601, a day."""
    machine: dict[str, Any] = field(default_factory=dict)
    """`cpu`, `cores`, `kernel`."""


@dataclass(frozen=True)
class Entry:
    """One figure. `name` identifies it: a later measurement of that name replaces it."""

    name: str
    group: str
    """One of [`GROUPS`]."""
    what: str
    """Description of what was measured, for a reader who has not seen the code."""
    value: float | str
    """Number in `unit`, or a short text if no number fits."""
    source: Source
    unit: str = ""
    target: Target | str | None = None
    ratio: Ratio | None = None
    table: str = ""
    """Heading of the entry's table; empty for the group's own table."""
    case: str = ""
    """Column of that table, such as `seed 1`, if several entries share `what`."""


def source(command: str, date: str) -> Source:
    """Returns a source of this code on this machine; `date` is today (ISO 8601)."""
    return Source(command, version(), date, machine())


def version() -> str:
    """Returns the version and, in a checkout, the commit.

    "-dirty" follows if files have changes, except those in docs/, where measuring commands write.
    """
    root = Path(__file__).parents[2]
    git = ["git", "-C", str(root)]
    if not (root / ".git").exists():
        return __version__
    commit = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    if commit.returncode != 0:
        return __version__
    changes = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!docs"], capture_output=True, check=False)
    return f"{__version__}+{commit.stdout.strip()}{'-dirty' if changes.returncode else ''}"


def machine() -> dict[str, Any]:
    """Returns CPU model, number of cores and kernel version of this machine."""
    return {
        "cpu": processor() or platform.machine(),
        "cores": usable_cores(),
        "kernel": platform.release(),
    }


def load(path: Path) -> list[Entry]:
    """Returns the entries of a file, none if it does not exist. Raises ConfigError if it holds anything else."""
    try:
        document = json.loads(path.read_text("utf-8"))
        sources = [Source(**one) for one in document["sources"]]
        return [_entry(one, sources) for one in document["entries"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the measurements: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{path}: not a file of measurements: {error!r}; expected what `make bench` writes: restore it from git"
        ) from error


def check(path: Path) -> None:
    """Raises ConfigError if `merge` could not change the file: call it before figures are measured."""
    check_file(path)
    load(path)


def merge(path: Path, entries: Iterable[Entry]) -> None:
    """Adds `entries` to the file: an entry with a known name replaces the old one, a new one comes last.

    Raises ConfigError if the file is no such file or cannot be written.
    """
    known = {entry.name: entry for entry in load(path)}
    known |= {entry.name: entry for entry in entries}
    ordered = sorted(known.values(), key=lambda entry: list(GROUPS).index(entry.group))
    sources: list[dict[str, Any]] = []
    for entry in ordered:
        if (one := asdict(entry.source)) not in sources:
            sources.append(one)
    rows = [_plain({**asdict(entry), "source": sources.index(asdict(entry.source))}) for entry in ordered]
    write_atomically(path, f'{{"sources": [\n{_lines(sources)}\n],\n"entries": [\n{_lines(rows)}\n]}}\n')


def _lines(objects: Iterable[dict[str, Any]]) -> str:
    """Writes one line per entry, so that a new measurement is a small, readable difference."""
    return ",\n".join(json.dumps(one, ensure_ascii=False) for one in objects)


def _entry(fields: dict[str, Any], sources: Sequence[Source]) -> Entry:
    fields = dict(fields)
    if fields["group"] not in GROUPS:
        raise ValueError(f"group {fields['group']!r}, expected one of {', '.join(GROUPS)}")
    target, ratio = fields.pop("target", None), fields.pop("ratio", None)
    if ratio is not None:
        bound = ratio.get("target")
        ratio = Ratio(ratio["value"], ratio["of"], None if bound is None else Target(**bound))
    target = Target(**target) if isinstance(target, dict) else target
    return Entry(**{**fields, "source": sources[fields["source"]], "target": target, "ratio": ratio})


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Drops empty fields and rounds numbers to six digits: no measurement is more precise."""
    out: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            value = _plain(value)
        elif isinstance(value, float):
            value = float(f"{value:.6g}")
        if value is not None and value != "":
            out[key] = value
    return out
