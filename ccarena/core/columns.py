"""Tables as columns: NumPy arrays of one length by name, which pandas, Polars and PyArrow accept.

Results are built as columns. The command line can therefore write CSV files without a data-frame library.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Coded", "Columns", "as_csv", "as_pandas", "as_polars", "gathered", "join", "of_rows"]

Columns = dict[str, NDArray[Any]]
"""Arrays `[rows]` by column name, in the order in which they are shown."""


@dataclass(frozen=True)
class Coded:
    """Column of few different values, as their numbers: one byte a row for up to 256 values."""

    codes: NDArray[np.integer[Any]]
    names: Sequence[Any] | NDArray[Any]
    """Values by code."""
    categorical: bool = True
    """Makes a column of categories in a data frame; if False, a plain one."""

    @classmethod
    def same(cls, value: Any, names: Sequence[Any], count: int) -> Coded:
        """Returns a column of one value, which is among `names`."""
        dtype = np.int8 if len(names) <= 127 else np.int16 if len(names) <= 32767 else np.int32
        return cls(np.full(count, list(names).index(value), dtype=dtype), names)

    def values(self) -> NDArray[Any]:
        """Returns the value of every row."""
        return np.asarray(list(self.names))[self.codes]


def gathered(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Joins tables of the same columns, one below the other; codes keep their names."""
    found = list(parts)
    out: dict[str, Any] = {}
    for name, first in found[0].items() if found else ():
        if isinstance(first, Coded):
            out[name] = replace(first, codes=np.concatenate([part[name].codes for part in found]))
        else:
            out[name] = np.concatenate([part[name] for part in found])
    return out


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Returns the columns of rows, in the order in which keys first appear. A missing value is NaN, or "" in text."""
    names = dict.fromkeys(key for row in rows for key in row)
    return {name: _array([row.get(name) for row in rows]) for name in names}


def join(parts: Iterable[Columns]) -> Columns:
    """Joins tables of the same columns, one below the other; returns no columns if there are no tables."""
    found = list(parts)
    return {name: np.concatenate([part[name] for part in found]) for name in (found[0] if found else {})}


def as_csv(columns: Columns) -> str:
    """Returns the table as CSV with a header; a cell without a finite value is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))
    return text.getvalue()


def _cells(values: NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [cell if math.isfinite(cell) else "" for cell in values.tolist()]
    return list(values.tolist())


def as_pandas(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Returns a pandas data frame, with categories for `Coded` columns.

    Raises MissingDependencyError if pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError.for_extra("pandas", "frames", "a data frame") from error

    def made(column: Any) -> Any:
        if isinstance(column, Coded):
            if column.categorical:
                return pd.Categorical.from_codes(column.codes, pd.Index(list(column.names)))
            return pd.Series(column.names).array.take(column.codes)
        if column.dtype.kind != "U":
            return column
        # Texts follow in long stretches of the same, each of which is converted once.
        starts = np.flatnonzero(np.append(True, column[1:] != column[:-1]))[: column.size]
        return pd.Series(column[starts]).array.repeat(np.diff(starts, append=column.size))

    return pd.DataFrame({name: made(column) for name, column in columns.items()}, copy=False)


def as_polars(columns: Columns) -> pl.DataFrame:
    """Returns a Polars data frame. Raises MissingDependencyError if Polars is not installed."""
    try:
        import polars as pl
    except ImportError as error:
        raise MissingDependencyError.for_extra("polars", "polars", "a Polars data frame") from error
    return pl.DataFrame(columns)


def _array(values: Sequence[Any]) -> NDArray[Any]:
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        return np.asarray(["" if value is None else str(value) for value in values])
    if len(known) < len(values):
        return np.asarray([math.nan if value is None else float(value) for value in values])
    return np.asarray(values)
