"""Expressions of a small grammar, which evolution changes: numbers, names, + - * /, min and max.

A quotient is 0 if its divisor is 0. In Python's syntax that is `a / (b or float("inf"))`; the text of an expression is
always Python, so that it can stand in a user's file. Trees are nested tuples: `("+", "queue", 0.5)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ccarena.errors import ConfigError, did_you_mean, excerpt

__all__ = ["OPERATIONS", "Tree", "crossed", "drawn", "mutated", "nodes", "parse", "simple", "size", "text"]

Tree = float | str | tuple[str, Any, Any]
OPERATIONS = ("+", "-", "*", "/", "min", "max")
MOST_NODES, MOST_DEPTH = 31, 8
"""Largest tree of a candidate."""
LEAF = 0.4
"""Share of leaves among drawn nodes above the depth at which only leaves are left."""
DIGITS = 3
"""Significant digits of numbers, so that the text is the whole expression."""
_BINARY: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_OPPOSITE = {"+": "-", "-": "+"}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}
_INFINITE = "float('inf')"
_TRIES = 8


def parse(source: str, names: Collection[str], where: str) -> Tree:
    """Reads an expression over `names`. Raises ConfigError, which begins with `where`, for anything else."""
    try:
        tree = _read(ast.parse(source.strip(), mode="eval").body, names, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f'{where}: "{excerpt(source)}" is no expression: {error}') from error
    if size(tree) > MOST_NODES:
        raise ConfigError(f"{where}: {size(tree)} numbers, names and operations; expected at most {MOST_NODES}")
    return tree


def _read(node: ast.AST, names: Collection[str], where: str) -> Tree:
    source = ast.unparse(node)
    if source in names:
        return source
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _read(node.operand, names, where)
        return -inner if isinstance(inner, float) else ("-", 0.0, inner)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = node.left, node.right
        if (
            isinstance(node.op, ast.Div)
            and isinstance(right, ast.BoolOp)
            and ast.unparse(right.values[-1]) == _INFINITE
        ):
            right = right.values[0]
        return (_BINARY[type(node.op)], _read(left, names, where), _read(right, names, where))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        if len(node.args) == 2 and not node.keywords:
            return (node.func.id, *(_read(each, names, where) for each in node.args))  # type: ignore[return-value]
    if isinstance(node, (ast.Name, ast.Attribute)):
        raise ConfigError(f'{where}: unknown name "{source}"{did_you_mean(source, names)}')
    raise ConfigError(
        f'{where}: "{excerpt(source)}": expected numbers, {", ".join(names)}, + - * /, min(a, b), max(a, b)'
    )


def text(tree: Tree) -> str:
    """Returns the expression in Python's syntax."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, float):
        return f"{tree:.{DIGITS}g}"
    operation, left, right = tree
    if operation in _OPPOSITE and isinstance(right, float) and right < 0:
        operation, right = _OPPOSITE[operation], -right
    if operation in ("min", "max"):
        return f"{operation}({text(left)}, {text(right)})"
    if operation == "/":
        divisor = text(right) if isinstance(right, float) and right else f'({text(right)} or float("inf"))'
        return f"{_inside(left, 2)} / {divisor}"
    return f"{_inside(left, _STRENGTH[operation])} {operation} {_inside(right, _STRENGTH[operation] + 1)}"


def _inside(tree: Tree, strength: int) -> str:
    """Returns the text of an operand, in parentheses if it binds less than `strength`."""
    weak = isinstance(tree, tuple) and _STRENGTH.get(tree[0], 3) < strength
    negative = isinstance(tree, float) and tree < 0
    return f"({text(tree)})" if weak or negative else text(tree)


def nodes(tree: Tree) -> Iterator[Tree]:
    """Yields the tree and all of its parts."""
    yield tree
    if isinstance(tree, tuple):
        for part in tree[1:]:
            yield from nodes(part)


def size(tree: Tree) -> int:
    """Returns the number of nodes."""
    return sum(1 for _ in nodes(tree))


def _depth(tree: Tree) -> int:
    return 1 + max(map(_depth, tree[1:])) if isinstance(tree, tuple) else 1


def _constant(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def drawn(names: Sequence[str], rng: np.random.Generator, depth: int = 4) -> Tree:
    """Returns a random tree of at most this depth."""
    if depth <= 1 or rng.random() < LEAF / depth:
        if rng.random() < 0.4:
            return _constant(rng.normal() * 2.0)
        return names[int(rng.integers(len(names)))]
    operation = OPERATIONS[int(rng.integers(len(OPERATIONS)))]
    return (operation, drawn(names, rng, depth - 1), drawn(names, rng, depth - 1))


def mutated(tree: Tree, names: Sequence[str], rng: np.random.Generator) -> Tree:
    """Returns a tree that differs from `tree` in one place: a number, an operation, or a part drawn anew or left
    out.
    """

    def operation() -> str:
        return OPERATIONS[int(rng.integers(len(OPERATIONS)))]

    def number(part: Tree) -> Tree:
        return _moved(part, rng) if isinstance(part, float) else drawn(names, rng, 2)

    def anew(part: Tree) -> Tree:
        return drawn(names, rng, 3)

    def less(part: Tree) -> Tree:
        return part[1 + int(rng.integers(2))] if isinstance(part, tuple) else drawn(names, rng, 1)

    def more(part: Tree) -> Tree:
        if isinstance(part, tuple):
            return (operation(), part[1], part[2])
        return (operation(), part, drawn(names, rng, 1))

    changes = (number, anew, less, more)
    numbers = [at for at, part in enumerate(nodes(tree)) if isinstance(part, float)]
    for _ in range(_TRIES):
        if numbers and rng.random() < 0.4:
            at, change = numbers[int(rng.integers(len(numbers)))], number
        else:
            at, change = int(rng.integers(size(tree))), changes[int(rng.integers(len(changes)))]
        found = simple(_replaced(tree, at, change))
        if found != tree and fits(found):
            return found
    return drawn(names, rng, 2)


def crossed(tree: Tree, other: Tree, rng: np.random.Generator) -> Tree:
    """Returns `tree` with one part replaced by a part of `other`."""
    parts = list(nodes(other))
    for _ in range(_TRIES):
        part = parts[int(rng.integers(len(parts)))]
        found = simple(_replaced(tree, int(rng.integers(size(tree))), lambda _: part))  # noqa: B023 (called at once)
        if fits(found):
            return found
    return tree


def fits(tree: Tree) -> bool:
    """Returns whether a tree is small enough for a candidate."""
    return size(tree) <= MOST_NODES and _depth(tree) <= MOST_DEPTH


def _moved(number: float, rng: np.random.Generator) -> float:
    return _constant(number * float(np.exp(rng.normal() * 0.5)) if rng.random() < 0.7 else number + rng.normal())


def _replaced(tree: Tree, at: int, change: Callable[[Tree], Tree]) -> Tree:
    """Returns the tree with `change` made to the part number `at` of `nodes`."""
    if at == 0:
        return change(tree)
    assert isinstance(tree, tuple)
    operation, left, right = tree
    if at <= (count := size(left)):
        return (operation, _replaced(left, at - 1, change), right)
    return (operation, left, _replaced(right, at - 1 - count, change))


def simple(tree: Tree) -> Tree:
    """Returns the tree with operations on numbers alone computed, and those on twice the same that change nothing."""
    if not isinstance(tree, tuple):
        return tree
    operation, left, right = tree[0], simple(tree[1]), simple(tree[2])
    if isinstance(left, float) and isinstance(right, float):
        value = _computed(operation, left, right)
        if abs(value) < 1e6:
            return _constant(value)
    if left == right and operation in ("min", "max", "-"):
        return 0.0 if operation == "-" else left
    return (operation, left, right)


def _computed(operation: str, left: float, right: float) -> float:
    if operation == "/":
        return left / right if right else 0.0
    both = {"+": left + right, "-": left - right, "*": left * right, "min": min(left, right), "max": max(left, right)}
    return both[operation]
