"""Template language of suites and sweeps: `${...}` with names, fields and arithmetic, and repeated items.

A single `${rate_mbps * 1.5}` keeps its type; within other text it becomes text. A list item that is a mapping with the
key `for_each: {NAME: VALUES}` is repeated for each value, bound to NAME (and its number, from 0, to `index`).
"""

from __future__ import annotations

import ast
import functools
import operator
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from ccarena.errors import ConfigError, did_you_mean

__all__ = ["FUNCTIONS", "expand", "expressions", "seeded"]

Names = Mapping[str, Any]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "float": float,
    "int": int,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "range": range,
    "round": round,
    "str": str,
    "sum": sum,
}
"""Functions that an expression may call; a run adds `uniform(low, high)`, see [`seeded`]."""

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, among: item in among,
    ast.NotIn: lambda item, among: item not in among,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_WHOLE = re.compile(r"\$\{([^{}]*)\}")
LONGEST = 10_000  # items of a list and characters of text that an expression may produce


def seeded(seed: int) -> dict[str, Any]:
    """Returns the names that depend on the seed: `seed`, and `uniform(low, high)`, drawn anew at each use.

    The n-th use draws the same in every cell of the sweep, so that schemes are compared under equal conditions.
    """
    return {"seed": seed, "uniform": random.Random(seed).uniform}


def expressions(text: str) -> list[str]:
    """Returns the expressions of all `${...}` in `text`."""
    return _WHOLE.findall(text)


def expand(node: Any, names: Names, path: str) -> Any:
    """Returns `node` with every expression replaced by its value. Raises ConfigError, led by the item's `path`."""
    if isinstance(node, str):
        return _text(node, names, path)
    if isinstance(node, Mapping):
        return {key: expand(value, names, f"{path}.{key}" if path else str(key)) for key, value in node.items()}
    if isinstance(node, list):
        out = []
        for index, item in enumerate(node):
            out += _items(item, names, f"{path}[{index}]")
        return out
    return node


def _items(item: Any, names: Names, path: str) -> list[Any]:
    if not isinstance(item, Mapping) or "for_each" not in item:
        return [expand(item, names, path)]
    loop = item["for_each"]
    if not isinstance(loop, Mapping) or len(loop) != 1:
        raise ConfigError(f"{path}.for_each: expected one name with its values, such as `rate: [1, 10]`; got {loop!r}")
    ((name, given),) = loop.items()
    values = expand(given, names, f"{path}.for_each.{name}")
    if isinstance(values, Mapping):
        values = list(values.values())
    if not isinstance(values, (list, tuple, range)):
        raise ConfigError(f"{path}.for_each.{name}: expected a list; got {values!r}")
    body = {key: value for key, value in item.items() if key != "for_each"}
    return [expand(body, {**names, name: value, "index": index}, path) for index, value in enumerate(values)]


def _text(text: str, names: Names, path: str) -> Any:
    if whole := _WHOLE.fullmatch(text):
        return _evaluate(whole[1], names, path)
    out = _WHOLE.sub(lambda match: _shown(_evaluate(match[1], names, path)), text)
    if "${" in out:
        raise ConfigError(f"{path}: {text!r}: `${{` without its `}}`; an expression holds no braces")
    return out


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _evaluate(source: str, names: Names, path: str) -> Any:
    try:
        value = _node(_parsed(source.strip()), names)
    except SyntaxError as error:
        raise ConfigError(f"{path}: ${{{source}}}: not an expression: {error.msg}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: ${{{source}}}: {error}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: ${{{source}}}: {type(error).__name__}: {error}") from error
    return list(value) if isinstance(value, (range, tuple)) else value


@functools.lru_cache(maxsize=1024)
def _parsed(source: str) -> ast.AST:
    return ast.parse(source, mode="eval").body


def _node(node: ast.AST, names: Names) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, type(None))):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ConfigError(f'unknown name "{node.id}"{did_you_mean(node.id, names)}')
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return _member(_node(node.value, names), node.attr)
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            return _node(node.value, names)[
                slice(*(None if bound is None else _node(bound, names) for bound in bounds))
            ]
        value, key = _node(node.value, names), _node(node.slice, names)
        return _member(value, key) if isinstance(value, Mapping) else value[key]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_node(item, names) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_node(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _bounded(node.op, _node(node.left, names), _node(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        return _OPERATORS[type(node.ops[0])](_node(node.left, names), _node(node.comparators[0], names))
    if isinstance(node, ast.BoolOp):
        values = [_node(value, names) for value in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.IfExp):
        return _node(node.body if _node(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_node(argument, names) for argument in node.args], names)
    raise ConfigError(
        "only names, fields, list items, arithmetic, comparisons, `A if CONDITION else B` and "
        f"{', '.join(FUNCTIONS)}, uniform are allowed"
    )


def _member(value: Any, key: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} has no fields; expected a mapping with {key!r}")
    if key not in value:
        raise ConfigError(f'no field "{key}"{did_you_mean(str(key), map(str, value))}')
    return value[key]


def _bounded(kind: ast.operator, left: Any, right: Any) -> Any:
    """Repeats a list (`[0] * n`) within a limit, so that a typing error cannot fill the memory."""
    if isinstance(kind, ast.Mult):
        for many, times in ((left, right), (right, left)):
            if isinstance(many, (list, str)) and isinstance(times, int) and len(many) * times > LONGEST:
                raise ConfigError(f"makes {len(many) * times} items; at most {LONGEST} are allowed")
    return _OPERATORS[type(kind)](left, right)


def _call(name: str, arguments: list[Any], names: Names) -> Any:
    if name == "uniform" and "uniform" in names:
        return names["uniform"](*arguments)
    if name not in FUNCTIONS:
        raise ConfigError(f'unknown function "{name}"{did_you_mean(name, FUNCTIONS)}')
    value = FUNCTIONS[name](*arguments)
    if isinstance(value, range) and len(value) > LONGEST:
        raise ConfigError(f"makes {len(value)} items; at most {LONGEST} are allowed")
    return value
