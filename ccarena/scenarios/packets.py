"""Packets of runs at the ends of their flows, as a lean table, and written as Parquet part by part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core.columns import Coded, gathered
from ccarena.core.files import replacing
from ccarena.errors import ConfigError, MissingDependencyError, cannot_write
from ccarena.scenarios.one_run import Run

__all__ = ["FATES", "packets", "parts", "transmissions", "write_parquet"]

FATES = ("under way", "delivered", "marked", "dropped", "lost", "corrupted", "policed")
"""Fates of packets, by the number that the simulator gives them."""


def transmissions(run: Run, flow: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the transmissions of a flow of a run. Raises ConfigError if they were not recorded."""
    if "transmissions" in flow:
        return dict(flow["transmissions"])
    if run.backend != "sim":
        raise ConfigError(
            f"{run.scenario}: packets at the ends of flows are known in the simulator only, not on {run.backend}; "
            "link_packets() has those of the links"
        )
    raise ConfigError(
        f"{run.scenario}: no packets were recorded; run it with packets=True, or with "
        "`record: {transmissions: true}` in the scenario"
    )


def packets(runs: Sequence[Run]) -> dict[str, Any]:
    """Returns the columns of all packets, text as codes (`Coded`)."""
    return gathered(parts(runs))


def parts(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yields the columns of each run's flows; all have the same names behind their codes.

    `bytes` are IP bytes. `one_way_delay_ms` and `queueing_delay_ms` are NaN for packets that did not arrive.
    """
    axes = {axis: list(dict.fromkeys(run.axes[axis] for run in runs)) for run in runs[:1] for axis in run.axes}
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    names = list(dict.fromkeys(flow["name"] for run in runs for flow in run.result["flows"]))
    schemes = list(dict.fromkeys(flow["scheme"] for run in runs for flow in run.result["flows"]))
    seeds = np.min_scalar_type(max((run.seed for run in runs), default=0))
    for run in runs:
        for flow in run.result["flows"]:
            sent = transmissions(run, flow)
            count = len(sent["sent_ns"])
            arrived = sent["arrived_ns"] > 0
            one_way_ms = np.full(count, np.nan)
            one_way_ms[arrived] = (sent["arrived_ns"][arrived] - sent["sent_ns"][arrived]) / 1e6
            yield {
                "scenario": Coded.same(run.scenario, scenarios, count),
                **{axis: Coded.same(run.axes[axis], known, count) for axis, known in axes.items()},
                "seed": np.full(count, run.seed, dtype=seeds),
                "flow": Coded.same(flow["name"], names, count),
                "scheme": Coded.same(flow["scheme"], schemes, count),
                "sequence": sent["sequence"],
                "bytes": sent["bytes"],
                "sent_ns": sent["sent_ns"].view(np.int64),
                "one_way_delay_ms": one_way_ms,
                "queueing_delay_ms": np.where(arrived, sent["queueing_ns"] / 1e6, np.nan).astype(np.float32),
                "fate": Coded(sent["fate"], FATES),
            }


def write_parquet(runs: Sequence[Run], path: str | os.PathLike[str]) -> Path:
    """Writes the packets of each flow and run as a row group, so that neither writing nor reading needs them all in
    memory. Returns the path.

    Raises MissingDependencyError without PyArrow, ConfigError if there are no packets or the file cannot be written.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyarrow", "parquet", "a Parquet file") from error
    target, writer = Path(path), None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            for part in parts(runs):
                table = pa.table({name: _arrow(pa, column) for name, column in part.items()})
                writer = writer or parquet.ParquetWriter(file, table.schema)
                writer.write_table(table)
            if writer is None:
                raise ConfigError("no packets to write: there are no runs")
            writer.close()
    except OSError as error:
        raise cannot_write(target, error) from error
    return target


def _arrow(pa: Any, column: Any) -> Any:
    if isinstance(column, Coded):
        return pa.DictionaryArray.from_arrays(column.codes, pa.array(list(column.names)))
    return pa.array(column)
