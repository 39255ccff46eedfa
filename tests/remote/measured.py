"""Runs as `ccarena remote run` measures them, made by the simulator on a link that is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ccarena.remote.run import PATH
from ccarena.scenarios.backends import REMOTE, simulate
from ccarena.scenarios.one_run import Run, checked


def measured(link: dict[str, Any], *flows: dict[str, Any], seconds: float = 10.0, hidden: int = 0) -> Run:
    """A run of `flows` on `link` as both ends of a path see it; the last `hidden` flows are somebody else's."""
    document = {"duration_s": seconds, "links": [{**link, "name": PATH}], "flows": list(flows)}
    record = {"packets": True, "series": True, "transmissions": True}
    result = simulate({**document, "record": record})
    own = len(flows) - hidden
    [there] = result["links"]
    rows = there["log"]["flow"] < own
    log = {name: values[rows] for name, values in there["log"].items()}
    # Two ends know when a packet left and came, so that the least way counts as no queue.
    ways_ns = log["departure_ns"] - log["arrival_ns"]
    log["departure_ns"] = log["departure_ns"] - (ways_ns.min() if ways_ns.size else ways_ns.dtype.type(0))
    log["serialisation_ns"] = np.zeros_like(log["serialisation_ns"])
    gone = [there[kind] for kind in ("drops", "losses")]
    times, of = (np.concatenate([each[name] for each in gone]) for name in ("time_ns", "flow"))
    losses = {"time_ns": times[of < own], "flow": of[of < own]}
    drops = {name: values[:0] for name, values in there["drops"].items()}
    seen = {**there, "log": log, "losses": losses, "drops": drops, "capacity_bytes": 0}
    seen["capacity_mbps"] = np.full_like(there["capacity_mbps"], np.nan)
    delay_ms = float(link.get("delay_ms", 10))
    path = {"remote": "192.0.2.1:4433", "one_way_ms": delay_ms, "clock_offset_ms": 3.0}
    path |= {"clock_uncertainty_ms": delay_ms, "clock_drift_ppm": 1.0}
    result = {**result, "links": [seen], "flows": result["flows"][:own], "path": path}
    given = {**document, "flows": list(flows[:own])}
    return Run("path.yaml", 1, REMOTE.name, checked({**given, "record": record}), result, {})
