"""Provenance of an artifact: each entry has its type, or the file is refused.

No entry is needed to act. Other programs show, compare and re-run what is read here, perhaps from a stranger's file,
and rely on the types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ccarena.errors import PolicyError

__all__ = ["read", "whole"]

DEEPEST = 32
"""Deepest nesting of lists and mappings; our own artifacts have six levels."""
MOST_ENTRIES = 100_000
"""Most numbers, texts, lists and mappings in one entry of the metadata."""


def read(metadata: Mapping[str, str], key: str) -> Any:
    """Returns the entry `key` of an artifact's metadata. Raises PolicyError, with the place, for any other type."""
    try:
        value = json.loads(metadata[key], parse_constant=float)
    except (KeyError, ValueError, RecursionError):
        raise PolicyError(f"metadata `{key}` is missing or no JSON; expected JSON") from None
    _bounded(value, key)
    return _READERS[key](value)


def whole(metadata: Mapping[str, str], key: str, most: int, default: str = "") -> int:
    """Returns the integer of an entry, from 0 to `most`. Raises PolicyError for anything else."""
    text = metadata.get(key, default)
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= most):
        raise PolicyError(f"metadata `{key}` is {_short(text)}; expected an integer from 0 to {most}")
    return int(text)


def _versions(value: Any) -> dict[str, str]:
    _is_mapping(value, "versions", "a version")
    return {name: _text(version, f"versions.{name}") for name, version in value.items()}


def _trained_on(value: Any) -> list[dict[str, str]]:
    found = []
    for at, each in enumerate(_list(value, "trained_on")):
        _is_mapping(each, f"trained_on[{at}]", "kind, name and digest")
        found.append({key: _text(each.get(key), f"trained_on[{at}].{key}") for key in ("kind", "name", "digest")})
    return found


def _rules(value: Any) -> list[dict[str, Any]]:
    found = []
    for at, each in enumerate(_list(value, "rules")):
        place = f"rules[{at}]"
        _is_mapping(each, place, "a rule")
        missing = _text(each.get("missing", ""), f"{place}.missing")
        score = each.get("score")
        params = each.get("params", {})
        _is_mapping(params, f"{place}.params", "numbers")
        found.append(
            {
                "kind": _text(each.get("kind"), f"{place}.kind"),
                "label": _text(each.get("label"), f"{place}.label"),
                "policy": None if missing else _decides(each.get("policy"), f"{place}.policy"),
                "params": {name: _number(x, f"{place}.params.{name}") for name, x in params.items()},
                "score": None if score is None else _number(score, f"{place}.score"),
                "missing": missing,
            }
        )
    return found


def _decides(value: Any, place: str) -> Any:
    """Checks the `policy` of a rule in a scenario: `none`, a constant action, or one action for each category."""
    if value == "none":
        return value
    if isinstance(value, Mapping) and value.keys() == {"constant"}:
        return {"constant": _action(value["constant"], f"{place}.constant")}
    if isinstance(value, Mapping) and value.keys() == {"by", "actions"}:
        actions = _list(value["actions"], f"{place}.actions")
        return {
            "by": _text(value["by"], f"{place}.by"),
            "actions": [_action(x, f"{place}.actions[{at}]") for at, x in enumerate(actions)],
        }
    raise _refused(place, value, '"none", {"constant": action} or {"by": text, "actions": actions}')


def _action(value: Any, place: str) -> float | list[float]:
    """Checks an action: a number, or a list of one for each actuator."""
    if not isinstance(value, list):
        return _number(value, place)
    return [_number(x, f"{place}[{at}]") for at, x in enumerate(value)]


def _evaluation(value: Any) -> dict[str, Any]:
    """Checks figures by kind of links and scheme, and the type of everything else that is shown."""
    _is_mapping(value, "evaluation", "figures")
    _is_mapping(value.get("means", {}), "evaluation.means", "figures by kind of links")
    for group, schemes in value.get("means", {}).items():
        _is_mapping(schemes, place := f"evaluation.means.{group}", "figures by scheme")
        for scheme, figures in schemes.items():
            _is_mapping(figures, f"{place}.{scheme}", "figures")
            for name, figure in figures.items():
                if figure is not None and not isinstance(figure, list):
                    _number(figure, f"{place}.{scheme}.{name}")
    _is_mapping(value.get("meta", {}), "evaluation.meta", "what was run")
    verdict = value.get("verdict", "")
    if not isinstance(verdict, str):
        _is_mapping(verdict, "evaluation.verdict", "expectations, faults and the gain over rules")
        _list(verdict.get("faults") or [], "evaluation.verdict.faults")
        for at, item in enumerate(_list(verdict.get("expectations") or [], "evaluation.verdict.expectations")):
            _is_mapping(item, f"evaluation.verdict.expectations[{at}]", "an expectation")
        _gain(verdict.get("gain") or {})
    return dict(value)


def _gain(value: Any) -> None:
    """Checks the gain over rules: the numbers of the deciding one, and the type of the others."""
    _is_mapping(value, place := "evaluation.verdict.gain", "the gain over rules")
    for at, rule in enumerate(_list(value.get("rules") or [], f"{place}.rules")):
        _is_mapping(rule, f"{place}.rules[{at}]", "a rule")
    _is_mapping(best := value.get("best") or {}, f"{place}.best", "a rule")
    if best:
        _text(best.get("label"), f"{place}.best.label")
    for name in ("score", "gain", "low", "high") if best else ():
        _number(best.get(name), f"{place}.best.{name}")
    for name, number in (("seeds", value.get("seeds", 0)), ("best.numbers", best.get("numbers", 0))):
        _number(number, f"{place}.{name}")


def _params(value: Any) -> dict[str, float]:
    _is_mapping(value, "params", "numbers")
    return {name: _number(x, f"params.{name}") for name, x in value.items()}


def _training(value: Any) -> dict[str, Any]:
    _is_mapping(value, "training", "the configuration")
    return dict(value)


def _observed(value: Any) -> dict[str, list[float]]:
    """Checks the range of each entry of the observation in training."""
    _is_mapping(value, "observed", "low and high")
    return {
        end: [_number(x, f"observed.{end}[{at}]") for at, x in enumerate(_list(numbers, f"observed.{end}"))]
        for end, numbers in value.items()
    }


def _guard(value: Any) -> dict[str, Any]:
    """Checks the types of a guard; the native reader has checked that it fits."""
    _is_mapping(value, "guard", "observation and action")
    for part, ends in value.items():
        _is_mapping(ends, f"guard.{part}", "low and high")
        for end, numbers in ends.items():
            _list(numbers, f"guard.{part}.{end}")
    return dict(value)


def _certificate(value: Any) -> list[dict[str, Any]]:
    """Checks the answers of `ccarena certify`: the names, and the shares that a card shows."""
    for at, each in enumerate(_list(value, "certificate")):
        _is_mapping(each, place := f"certificate[{at}]", "an answer")
        for key in ("name", "form", "state"):
            _text(each.get(key), f"{place}.{key}")
        for key in ("holds", "violated", "undecided"):
            _number(each.get(key), f"{place}.{key}")
    return list(value)


def _missing(value: Any) -> list[str]:
    return [_text(each, f"missing[{at}]") for at, each in enumerate(_list(value, "missing"))]


_READERS: dict[str, Callable[[Any], Any]] = {
    "params": _params,
    "training": _training,
    "versions": _versions,
    "trained_on": _trained_on,
    "evaluation": _evaluation,
    "rules": _rules,
    "observed": _observed,
    "guard": _guard,
    "certificate": _certificate,
    "missing": _missing,
}


def _bounded(value: Any, key: str) -> None:
    """Raises PolicyError for data that is nested too deeply, too large, or has a number that is not finite."""
    level, entries = [value], 0
    for _ in range(DEEPEST):
        entries += len(level)
        if entries > MOST_ENTRIES:
            raise PolicyError(f"metadata `{key}` has more than {MOST_ENTRIES:,} values; expected fewer")
        for each in level:
            if isinstance(each, float) and not math.isfinite(each):
                raise PolicyError(f"metadata `{key}` has {each}; expected finite numbers")
        level = [part for each in level for part in _parts(each)]
        if not level:
            return
    raise PolicyError(f"metadata `{key}` is nested more than {DEEPEST} deep; expected less")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_mapping(value: Any, place: str, what: str) -> None:
    if not isinstance(value, Mapping):
        raise _refused(place, value, f"a mapping: {what}")


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _refused(place, value, "a list")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _refused(place, value, "text")
    return value


def _number(value: Any, place: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        raise _refused(place, value, "a number")
    return value


def _refused(place: str, value: Any, expected: str) -> PolicyError:
    return PolicyError(f"metadata `{place}` is {_short(value)}; expected {expected}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
