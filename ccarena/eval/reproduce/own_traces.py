"""Suite over the traces that a user names, instead of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena.errors import ConfigError
from ccarena.traces.given import GivenTrace

__all__ = ["AXIS", "over", "takes"]

AXIS = "trace"
"""Axis of a suite's recorded links: names to mappings with the `file` that the scenario's `service` has."""


def takes(sweep: Mapping[str, Any]) -> bool:
    """Returns whether a suite's `sweep` has such an axis."""
    axis = sweep.get(AXIS)
    return isinstance(axis, Mapping) and all(isinstance(value, Mapping) and "file" in value for value in axis.values())


def over(data: Mapping[str, Any], traces: Sequence[GivenTrace], source: str) -> dict[str, Any]:
    """Returns the suite `data` with `traces` as its axis; claims about single recordings of its own are left out.

    Raises ConfigError for a suite without recorded links, and for a trace with one for acknowledgements.
    """
    if not takes(data.get("sweep") or {}):
        raise ConfigError(f"{source}: --traces has no effect: the suite has no recorded links")
    if paired := [trace.name for trace in traces if trace.back is not None]:
        raise ConfigError(
            f"--traces: {paired[0]} has a trace for acknowledgements; suites send them over a link without limit, so "
            "leave it out"
        )
    own = next(iter(data["sweep"][AXIS].values()))
    sweep = {**data["sweep"], AXIS: {trace.name: {**own, "file": str(trace.file.resolve())} for trace in traces}}
    claims = [claim for claim in data.get("claims") or [] if not _names_recordings(claim)]
    said = f"over traces that were named ({', '.join(trace.name for trace in traces)}), not those of the suite"
    if left_out := len(data.get("claims") or []) - len(claims):
        said += f"; {left_out} of its claims are about single recordings of its own, and left out"
    quick = dict(data.get("quick") or {})
    quick["sweep"] = {axis: kept for axis, kept in (quick.get("sweep") or {}).items() if axis != AXIS}
    return {**data, "sweep": sweep, "claims": claims, "quick": quick, "conditions": [*data.get("conditions", []), said]}


def _names_recordings(node: Any) -> bool:
    if isinstance(node, Mapping):
        where = node.get("where")
        return (isinstance(where, Mapping) and AXIS in where) or any(map(_names_recordings, node.values()))
    return isinstance(node, list) and any(map(_names_recordings, node))
