"""Values out of rows: `{value: MEASURE, where: ..., along: ..., over: median}` and what can be made of them.

A value is a number or a list of numbers, computed from a suite's rows:

| form | result |
|---|---|
| a number, or a list of numbers | itself |
| `{value: MEASURE, where: {AXIS: LABEL}, flow: F, along: AXIS, over: median}` | the matching rows; see below |
| `{ratio: [A, B]}`, `{difference: [A, B]}`, `{product: [A, B]}` | element by element |
| `{min: V}`, `max`, `mean`, `median`, `sum`, `geometric_mean` | of the list V; of several lists, element by element |
| `{list: [A, B, ...]}` | all elements one after another |
| `{abs: V}`, `{percent: V}` | element by element; percent is 100 times |
| `{by_seed: V, over: median}` | V of each seed alone, then over the seeds: compares schemes on the same link |

- `where` chooses labels of axes; a list of labels pools them.
- `along` spreads the result over an axis, several axes or `flow`. Every axis with more than one label has to be in
  `where`, `along` or `pool: [AXIS]`.
- `flow` is a flow's name, its index, a list of these, or `all`. Without it, the measure is the run's.
- `over` aggregates seeds and pooled rows: `median` (default), `mean`, `min`, `max`, `sum` or a percentile (`p95`).
- `by_seed` leaves out seeds that some of V's cells lack.

A cell without rows gives NaN.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.measure.sample import confidence_interval, percentile
from ccarena.scenarios.sweep import label_of

__all__ = ["CellKey", "Drawn", "Measured", "Names", "Result", "Row", "Watched", "cell_key", "parse_value"]

Row = Mapping[str, Any]
"""Row with `cell` (axis -> label), `seed`, `run` (measure -> number) and `flows` (each with `name`, `scheme`,
measures).
"""


@dataclass(frozen=True)
class Drawn(Sequence[Row]):
    """Rows of seeds drawn from `by_seed`, some several times: one of many samples of the same rows.

    A value's numbers for each seed are computed once and kept in `known`, which all samples of these rows share.
    """

    by_seed: Mapping[int, Sequence[Row]]
    seeds: Sequence[int]
    known: dict[Any, Any] = field(repr=False)

    def __len__(self) -> int:
        return sum(len(self.by_seed[seed]) for seed in self.seeds)

    def __getitem__(self, index: Any) -> Any:
        return [row for seed in self.seeds for row in self.by_seed[seed]][index]


CellKey = tuple[tuple[str, str], ...]
"""Cell of a sweep, hashable: axes with their labels, in alphabetical order."""


def cell_key(cell: Mapping[str, str]) -> CellKey:
    """Returns the cell as a key."""
    return tuple(sorted(cell.items()))


@dataclass(frozen=True)
class Watched(Sequence[Row]):
    """Rows that note from which cells values are taken."""

    rows: Sequence[Row]
    cells: set[CellKey] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]


@dataclass(frozen=True)
class Names:
    """Names that a value may use: axes with their labels, and measures (None: not known before the run)."""

    axes: Mapping[str, Sequence[str]]
    measures: Mapping[str, str] | None
    """Measure -> "run" or "flow"."""


@dataclass(frozen=True)
class Result:
    """Numbers with their labels and, if they are aggregates over seeds, their 95 % intervals."""

    values: tuple[float, ...]
    labels: tuple[str, ...] = ()
    intervals: tuple[tuple[float, float], ...] = ()
    scalar: bool = True
    kept: tuple[int, ...] | None = None
    """Places of the values among those of the whole sweep; None if a partial sweep left out none."""


Measured = Callable[[Sequence[Row], Mapping[str, str]], Result]
"""Value, parsed into a function of (rows, axes chosen from outside -> label) -> result."""

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
_REDUCE: dict[str, Callable[..., Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "median": np.median,
    "sum": np.sum,
    "geometric_mean": lambda x, axis=None: np.exp(np.mean(np.log(x), axis=axis)),
}
_PAIR: dict[str, Callable[[Any, Any], Any]] = {"ratio": np.divide, "difference": np.subtract, "product": np.multiply}
_EACH: dict[str, Callable[[Any], Any]] = {"abs": np.abs, "percent": lambda x: 100 * x}
_BY_SEED = "by_seed"
_FORMS = ("value", *_PAIR, *_REDUCE, "list", *_EACH, _BY_SEED)
_SELECT_KEYS = ("value", "where", "flow", "along", "pool", "over")


def parse_value(node: Any, names: Names, path: str, chosen: Sequence[str] = ()) -> Measured:
    """Parses and checks a value; the axes in `chosen` will be given from outside. Raises ConfigError led by `path`."""
    if isinstance(node, (int, float)) and not isinstance(node, bool):
        return _constant((float(node),), scalar=True)
    if isinstance(node, list) and all(isinstance(x, (int, float)) for x in node) and node:
        return _constant(tuple(map(float, node)), scalar=False)
    if not isinstance(node, Mapping):
        raise ConfigError(f"{path}: {node!r}: expected a number, or a mapping with one of {', '.join(_FORMS)}")
    if "value" in node:
        return _Select.parse(node, names, path, chosen)
    if _BY_SEED in node and not {*node} - {_BY_SEED, "over"}:
        operand = parse_value(node[_BY_SEED], names, f"{path}.{_BY_SEED}", chosen)
        return _BySeed(operand, _over(node, path))
    if len(node) != 1 or next(iter(node)) not in _FORMS:
        key = next((str(key) for key in node if key not in _FORMS), "")
        raise ConfigError(
            f"{path}: expected one of {', '.join(_FORMS)}{did_you_mean(key, _FORMS)}; got {', '.join(node)}"
        )
    ((form, given),) = node.items()
    several = isinstance(given, list) and not all(isinstance(x, (int, float)) for x in given)
    parts = given if several or form in _PAIR else [given]
    if form in _PAIR and (not isinstance(parts, list) or len(parts) != 2):
        raise ConfigError(f"{path}.{form}: expected a list of two values")
    operands = [parse_value(part, names, f"{path}.{form}[{i}]", chosen) for i, part in enumerate(parts)]
    if form in _PAIR:
        return _elementwise(_PAIR[form], operands, f"{path}.{form}")
    if form in _EACH:
        return _elementwise(_EACH[form], operands[:1], f"{path}.{form}")
    if form == "list":
        return _concatenated(operands)
    if len(operands) == 1:
        return _reduced(_REDUCE[form], operands[0])
    return _elementwise(lambda *xs: _REDUCE[form](np.stack(xs), axis=0), operands, f"{path}.{form}")


def _constant(values: tuple[float, ...], scalar: bool) -> Measured:
    result = Result(values, scalar=scalar)
    return lambda rows, chosen: result


def _elementwise(function: Callable[..., Any], operands: Sequence[Measured], path: str) -> Measured:
    def measure(rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        results = [operand(rows, chosen) for operand in operands]
        lists = [result for result in results if not result.scalar]
        if len({len(result.values) for result in lists}) > 1:
            raise ConfigError(f"{path}: lists of {' and '.join(str(len(r.values)) for r in lists)} values")
        size = len(lists[0].values) if lists else 1
        arrays = [np.broadcast_to(np.asarray(result.values, dtype=np.float64), (size,)) for result in results]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(function(*arrays), dtype=np.float64)
        labels = next((result.labels for result in lists if result.labels), ())
        return Result(tuple(values.tolist()), labels, scalar=not lists)

    return measure


def _concatenated(operands: Sequence[Measured]) -> Measured:
    def measure(rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        results = [operand(rows, chosen) for operand in operands]
        values = tuple(itertools.chain.from_iterable(result.values for result in results))
        labels = tuple(itertools.chain.from_iterable(result.labels for result in results))
        return Result(values, labels if len(labels) == len(values) else (), scalar=False)

    return measure


def _reduced(function: Callable[..., Any], operand: Measured) -> Measured:
    def measure(rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        return Result((float(function(operand(rows, chosen).values)),))

    return measure


@dataclass(frozen=True)
class _Select:
    """Parsed form of `{value: ...}`."""

    path: str
    measure: str
    where: Mapping[str, tuple[str, ...]]
    flows: tuple[str | int, ...] | None
    """Chosen flows. None: the run's own measure; empty: all flows."""
    along: tuple[str, ...]
    over: str
    labels: Mapping[str, Sequence[str]] = field(repr=False)

    @classmethod
    def parse(cls, node: Mapping[str, Any], names: Names, path: str, chosen: Sequence[str]) -> _Select:
        for key in node:
            if key not in _SELECT_KEYS:
                raise ConfigError(f'{path}: unknown key "{key}"{did_you_mean(str(key), _SELECT_KEYS)}')
        where = {}
        for axis, labels in (node.get("where") or {}).items():
            where[axis] = tuple(label_of(one) for one in (labels if isinstance(labels, list) else [labels]))
            _known(axis, names.axes, f"{path}.where", "axis")
            for one in where[axis]:
                _known(one, names.axes[axis], f"{path}.where.{axis}", "value")
        along, pool = (_names(node.get(key)) for key in ("along", "pool"))
        for axis in (*along, *pool):
            _known(axis, [*names.axes, "flow"], f"{path}.along" if axis in along else f"{path}.pool", "axis")
        loose = [a for a, v in names.axes.items() if len(v) > 1 and a not in {*where, *along, *pool, *chosen}]
        if loose:
            raise ConfigError(f"{path}: the axis {loose[0]} is not chosen; name it in `where`, `along` or `pool`")
        over = _over(node, path)
        measure, flow = node["value"], node.get("flow")
        if "flow" in along and flow is None:
            flow = "all"
        if names.measures is not None:
            _known(measure, names.measures, f"{path}.value", "measure")
            if (names.measures[measure] == "flow") != (flow is not None):
                need = (
                    "a flow's: add `flow: NAME`, an index or `all`" if flow is None else "the run's: leave out `flow`"
                )
                raise ConfigError(f"{path}.value: {measure} is {need}")
        flows = None if flow is None else () if flow == "all" else tuple(flow if isinstance(flow, list) else [flow])
        return cls(path, measure, where, flows, along, over, names.axes)

    def __call__(self, rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        if isinstance(rows, Drawn):
            key = (id(self), tuple(sorted(chosen.items())))
            if key not in rows.known:
                rows.known[key] = self._of_seeds(rows, chosen)
            labels, of_seeds = rows.known[key]
            samples = [[x for seed in rows.seeds for x in of_seed.get(seed, ())] for of_seed in of_seeds]
            intervals: list[tuple[float, float]] = []
        else:
            labels, samples = self._points(rows, chosen)
            intervals = [_interval(sample, self.over) for sample in samples]
        values = tuple(_aggregate(sample, self.over) for sample in samples)
        return Result(values, tuple(labels), tuple(intervals), scalar=not self.along)

    def _of_seeds(self, drawn: Drawn, chosen: Mapping[str, str]) -> tuple[list[str], list[dict[int, list[float]]]]:
        """Returns the labels of all points, and each point's numbers by seed."""
        labels: list[str] = []
        of_seeds: list[dict[int, list[float]]] = []
        for seed, rows in drawn.by_seed.items():
            found, samples = self._points(rows, chosen)
            labels = labels or found
            of_seeds = of_seeds or [{} for _ in samples]
            # A seed whose runs failed may have no flows, and so no points along them.
            for of_seed, sample in zip(of_seeds, samples, strict=False):
                of_seed[seed] = sample
        return labels, of_seeds

    def _points(self, rows: Sequence[Row], chosen: Mapping[str, str]) -> tuple[list[str], list[list[float]]]:
        """Returns the label of each point of `along`, and its sample."""
        fixed = {**{axis: (label,) for axis, label in chosen.items() if axis != "flow"}, **self.where}
        noted = rows.cells if isinstance(rows, Watched) else set()
        rows = [row for row in rows if all(row["cell"].get(axis) in labels for axis, labels in fixed.items())]
        noted.update(cell_key(row["cell"]) for row in rows)
        flows: Sequence[str | int] = (chosen["flow"],) if "flow" in chosen else self.flows or ()
        spread: list[Sequence[Any]] = []
        for axis in self.along:
            if axis == "flow":
                spread.append(flows or (range(len(rows[0]["flows"])) if rows else ()))
            else:
                spread.append(fixed.get(axis, self.labels[axis]))
        samples, labels = [], []
        for values in itertools.product(*spread):
            point = dict(zip(self.along, values, strict=True))
            of_point = [r for r in rows if all(r["cell"].get(a) == v for a, v in point.items() if a != "flow")]
            samples.append(self._sample(of_point, (point["flow"],) if "flow" in point else flows))
            labels.append(", ".join(_flow_name(rows, v) if a == "flow" else str(v) for a, v in point.items()))
        return labels, samples

    def _sample(self, rows: Sequence[Row], flows: Sequence[str | int]) -> list[float]:
        out: list[float] = []
        for row in rows:
            if self.flows is None and "flow" not in self.along:
                parts = [row["run"]]
            elif not flows:
                parts = row["flows"]
            else:
                parts = [self._flow(row, flow) for flow in flows]
            for part in parts:
                if self.measure not in part:
                    hint = did_you_mean(self.measure, part)
                    raise ConfigError(f'{self.path}.value: unknown measure "{self.measure}"{hint}')
                value = part[self.measure]
                out += [math.nan if x is None else float(x) for x in (value if isinstance(value, list) else [value])]
        return out

    def _flow(self, row: Row, flow: str | int) -> Mapping[str, Any]:
        flows = row["flows"]
        if isinstance(flow, int) and flow < len(flows):
            return dict(flows[flow])
        for entry in flows:
            if entry["name"] == flow:
                return dict(entry)
        known = [entry["name"] for entry in flows]
        raise ConfigError(f'{self.path}.flow: no flow "{flow}"{did_you_mean(str(flow), known)}')


@dataclass(frozen=True)
class _BySeed:
    """Parsed form of `{by_seed: ...}`."""

    operand: Measured
    over: str

    def __call__(self, rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        if isinstance(rows, Drawn):
            key = (id(self), tuple(sorted(chosen.items())))
            if key not in rows.known:
                rows.known[key] = self._of_seeds(rows.by_seed, chosen)[0]
            of_seeds, seeds = rows.known[key], rows.seeds
        else:
            by_seed: dict[int, list[Row]] = {}
            for row in rows:
                by_seed.setdefault(row["seed"], []).append(row)
            of_seeds, cells = self._of_seeds(by_seed, chosen)
            seeds = sorted(by_seed)
            if isinstance(rows, Watched):
                rows.cells.update(cells)
        results = [of_seeds[seed] for seed in seeds if seed in of_seeds]
        if not results:
            return Result((math.nan,))
        samples = list(zip(*(result.values for result in results), strict=True))
        intervals = () if isinstance(rows, Drawn) else tuple(_interval(sample, self.over) for sample in samples)
        values = tuple(_aggregate(sample, self.over) for sample in samples)
        return Result(values, results[0].labels, intervals, results[0].scalar)

    def _of_seeds(
        self, by_seed: Mapping[int, Sequence[Row]], chosen: Mapping[str, str]
    ) -> tuple[dict[int, Result], set[CellKey]]:
        """Returns the value of each seed that has all cells on which the value depends, and these cells."""
        found = {}
        for seed, rows in by_seed.items():
            watched = Watched(rows)
            found[seed] = self.operand(watched, chosen), watched.cells
        cells = set().union(*(each for _, each in found.values()))
        return {seed: result for seed, (result, each) in found.items() if each == cells}, cells


def _over(node: Mapping[str, Any], path: str) -> str:
    over = node.get("over", "median")
    if over not in _REDUCE and not (isinstance(over, str) and _PERCENTILE.fullmatch(over)):
        raise ConfigError(f"{path}.over: {over!r}: expected one of {', '.join(_REDUCE)}, or a percentile, such as p95")
    return str(over)


def _aggregate(sample: Sequence[float], over: str) -> float:
    """Returns NaN (not measured) without any value; a NaN within makes means NaN, so that nothing is left out
    silently.
    """
    if not sample:
        return math.nan
    if match := _PERCENTILE.fullmatch(over):
        return math.nan if np.isnan(sample).any() else percentile(sample, float(match[1]) / 100)
    if over == "median":
        # A run in which something never happened (NaN) counts as infinitely late; infinity is shown as "never".
        return float(np.median(np.where(np.isnan(sample), math.inf, sample)))
    return float(_REDUCE[over](sample))


def _interval(sample: Sequence[float], over: str) -> tuple[float, float]:
    """Returns the 95 % interval: Student's for a mean; for a median the order statistics' (binomial), from 6 values on.

    It is NaN (unknown) for other aggregates, and if all values are equal: seeds that change nothing say nothing of
    others.
    """
    if len(set(sample)) < 2:
        return math.nan, math.nan
    if over == "mean":
        interval = confidence_interval(list(sample))
        return interval.low, interval.high
    n = len(sample)
    if over != "median" or n < 6:
        return math.nan, math.nan
    ordered = np.sort(np.where(np.isnan(sample), math.inf, sample))
    # The largest k with P(fewer than k of n below the median) <= 2.5 %.
    below, k = 0.0, 0
    while (below := below + _probability(n, k)) <= 0.025:
        k += 1
    return float(ordered[max(k - 1, 0)]), float(ordered[n - max(k, 1)])


def _probability(n: int, k: int) -> float:
    """Returns the probability that k of n values are below the median; in logarithms, because n may be thousands."""
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))


def _flow_name(rows: Sequence[Row], flow: Any) -> str:
    return str(rows[0]["flows"][flow]["name"]) if isinstance(flow, int) else str(flow)


def _names(given: Any) -> tuple[str, ...]:
    return () if given is None else tuple(given) if isinstance(given, list) else (given,)


def _known(name: Any, known: Any, path: str, what: str) -> None:
    if name not in known:
        raise ConfigError(f'{path}: unknown {what} "{name}"{did_you_mean(str(name), known)}')
