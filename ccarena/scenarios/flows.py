"""Entrants in the flows of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ccarena.controllers import load as controllers
from ccarena.errors import ConfigError, ScenarioError
from ccarena.scenarios.backends import check_runs
from ccarena.scenarios.entrants import Entrant, find_policy, parse, read, rule_file, say
from ccarena.scenarios.scenario import flows_of, in_folder
from ccarena.scenarios.schemes import heuristics

__all__ = ["enter", "enter_others"]

MOST_ENTRANTS = 1000
"""Most entrants: each that is no registered name costs milliseconds to read and check its policy."""


def enter(document: dict[str, Any]) -> dict[str, Any]:
    """Fills the flows of a scenario from their entrants: changes the document, and returns it.

    A flow's `scheme` is the text of an entrant (docs/entrants.md) or a class of the user's, unless the flow has a
    `policy`, which may be the text of a policy. The flow's own `params` replace the entrant's. Raises ScenarioError,
    which begins with the path in the document, if another field is in both, and PolicyError.
    """
    parsed: dict[str | type, Entrant] = {}
    for index, flow in enumerate(flows_of(document)):
        where = f"flows[{index}]"
        if flow.get("policy") is not None:
            flow["policy"] = _policy(flow["policy"])
        elif flow.get("rules") is not None:
            flow["rules"] = _rules(flow["rules"], where)
        elif (
            flow.get("foreign") is None
            and flow.get("controller") is None
            and isinstance(flow.get("scheme"), (str, type))
            and flow["scheme"] not in heuristics()
        ):
            _enter(flow, where, parsed)
    return document


def enter_others(document: dict[str, Any], folder: Path, backend: str) -> dict[str, str]:
    """Fills the flows whose `scheme` is no scheme of the registry: a congestion control of somebody else, or a
    controller of the user's. Leaves the others as they are.

    Returns the digest of each by its name. Their files are relative to `folder`. Raises ConfigError, which begins with
    the path in the document, for an entrant that the backend cannot carry or that is none.
    """
    digests = {}
    for index, flow in enumerate(flows_of(document)):
        text = flow.get("scheme")
        if not isinstance(text, str) or flow.get("foreign") is not None:
            continue
        named = in_folder(text, folder)
        if named is None:
            continue
        try:
            entrant = parse(named)
            check_runs(backend, [entrant])
        except ConfigError as error:
            raise ConfigError(f"flows[{index}].scheme: {error}") from error
        if entrant.theirs is not None:
            digests[entrant.scheme] = entrant.theirs.digest
        elif "controller" in entrant.flow:
            digests[text] = controllers.identity(entrant.flow)
        else:
            continue
        flow |= entrant.flow
    return digests


def _enter(flow: dict[str, Any], where: str, parsed: dict[str | type, Entrant]) -> None:
    text = flow["scheme"]
    try:
        entrant = parsed[text] if text in parsed else read(text)
    except ConfigError as error:
        raise ScenarioError(f"{where}.scheme: {error}") from error
    if text not in parsed:
        say(entrant.notice)
    parsed[text] = entrant
    if len(parsed) > MOST_ENTRANTS:
        raise ScenarioError(f"{where}.scheme: more than {MOST_ENTRANTS:,} different entrants in one scenario")
    fields = entrant.as_flow()
    if entrant.labelled:
        fields.setdefault("name", entrant.label)
    for key in fields.keys() - {"scheme", "params"}:
        if flow.get(key) is not None:
            raise ScenarioError(f'{where}.{key}: the entrant "{text}" says it, too; say it once')
    own = flow.get("params") or {}
    if "params" in fields and isinstance(own, dict):
        fields["params"] = {**fields["params"], **own}
    flow |= fields


def _rules(rules: Any, where: str) -> Any:
    """Returns the flow's `rules`, checked."""
    return rule_file(rules, f"{where}.rules") if isinstance(rules, str) else rules


def _policy(policy: Any) -> Any:
    """Returns the flow's `policy` with a file for a policy's text."""
    if isinstance(policy, dict) and isinstance(policy.get("integer"), str):
        return {**policy, "integer": str(find_policy(policy["integer"]))}
    return str(find_policy(policy)) if isinstance(policy, str) and policy != "none" else policy
