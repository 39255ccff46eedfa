"""Who competes: entries such as `cubic:hystart=0`, `wcc-ai@weight=2` or `acct=runs/acct`, and groups of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.documents import as_json, digest_of, is_file, read_document
from ccarena.errors import ConfigError, ScenarioError, did_you_mean
from ccarena.eval.recorded_traces import TRAINED_ON_TESTED, seen_in_training
from ccarena.policies import artifact
from ccarena.run_folder import POLICY, find_policy
from ccarena.scenario import scenario_json

__all__ = ["GRAMMAR", "Entrant", "line_up", "marked", "number", "parse_entry", "parse_group", "parse_policies"]

GRAMMAR = """\
entries:
  SCHEME[=POLICY][:PARAMETER=NUMBER]...[@FIELD=VALUE]...
    SCHEME     one that `ccarena schemes` lists, or the YAML file of a learned scheme's document
    POLICY     of a learned scheme: a policy file, a run's folder, the name of a run in runs/, or a number, which is
               then its action always
    PARAMETER  of the scheme (`ccarena schemes NAME`)
    FIELD      weight=W, requirement=MIN,MAX (Mbit/s) or ecn=0|1
  cubic   cubic:hystart=0:fast_convergence=0   wcc-ai@weight=2   hercules@requirement=10,15   acct=runs/acct   acct=10
groups:
  ENTRY+ENTRY[+ENTRY]..., such as cubic+bbr+bbr"""


@dataclass(frozen=True)
class Entrant:
    """One competitor."""

    label: str
    """How tables call it: the entry as it was given, a policy's path shortened."""
    scheme: str
    flow: dict[str, Any] = field(default_factory=dict)
    """The scenario's flow fields: `scheme`, and `params`, `policy`, `weight`, `requirement`, `ecn` as given."""

    @property
    def weight(self) -> float:
        """Its part in a fair division: 1 unless it shares by a weight."""
        return float(self.flow.get("weight", 1.0))

    @property
    def required_mbps(self) -> float | None:
        """The least rate that it requires, if it does."""
        requirement = self.flow.get("requirement")
        return None if requirement is None else float(requirement["min_mbps"])


def line_up(
    entries: Sequence[str], groups: Sequence[str], policies: Mapping[str, Path]
) -> tuple[list[Entrant], list[str], list[tuple[str, ...]]]:
    """(all competitors; the labels of the entries; those of each group), with the policies of `parse_policies`.

    Competitors that only groups name come last. Raises ConfigError or PolicyError, naming entry and part.
    """
    found: dict[str, Entrant] = {}

    def enter(text: str) -> str:
        entrant = parse_entry(text, policies)
        if found.setdefault(entrant.label, entrant) != entrant:
            raise ConfigError(
                f'entry "{text}": tables would call two competitors "{entrant.label}"; give their policies other names'
            )
        return entrant.label

    paired: list[str] = []
    for text in entries:
        label = enter(text)
        if label in paired:
            raise ConfigError(f'entry "{text}" is given twice; every entry also runs against itself')
        paired.append(label)
    named = [tuple(enter(text) for text in parse_group(group)) for group in groups]
    used = {entrant.scheme for entrant in found.values()}
    for scheme in policies:
        if scheme not in used:
            raise ConfigError(f"--policy {scheme}=...: no entry is of scheme {scheme}{did_you_mean(scheme, used)}")
    return list(found.values()), paired, named


def marked(
    lineup: Sequence[Entrant],
    paired: Sequence[str],
    groups: Sequence[tuple[str, ...]],
    services: Sequence[Mapping[str, Any]],
) -> tuple[list[Entrant], list[str], list[tuple[str, ...]]]:
    """What `line_up` returned, with a label that says so where a policy was trained on what the links serve."""
    labels = {entrant.label: entrant.label for entrant in lineup}
    for entrant in lineup:
        policy = entrant.flow.get("policy")
        if isinstance(policy, str) and seen_in_training(artifact.load(Path(policy)).trained_on, services):
            labels[entrant.label] = f"{entrant.label} {TRAINED_ON_TESTED}"
    named = [replace(entrant, label=labels[entrant.label]) for entrant in lineup]
    return named, [labels[label] for label in paired], [tuple(labels[label] for label in group) for group in groups]


def parse_group(text: str) -> list[str]:
    """The entries of a group, two at least, not looked into. Raises ConfigError."""
    entries = text.split("+")
    if len(entries) < 2 or not all(entries):
        raise ConfigError(f'--group "{text}": expected two entries or more, joined by "+", such as cubic+bbr+bbr')
    return entries


def parse_policies(texts: Sequence[str]) -> dict[str, Path]:
    """The policy of each scheme from `SCHEME=POLICY` texts. Raises ConfigError or PolicyError."""
    policies = {}
    for text in texts:
        scheme, equals, path = text.partition("=")
        if not (scheme and equals and path):
            raise ConfigError(f'--policy "{text}": expected SCHEME=POLICY, such as acct=runs/acct')
        if not _known(scheme, f'--policy "{text}"')["learned"]:
            raise ConfigError(f'--policy "{text}": scheme {scheme} is not learned and takes no policy')
        policies[scheme] = find_policy(path)
    return policies


def parse_entry(text: str, policies: Mapping[str, Path] | None = None) -> Entrant:
    """The competitor that `text` describes, checked; `GRAMMAR` says how.

    `policies` are those of learned schemes whose entry names none. Raises ConfigError, naming the part of `text` that
    is wrong, or PolicyError for a policy that cannot be used.
    """
    where = f'entry "{text}"'
    head, *parts = re.split(r"([:@])", text)
    name, has_policy, policy = head.partition("=")
    scheme = _known(name, where)
    flow: dict[str, Any] = {"scheme": read_document(Path(name)) if is_file(name) else name}
    params: dict[str, float] = {}
    label = text
    if has_policy and not scheme["learned"]:
        raise ConfigError(f'{where}: scheme {name} is not learned and takes no policy; parameters start with ":"')
    if scheme["learned"]:
        given = policy or (policies or {}).get(name)
        flow["policy"], params, short = _policy(given, scheme, flow["scheme"], where)
        label = text.replace(head, f"{name}={short}", 1) if has_policy else text
    seen = set()
    for mark, part in zip(parts[::2], parts[1::2], strict=True):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            example = ":hystart=0" if mark == ":" else "@weight=2"
            raise ConfigError(f'{where}: "{mark}{part}" is no NAME=VALUE; expected something like {example}')
        if (mark, key) in seen:
            raise ConfigError(f'{where}: "{mark}{key}" is given twice')
        seen.add((mark, key))
        if mark == ":":
            params[key] = number(value, f'{where}: parameter "{key}"', "; each further one starts with a colon")
        elif key not in FIELDS:
            raise ConfigError(f'{where}: unknown field "@{key}"{did_you_mean(key, FIELDS)}')
        else:
            flow[key] = FIELDS[key](value, f'{where}: "@{key}"')
    if "weight" in flow and scheme.get("weight_above") is None:
        sharing = [entry["name"] for entry in _core.schemes() if entry.get("weight_above") is not None]
        raise ConfigError(f'{where}: "@weight": {name} does not share by weight; those that do: {", ".join(sharing)}')
    if params:
        flow["params"] = params
    _check(flow, where)
    return Entrant(label, name, flow)


def number(text: str, where: str, hint: str = "") -> float:
    """A finite number, as int where it is whole. Raises ConfigError, which begins with `where`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f'{where} is "{text}"; expected a number{hint}')
    return int(value) if value.is_integer() else value


def _range(text: str, where: str) -> dict[str, float]:
    low, comma, high = text.partition(",")
    if not comma:
        raise ConfigError(f'{where} is "{text}"; expected MIN,MAX in Mbit/s, such as requirement=10,15')
    return {"min_mbps": number(low, f"{where}: MIN"), "max_mbps": number(high, f"{where}: MAX")}


def _switch(text: str, where: str) -> bool:
    if text not in ("0", "1"):
        raise ConfigError(f'{where} is "{text}"; expected 0 or 1')
    return text == "1"


FIELDS: dict[str, Callable[[str, str], Any]] = {"weight": number, "requirement": _range, "ecn": _switch}
"""What may follow an "@", and its reader of (text, where)."""


def _known(name: str, where: str) -> dict[str, Any]:
    schemes = {entry["name"]: entry for entry in _core.schemes()}
    if is_file(name):
        return {**_core.learned(as_json(read_document(Path(name)), name)), "learned": True}
    if name not in schemes:
        raise ConfigError(f'{where}: unknown scheme "{name}"{did_you_mean(name, schemes)}')
    return schemes[name]


def _policy(
    given: str | Path | None, scheme: dict[str, Any], flow_scheme: Any, where: str
) -> tuple[Any, dict[str, float], str]:
    """(the flow's `policy`, the parameters that it was trained with, its short name)."""
    name = scheme["name"]
    if given is None:
        raise ConfigError(
            f"{where}: {name} is learned: name its policy ({name}=runs/NAME), or an action to take always ({name}=10)"
        )
    try:
        action = float(str(given))
    except ValueError:
        path = find_policy(str(given)).resolve()
        trained = artifact.load(path)
        if trained.contract.digest != digest_of(flow_scheme):
            other = trained.document.get("name")
            message = f"{where}: {path} is a policy of {other} ({trained.contract.digest}), not of this {name}"
            raise ConfigError(message) from None
        return str(path), dict(trained.params), path.parent.name if path.name == POLICY else path.stem
    actions = scheme.get("actions") or []
    if actions and action not in actions:
        raise ConfigError(f"{where}: {name} has no action {action:g}; it has {', '.join(f'{a:g}' for a in actions)}")
    return {"constant": actions.index(action) if actions else action}, {}, f"{action:g}"


def _check(flow: dict[str, Any], where: str) -> None:
    """What a scenario refuses in `flow` becomes an error of the entry."""
    link = {"service": {"type": "constant", "rate_mbps": 10.0}}
    try:
        _core.validate_scenario(scenario_json({"links": [link], "flows": [flow]}))
    except ScenarioError as error:
        raise ConfigError(f"{where}: {str(error).replace('flows[0].', '')}") from error
