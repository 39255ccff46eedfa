"""Links and entrants of a store that are on this machine, too, so that its runs can be repeated."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ccarena.core.files import digest
from ccarena.errors import CcarenaError
from ccarena.eval.leaderboard.entrants import Ranked, default_schemes, entrants_of, line_up
from ccarena.eval.leaderboard.links import LINK_SETS, MODELS, PRESETS, BoardTrace, Place, traces_of
from ccarena.traces import find

__all__ = ["entrants_here", "place_here"]


def entrants_here(
    named: Iterable[Mapping[str, Any]], rules: Mapping[str, Any], policies: Sequence[str] | None
) -> list[Ranked]:
    """Returns the named entrants that this installation can run; `policies` are files (None: the shipped ones).

    Rules come from the artifacts or from the store: a file from elsewhere could name worse ones.
    """
    rows = list(named)
    schemes = [row["label"] for row in rows if row["kind"] == "scheme"]
    known = [label for label in schemes if label in default_schemes()]
    digests = {row["policy_digest"] for row in rows}
    here = entrants_of(known, policies)
    given = [each for each in here if each.policy_file is None or digest(each.policy_file.read_bytes()) in digests]
    return line_up(given, rules, 1)


def place_here(row: Mapping[str, Any]) -> Place | None:
    """Returns the place that a row of a store names, if its trace is here."""
    trace = _generated().get(row["trace_digest"])
    if trace is None:
        try:
            found = traces_of([str(find(row["trace"]))])
        except CcarenaError:
            return None
        trace = next((each for each in found if each.digest == row["trace_digest"]), None)
    return Place(trace, row["delay_ms"], row["buffer_packets"], row["duration_s"]) if trace is not None else None


@functools.cache
def _generated() -> dict[str, BoardTrace]:
    return {trace.digest: trace for trace in traces_of([PRESETS, MODELS, *LINK_SETS])}
