"""Cost of a decision: CPU time of the native code, on the machine that measures.

A scheme decides with every acknowledgement. Its controller is driven through a long flow in its steady state
(crates/ccarena-cc/src/steady_state.rs). The time of `fixed`, which does nothing, is subtracted, so that nothing is left
of a scheme as cheap as reno. A module is measured like a scheme, and a Python class has no cost. A policy decides once
per its clock's interval, and its decision is one run of its network in float32.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ccarena import _core
from ccarena.errors import CcarenaError
from ccarena.eval.leaderboard.entrants import Ranked
from ccarena.policies import artifact
from ccarena.scenarios.scenario import scenario_json

__all__ = ["cpu_ns"]

ACKS, INFERENCES, ROUNDS = 40_000, 2000, 5
"""Numbers per batch of acknowledgements and inferences; and batches, of which the quickest counts, since others may be
disturbed.
"""


def cpu_ns(entrant: Ranked) -> float | None:
    """Returns the CPU time of an entrant's decision, ns; None if it is computed from each link's capacity, or is a
    program of somebody else.
    """
    if entrant.computed or entrant.sender.theirs is not None:
        return None
    if entrant.kind == "policy":
        return _inference_ns(Path(str(entrant.sender.policy)))
    kept = ("scheme", "controller", "params", "weight", "requirement")
    scheme = _document({key: value for key, value in entrant.sender.flow.items() if key in kept})
    nothing = _document({"scheme": "fixed"})
    try:
        # In turns, so that both meet the same machine.
        pairs = [(_acks_ns(scheme), _acks_ns(nothing)) for _ in range(ROUNDS)]
    except CcarenaError:
        return None
    own, empty = (min(each) for each in zip(*pairs, strict=True))
    return max(own - empty, 0.0)


def _document(flow: dict[str, object]) -> str:
    link = {"service": {"type": "constant", "rate_mbps": 100}, "delay_ms": 12}
    return scenario_json({"duration_s": 1, "links": [link], "flows": [flow]})


def _acks_ns(document: str) -> float:
    return _cpu_ns(lambda: _core.drive(document, ACKS)) / ACKS


def _inference_ns(file: Path) -> float:
    policy = _core.Policy(file)
    observations = np.zeros((INFERENCES, artifact.load(file).interface.normalisation.offset.size), np.float32)
    return min(_cpu_ns(lambda: policy.act(observations)) for _ in range(ROUNDS)) / INFERENCES


def _cpu_ns(work: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    work()
    return float(time.thread_time_ns() - begun)
