"""Text of `ccarena policy show`: the facts of an artifact, for people.

The texts may come from a stranger; the printing code escapes them (`ccarena.core.terminal.visible`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ccarena import _core
from ccarena.core.terminal import visible
from ccarena.policies.answers import of_evaluation
from ccarena.policies.artifact import Artifact
from ccarena.policies.baseline_rule import best_of
from ccarena.policies.interface import said
from ccarena.policies.spec import Spec
from ccarena.policies.trained_by import rule_of

__all__ = ["COLUMNS", "facts", "page", "results", "verdict_of"]

COLUMNS = 80
_LABEL = 12
_MOST_LINES = 6
"""Most lines of one fact; longer ones are cut, and --json has them whole."""
_MOST_GROUPS = 12
"""Most kinds of links in the table of results."""
FIGURES = {
    "throughput_mbps": "Mbit/s",
    "utilisation": "utilisation",
    "queueing_delay_mean_ms": "mean queue ms",
    "queueing_delay_p95_ms": "p95 queue ms",
    "loss_share": "loss",
}
"""Figures of the table of results, and their headings."""
_SIZED = ("linear", "conv1d", "gru", "lstm", "embedding")


def page(policy: Artifact) -> str:
    """Returns the facts of `policy` in lines of at most `COLUMNS` characters."""
    lines: list[str] = []
    for name, fact in facts(policy).items():
        wrapped = textwrap.wrap(visible(fact), COLUMNS - _LABEL, break_on_hyphens=False) or ["none"]
        if len(wrapped) > _MOST_LINES:
            wrapped = [*wrapped[: _MOST_LINES - 1], "... (--json has all)"]
        lines += [f"{name if at == 0 else '':{_LABEL}}{line}" for at, line in enumerate(wrapped)]
    return "\n".join(lines)


def facts(policy: Artifact) -> dict[str, str]:
    """Returns the facts of `policy`, the most important first."""
    spec = Spec.of(_core.learned(policy.interface.spec))
    rule = rule_of(policy)
    return {
        "scheme": f"{spec.name}, spec {spec.digest}",
        "signals": _signals(spec),
        "action": _action(policy, spec),
        "network": _network(policy),
        "parameters": _params(policy, spec),
        "rule" if rule else "trained": rule or _trained(policy),
        "on": _sources(policy),
        "software": ", ".join(f"{name} {version}" for name, version in policy.versions.items()),
        **verdict_of(policy.evaluation),
        "best rule": _best_rule(policy),
        "tested": f"held-out links opened for it: {policy.tests} time{'s' if policy.tests != 1 else ''}",
    }


def results(policy: Artifact) -> tuple[list[str], list[list[str]]]:
    """Returns heading and rows of its means on held-out links; no rows if it was not evaluated."""
    means, own = policy.evaluation.get("means", {}), str(policy.spec.get("name"))
    verdict = policy.evaluation.get("verdict")
    beside = str(verdict.get("baseline", "")) if isinstance(verdict, Mapping) else ""
    rows = []
    for group, schemes in list(means.items())[:_MOST_GROUPS]:
        for scheme in (own, beside):
            if scheme in schemes:
                figures = [_shown(schemes[scheme].get(name)) for name in FIGURES]
                rows.append([str(group)[: _LABEL * 2], scheme[:_LABEL], *figures])
    return ["links", "scheme", *FIGURES.values()], rows


def verdict_of(evaluation: Mapping[str, Any]) -> dict[str, str]:
    """Returns the answers of an artifact's `evaluation` in words, by the name of their row."""
    answers = of_evaluation(evaluation)
    names = ("learned", "simple rule")
    return dict.fromkeys(names, "not evaluated") | {n: a.sentence for n, a in zip(names, answers, strict=False)}


def _signals(spec: Spec) -> str:
    named = []
    for entry in spec.observation:
        length = f" ×{entry.length}" if entry.length > 1 else ""
        named.append(f"{entry.name}{length}{f' ({entry.unit})' if entry.unit not in ('', '1') else ''}")
    return f"{spec.size} numbers: {', '.join(named)}"


def _action(policy: Artifact, spec: Spec) -> str:
    kind = ", ".join(spec.actuators)
    if policy.interface.bounds is not None:
        return f"{kind}, any from {said(policy.interface.bounds)}"
    names = spec.action_names
    return f"{kind}, one of {len(names)}: {', '.join(name.replace(', ', ' & ') for name in names)}"


def _network(policy: Artifact) -> str:
    shapes, layers = policy.graph.shapes(), []
    for node in policy.graph.nodes:
        size = f" {shapes[node.name][-1]}" if node.op in _SIZED and shapes[node.name] else ""
        layers.append(f"{node.op}{size}")
    grouped = [(layer, len(list(same))) for layer, same in groupby(layers)]
    listed = ", ".join(f"{layer} (×{count})" if count > 1 else layer for layer, count in grouped)
    weights = sum(tensor.size for tensor in policy.graph.tensors.values())
    memory = f", {policy.graph.state_len} numbers remembered" if policy.graph.state_len else ""
    return f"{weights:,} weights{memory}: {listed}"


def _params(policy: Artifact, spec: Spec) -> str:
    others = {name: value for name, value in policy.params.items() if value != spec.params.get(name)}
    return ", ".join(f"{name} {value:g}" for name, value in others.items()) or "the spec's defaults"


def _trained(policy: Artifact) -> str:
    training = policy.training
    if "imported" in training:
        return f"imported: {training['imported']}, {training.get('source')}; licence: {training.get('licence')}"
    algorithm = training.get("algorithm")
    algorithm = algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm
    total = training.get("total_decisions", training.get("decisions"))
    words = [
        f"configuration {training['name']}" if isinstance(training.get("name"), str) else "no configuration named",
        *([str(algorithm)] if algorithm is not None else []),
        *([f"{total:,} decisions"] if isinstance(total, int) else []),
        f"seed {policy.seed}",
    ]
    return ", ".join(words)


def _sources(policy: Artifact) -> str:
    by_kind: dict[str, list[str]] = {}
    for each in policy.trained_on:
        by_kind.setdefault(each["kind"], []).append(each["name"])
    listed = [
        f"{len(names)} {kind}{'s' if len(names) > 1 else ''} ({', '.join(names)})" for kind, names in by_kind.items()
    ]
    return "; ".join(listed) or "not said"


def _best_rule(policy: Artifact) -> str:
    best = best_of(policy.rules)
    return "not searched" if best is None else f"{best['label']} (score {best['score']:.4g} on training links)"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else ""
