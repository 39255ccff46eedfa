"""The trained policy that a suite's flows of scheme `acct` use, in its scenario `${policy}`: its file and its origin.

A row depends on the policy's content, so that its digest goes into the keys of runs, and not where the file lies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.agents.command import newest_run
from ccarena.errors import PolicyError
from ccarena.eval.command import find_policy
from ccarena.eval.evaluate import POLICY

__all__ = ["NAME", "Policy", "choose", "used"]

NAME = "policy"
CONFIGS = ("acct-wired", "acct")
"""Configurations whose newest run is taken by default, the first that has one: ACCT's was trained on wired links."""

_EXPRESSION = re.compile(r"\$\{[^{}]*\bpolicy\b[^{}]*\}")


@dataclass(frozen=True)
class Policy:
    """A trained policy."""

    file: Path
    sha256: str
    params: Mapping[str, float]
    """Of the scheme, as in training: flows that give none of their own get them."""
    config: str
    """Name of the configuration that trained it."""
    seed: int
    links: tuple[str, ...]
    """Kinds of links that it was trained on."""

    @property
    def mark(self) -> str:
        """What `${policy}` stands for until the run's key is made."""
        return f"sha256:{self.sha256}"

    def placed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The scenario with the policy's file in the place of its mark."""
        flows = []
        for flow in document["flows"]:
            if flow.get("policy") == self.mark:
                flow = {"params": dict(self.params), **flow, "policy": str(self.file)}
            flows.append(flow)
        return {**document, "flows": flows}

    def about(self) -> dict[str, Any]:
        """Its provenance, for claims.json."""
        return {"config": self.config, "seed": self.seed, "links": list(self.links), "sha256": self.sha256}


def used(node: Any) -> bool:
    """Whether an expression in `node`, such as a suite's scenario, names the policy."""
    if isinstance(node, Mapping):
        return any(used(value) for value in node.values())
    if isinstance(node, list):
        return any(used(value) for value in node)
    return isinstance(node, str) and _EXPRESSION.search(node) is not None


def choose(given: str | None) -> Policy:
    """The policy `given` (a file, a run's folder, or the name of a run), or the newest of the default trainings.

    Raises PolicyError, which says how to train one.
    """
    from ccarena.policies import artifact

    if given is not None:
        file = find_policy(given)
    else:
        files = [newest_run(config) / POLICY for config in CONFIGS]
        found = next((path for path in files if path.is_file()), None)
        if found is None:
            raise PolicyError(
                f"no trained policy: neither {' nor '.join(map(str, files))} is there; train one with "
                f"`ccarena train --config {CONFIGS[0]}`, or give one with --policy FILE"
            )
        file = found
    trained = artifact.load(file)
    training: Mapping[str, Any] = trained.training
    env = training.get("env") or {}
    kinds = (env.get("link") or {}).get("kinds") or {}
    return Policy(
        file.resolve(),
        hashlib.sha256(file.read_bytes()).hexdigest(),
        dict(env.get("acct") or {}),
        str(training.get("name") or "unknown"),
        trained.seed,
        tuple(kind for kind, weight in kinds.items() if weight),
    )
