"""Registry of schemes in Python, and descriptions of its entries."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ccarena import _core

__all__ = ["heuristics", "kind_of", "limit_of", "registered", "rule_based"]


@functools.cache
def heuristics() -> tuple[str, ...]:
    """Returns names of the congestion controls that need neither a policy nor a rule file."""
    return tuple(name for name, scheme in registered().items() if not (scheme["learned"] or scheme["rules"]))


@functools.cache
def rule_based() -> tuple[str, ...]:
    """Returns names of the congestion controls that run a rule file."""
    return tuple(name for name, scheme in registered().items() if scheme["rules"])


@functools.cache
def registered() -> Mapping[str, Mapping[str, Any]]:
    """Returns the entries of `_core.schemes`, by name."""
    return {scheme["name"]: scheme for scheme in _core.schemes()}


def kind_of(scheme: dict[str, Any]) -> list[str]:
    """Returns words on how a scheme differs from a plain heuristic; empty if it does not."""
    words = []
    if scheme["learned"]:
        words.append("learned")
    if scheme["rules"]:
        words.append("rule file")
    above = scheme.get("weight_above")
    if above is not None:
        words.append(f"weight > {above:g}")
    if scheme.get("requirement"):
        words.append("requirement")
    if scheme.get("alias_of"):
        words.append(f"as {scheme['alias_of']} at weight 1")
    return words


def limit_of(queue: dict[str, Any]) -> str:
    """Returns the capacity of a queue discipline, in words."""
    limit = queue.get("limit")
    if limit is None:
        return "none"
    if isinstance(limit, dict):
        return ", ".join(f"{name} = {amount:g}" for name, amount in limit.items())
    return f"packets, bytes or bdp ({limit})"
