"""Card of a policy: a page of Markdown, generated from its artifact alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena.configs.load import load_config, shipped
from ccarena.policies.about import verdict_of
from ccarena.policies.artifact import Artifact
from ccarena.policies.curve import COLUMNS, Curve, points_of
from ccarena.policies.trained_by import rule_of

__all__ = ["FIGURES", "card"]

_CURVE_ROWS = 10
FIGURES = {
    "throughput_mbps": "throughput, Mbit/s",
    "utilisation": "utilisation",
    "queueing_delay_mean_ms": "mean queueing delay, ms",
    "queueing_delay_p95_ms": "p95 queueing delay, ms",
    "loss_share": "loss",
}


def card(policy: Artifact, name: str, further: Mapping[str, Any] | None = None) -> str:
    """Returns the card of a policy in Markdown. Every figure comes from the evaluation in the artifact.

    `further`: `meta` and `means` of an evaluation of several policies on other links, where this one is called `name`,
    and `certificates`, by the same name for artifacts that hold none.
    """
    training, evaluation = policy.training, policy.evaluation
    weights = sum(tensor.size for tensor in policy.graph.tensors.values())
    command, rule = f"`{_command(training)}`", rule_of(policy)
    learned = [
        ("trained by", f"{command}, algorithm {_algorithm(training)}"),
        ("decisions", _decisions(training)),
        ("seed", str(policy.seed)),
    ]
    about = [
        ("scheme", f"{policy.spec.get('name')}, spec {policy.interface.digest}"),
        *([("rule", f"{rule}; the best without learning on the training links of {command}")] if rule else learned),
        ("network", f"{weights:,} weights, {policy.graph.state_len} numbers remembered"),
        ("versions", ", ".join(f"{package} {version}" for package, version in policy.versions.items())),
        *verdict_of(evaluation).items(),
    ]
    on = [f"- {each.get('kind')} {each.get('name')} ({each.get('digest')})" for each in policy.trained_on]
    parts = [
        f"# {name}",
        "<!-- Generated from the artifact by ccarena.policies.card; not to be edited. -->",
        "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in about)]),
        "## Chosen on" if rule else "## Trained on",
        "\n".join(on) or "Not said.",
        *([] if rule else ["## Learning curve", _curve(policy.curve)]),
        "## Evaluation",
        _means(policy, evaluation),
        *(["## Links of today", _further(name, further)] if further else []),
        *_certified(policy.certificate or (further or {}).get("certificates", {}).get(name) or []),
        "## Limits",
        "\n".join(_limits(policy, evaluation)),
    ]
    return "\n\n".join(parts) + "\n"


def _algorithm(training: Mapping[str, Any]) -> str:
    algorithm = training.get("algorithm")
    return str(algorithm.get("name")) if isinstance(algorithm, Mapping) else str(algorithm)


def _command(training: Mapping[str, Any]) -> str:
    total, whole = training.get("total_decisions"), _planned(training)
    return f"ccarena train --config {training.get('name')}" + (f" --total_decisions {total}" if total != whole else "")


def _decisions(training: Mapping[str, Any]) -> str:
    total, whole = training.get("total_decisions", training.get("decisions")), _planned(training)
    if not isinstance(total, int):
        return "not said"
    return f"{total:,}" + (f"; the configuration has {whole:,}" if isinstance(whole, int) and total != whole else "")


def _planned(training: Mapping[str, Any]) -> Any:
    """Returns the decisions in the shipped configuration of that name; those of the training if there is none."""
    name, total = training.get("name"), training.get("total_decisions")
    return load_config(str(name)).total_decisions if name in shipped() and total is not None else total


def _curve(curve: Curve) -> str:
    if not curve:
        return "The artifact holds none: versions of before kept it in the run's folder alone."
    points = points_of(curve)
    some = points[:: max(1, -(-len(points) // _CURVE_ROWS))]
    some += points[-1:] if some[-1] is not points[-1] else []
    cells = [[f"{x:,.0f}" if name == "decisions" else _shown(x) for name, x in point.items()] for point in some]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    head = f"| {' | '.join(COLUMNS[name] for name in curve)} |"
    return "\n".join([head, "|" + "---|" * len(curve), *rows])


def _means(policy: Artifact, evaluation: Mapping[str, Any]) -> str:
    means = evaluation.get("means") or {}
    if not means:
        return "None."
    lines = [
        "Means over held-out links and seeds.",
        "",
        f"| links | scheme | {' | '.join(FIGURES.values())} |",
        "|---|---|" + "---|" * len(FIGURES),
    ]
    return "\n".join([*lines, *_rows(means, str(policy.spec.get("name")))])


def _rows(means: Mapping[str, Any], own: str) -> list[str]:
    lines = []
    for group, schemes in means.items():
        for scheme, figures in schemes.items():
            row = " | ".join(_shown(figures.get(figure)) for figure in FIGURES)
            label = f"**{scheme}**" if scheme == own else scheme
            lines.append(f"| {group} | {label} | {row} |")
    return lines


def _further(name: str, evaluation: Mapping[str, Any]) -> str:
    """Returns the table of an evaluation on other links: the policy, its rule and the heuristics."""
    meta, means = evaluation["meta"], evaluation["means"]
    beside = {name, f"{name}-table", *meta["schemes"]}
    shown = {
        group: {scheme: figures for scheme, figures in schemes.items() if scheme in beside}
        for group, schemes in means.items()
    }
    return "\n".join(
        [
            f"Link sets {', '.join(meta['link_sets'])}; {meta['seeds']} seeds of {meta['duration_s']:g} s; the policy "
            "was trained on none of them.",
            "",
            f"| links | scheme | {' | '.join(FIGURES.values())} |",
            "|---|---|" + "---|" * len(FIGURES),
            *_rows(shown, name),
        ]
    )


def _certified(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the section on properties that were proved or refuted; nothing if none was asked."""
    if not answers:
        return []
    rows = [
        f"| {each['name']} | {each['form']} | {each['state']} | {each['holds']:.1%} | {each['violated']:.1%} | "
        f"{each['boxes']:,} |"
        for each in answers
    ]
    head = "| property | form | state | holds | violated | boxes |\n|---|---|---|---|---|---|"
    text = (
        "Answers of `ccarena certify` (docs/certify.md), the proved shares of each property's box, and the boxes into "
        "which it was split. More boxes can decide more."
    )
    return ["## Certificate", text, "\n".join([head, *rows])]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else ""


def _limits(policy: Artifact, evaluation: Mapping[str, Any]) -> list[str]:
    """Returns the policy's limits, according to its own evaluation."""
    meta = evaluation.get("meta") or {}
    verdict = evaluation.get("verdict")
    failed = [
        f"- Expectation ({item.get('state')}): {item.get('group')}: {item.get('measured')}; expected "
        f"{item.get('target')}."
        for item in (verdict.get("expectations") or [] if isinstance(verdict, Mapping) else [])
        if item.get("state") != "holds"
    ]
    links = ", ".join(meta.get("link_sets") or []) or "no links"
    return [
        *failed,
        f"- Judged on the link sets {links}, {meta.get('seeds')} seeds each, in the simulator; nothing else is known.",
        f"- Decides for flows of spec {policy.interface.digest} alone, with the parameters of its training.",
    ]
