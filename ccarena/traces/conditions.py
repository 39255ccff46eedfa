"""Conditions traces: rate, one-way delay and loss of a link by time, in one table (docs/traces.md).

The native code reads the CSV form. A Parquet file is written as CSV once, into the user's cache, under its digest.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.core.files import digest
from ccarena.core.reader import LARGEST_TRACE_BYTES, read_bytes
from ccarena.errors import MissingDependencyError, TraceError, cannot_write
from ccarena.traces import files

__all__ = ["VALUES", "Conditions", "complete", "csv_file", "is_conditions", "load", "write"]

VALUES = ("rate_mbps", "delay_ms", "loss")
"""Columns beside `time_ms`."""

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Conditions:
    """A conditions trace, read and checked."""

    period_ms: float | None
    """Time after which the trace repeats; None if one row holds for ever."""
    columns: Mapping[str, Floats]
    """Columns by name, of `VALUES`: rows (time in ms, value), each from its time on. Repeated values are left out."""

    @property
    def least_delay_ms(self) -> float | None:
        """The least one-way delay; None of a trace without delays."""
        delays = self.columns.get("delay_ms")
        return None if delays is None else float(delays[:, 1].min())

    def mean(self, column: str) -> float:
        """Returns the mean of a column over a pass."""
        values, spans_ms = self.weighted(column)
        return float(np.average(values, weights=spans_ms))

    def weighted(self, column: str) -> tuple[Floats, Floats]:
        """Returns the values of a column, and the milliseconds of a pass for which each holds (1 if for ever)."""
        times, values = self.columns[column].T
        return values, np.diff(times, append=self.period_ms or 1.0)


def load(path: str | os.PathLike[str]) -> Conditions:
    """Reads a conditions trace, CSV or Parquet, by path or name.

    Raises TraceError with file, line and expectation, MissingDependencyError for Parquet without its package.
    """
    file = csv_file(files.find(path))
    read = dict(_core.read_conditions(file))
    return Conditions(read.pop("period_ms"), read)


def complete(link: dict[str, Any], folder: Path = Path()) -> None:
    """Fills in what a scenario's link with `conditions` has from the trace, in place.

    The file is looked up in `folder`, then by name. Unless the link has them, `service` is that of the trace, and
    `delay_ms`, to which base RTTs refer, its least delay. Raises TraceError.
    """
    given = link.get("conditions")
    if isinstance(given, dict) and "model" in given and link.get("service") is None:
        link["service"] = {"type": "conditions"}
    if not isinstance(given, dict) or not isinstance(given.get("file"), str):
        return  # for the validation to refuse by its path
    beside = folder / given["file"]
    given["file"] = str(csv_file(beside if beside.is_file() else files.find(given["file"])))
    trace = load(given["file"])
    if link.get("service") is None:
        link["service"] = {"type": "conditions"}
    if trace.least_delay_ms is not None and link.get("delay_ms") is None:
        link["delay_ms"] = trace.least_delay_ms


def is_conditions(path: Path) -> bool:
    """Returns whether a file begins as a conditions trace does; its rows may still be faulty."""
    try:
        if path.suffix == ".parquet" or not path.is_file():
            return path.suffix == ".parquet"
        with path.open("rb") as file:
            names = file.read(200).split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip().split(",")
    except OSError:
        return False
    return "time_ms" in (found := {name.strip() for name in names}) and bool(found & set(VALUES))


def write(path: str | os.PathLike[str], time_ms: ArrayLike, **values: ArrayLike) -> Path:
    """Writes a conditions trace as CSV, atomically, and returns its path.

    `values` are arrays called as in `VALUES`, as long as `time_ms`. Raises TraceError for what is no conditions trace.
    """
    path = Path(path)
    columns = [np.asarray(column, dtype=np.float64).tolist() for column in (time_ms, *values.values())]
    rows = "".join(",".join(map(_text, row)) + "\n" for row in zip(*columns, strict=True))
    text = ",".join(("time_ms", *values)) + "\n" + rows
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        try:
            _core.read_conditions(part)  # what cannot be read is not written
            os.replace(part, path)
        except TraceError as error:
            raise TraceError(str(error).replace(str(part), str(path))) from error
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error, what="the conditions trace") from error
    return path


def _text(value: float) -> str:
    return f"{value:.9g}" if value < 1e6 else f"{value:.6f}".rstrip("0").rstrip(".")


def csv_file(path: Path) -> Path:
    """Returns the CSV file of a conditions trace: the file itself, or the cached CSV of a Parquet file."""
    if path.suffix != ".parquet":
        return path
    try:
        data = read_bytes(path, LARGEST_TRACE_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}; expected a readable file") from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ccarena" / "conditions"
    file = cache / f"{path.stem}-{digest(data)[:16]}.csv"
    if not file.is_file():
        columns = _parquet(path)
        try:
            write(file, columns.pop("time_ms"), **columns)
        except TraceError as error:
            raise TraceError(str(error).replace(str(file), str(path))) from error
    return file


def _parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyarrow", "parquet", "a Parquet file") from error
    expected = f"expected columns of numbers: time_ms and any of {', '.join(VALUES)}"
    try:
        table = parquet.read_table(path)
        columns = {name: table.column(name).to_numpy().astype(np.float64) for name in table.column_names}
    except (ArrowException, TypeError, ValueError) as error:
        raise TraceError(f"{path}: {str(error).splitlines()[0]}; {expected}") from error
    if "time_ms" not in columns:
        raise TraceError(f"{path}: there is no column time_ms; {expected}")
    return columns
