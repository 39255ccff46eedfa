"""Rules of a RemyCC, out of the authors' `.dna` file into the JSON that scheme `remy` runs.

A `.dna` file is a protobuf message `WhiskerTree` (protobufs/dna.proto of github.com/tcpexmachina/remy). Bounds that are
missing in it are those of any memory, as in the authors' `memory.cc`.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.core.protobuf import Message, ProtobufError
from ccarena.core.reader import LARGEST_DOCUMENT_BYTES, read_bytes
from ccarena.errors import PolicyError

__all__ = ["import_rules"]

AXES = ("rec_send_ewma", "rec_rec_ewma", "rtt_ratio", "slow_rec_rec_ewma", "rtt_diff", "queueing_delay")
"""Axes by their number in the file."""
_DEFAULT_AXES = (0, 1, 2, 3)
_LEAST, _MOST = 0.0, 163840.0
_MOST_DEPTH = 50
_MOST_NODES = 20_000
# Numbers of fields in dna.proto.
_DOMAIN, _CHILDREN, _LEAF = 1, 2, 3
_LOWER, _UPPER, _ACTIVE_AXIS = 11, 12, 13
_FIRST_BOUND = 21
_INCREMENT, _MULTIPLE, _INTERSEND = 31, 32, 33


def import_rules(path: Path) -> str:
    """Returns the rules in a `.dna` file, or in a JSON file of rules, as JSON text.

    Raises PolicyError, naming file and fault, if the file is no rule file, or if a memory is left uncovered.
    """
    try:
        data = read_bytes(path, LARGEST_DOCUMENT_BYTES)
    except OSError as error:
        raise PolicyError(f"{path}: cannot read the rules: {error.strerror}") from error
    if data.lstrip()[:1] == b"{":
        text = data.decode("utf-8", "replace")
    else:
        try:
            text = _Reader(Message(data)).json(path.stem)
        except ProtobufError as error:
            raise PolicyError(f"{path}: no rules of a RemyCC: {error}; expected a .dna file, or JSON") from error
    _core.check_rules(text, str(path))
    return text


class _Reader:
    """Reader of a tree: its axes are those of the root."""

    def __init__(self, root: Message) -> None:
        self._root = root
        self._axes = root.message(_DOMAIN).wholes(_ACTIVE_AXIS) or list(_DEFAULT_AXES)
        if not set(self._axes) <= set(range(len(AXES))):
            raise ProtobufError(f"the axes {self._axes[:10]}; expected numbers from 0 to {len(AXES) - 1}")
        self._nodes = self._rules = 0

    def json(self, name: str) -> str:
        axes = [AXES[axis] for axis in self._axes]
        return json.dumps({"name": name, "axes": axes, "tree": self._node(self._root, 0)}, allow_nan=False)

    def _node(self, node: Message, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if depth > _MOST_DEPTH or self._nodes > _MOST_NODES:
            raise ProtobufError(f"more than {_MOST_DEPTH} levels or {_MOST_NODES:,} nodes")
        domain = node.message(_DOMAIN)
        found: dict[str, Any] = {
            "lower": self._bounds(domain.message(_LOWER), _LEAST),
            "upper": self._bounds(domain.message(_UPPER), _MOST),
        }
        children = [self._node(child, depth + 1) for child in node.messages(_CHILDREN)]
        if children:
            return {**found, "children": children}
        if _LEAF not in node:
            raise ProtobufError("a node with neither children nor a rule")
        leaf = node.message(_LEAF)
        rule = {
            "id": self._rules,
            "window_increment": leaf.zigzag(_INCREMENT),
            "window_multiple": _finite(leaf.double(_MULTIPLE)),
            "intersend_ms": _finite(leaf.double(_INTERSEND)),
        }
        self._rules += 1
        return {**found, "leaf": rule}

    def _bounds(self, memory: Message, missing: float) -> list[float]:
        return [_finite(memory.double(_FIRST_BOUND + axis, missing)) for axis in self._axes]


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ProtobufError("a number that is not finite")
    return number
