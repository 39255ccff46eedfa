"""Tunes a scheme's parameters on a link distribution, and compares them with the defaults on links it did not see.

Every candidate runs over the same links, so that candidates differ by their parameters alone. `search` writes each
score to the folder as soon as it is known; a search that goes on reads them instead of running them again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from ccarena.configs import load_config
from ccarena.configs.link_distribution import check_range, distribution_of, name_traces
from ccarena.configs.load import merge
from ccarena.configs.ranges import Ranges
from ccarena.configs.schema import EnvConfig, ObjectiveConfig
from ccarena.core.files import check_writable, write_atomically
from ccarena.core.reader import read_data
from ccarena.core.seeds import check_seed
from ccarena.core.terminal import Progress, again
from ccarena.envs.parameter_search import Tried, Values, search
from ccarena.envs.trials import Answers, Candidate, SchemeTrials
from ccarena.errors import ConfigError
from ccarena.eval.heldout.rules import answers_of
from ccarena.eval.measure.sample import Interval, confidence_interval
from ccarena.scenarios.entrants import Entrant, EntrantLike, about, read, with_params

__all__ = ["BEST", "CANDIDATES", "DISTRIBUTION", "OBJECTIVE", "PLAN", "Plan", "TunedScheme", "read_plan", "tune_scheme"]

DISTRIBUTION, OBJECTIVE = "orca", "log_power"
"""The configuration whose links are drawn by default, and the objective."""
PLAN, CANDIDATES, BEST = "plan.yaml", "candidates.csv", "best.yaml"
"""Files of the folder: the arguments, a row per candidate, the result."""
DIGITS = 4
"""Significant digits of tuned parameters; the comparison runs with what is written."""
HELD_OUT = 0x7E57
"""Added to the seed for links that the search does not see."""


@dataclass(frozen=True)
class Plan:
    """The arguments of a search: with the same ones it tries the same candidates."""

    scheme: str
    space: dict[str, tuple[float, float] | None]
    env: dict[str, Any]
    objective: dict[str, Any]
    candidates: int
    links: int
    test_links: int
    seed: int

    def dump(self) -> str:
        """Returns the plan as YAML."""
        space = {name: between and list(between) for name, between in self.space.items()}
        return yaml.safe_dump(asdict(self) | {"space": space}, sort_keys=False, default_flow_style=None, width=100)


@dataclass(frozen=True)
class TunedScheme:
    """The best parameters found, and their comparison with the scheme as it was given."""

    entrant: str
    """The tuned scheme as an entrant (docs/entrants.md)."""
    params: dict[str, float]
    """Tuned parameters."""
    tried: int
    """Candidates that were scored."""
    objective: str
    tuned: float
    """Mean objective on the held-out links."""
    given: float
    """The same of the scheme as it was given."""
    gain: Interval
    """Tuned less given, link by link, with a 95 % confidence interval."""
    complete: bool = True
    """False if the search was interrupted."""

    def dump(self) -> str:
        """Returns the result as YAML."""
        gain = {"mean": self.gain.mean, "low": self.gain.low, "high": self.gain.high, "links": self.gain.n}
        return yaml.safe_dump(asdict(self) | {"gain": gain}, sort_keys=False, width=1000)

    def __str__(self) -> str:
        low, high, where = self.gain.low, self.gain.high, f"on {self.gain.n} links that the search did not see"
        better = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
        if self.gain.mean == 0 and isnan(low):
            gain = f"no difference {where}"
        else:
            gain = f"{self.gain.mean:+.3g} [{low:.3g}, {high:.3g}] {where}: {better}"
        return f"{self.entrant}\n{self.objective} {self.tuned:.4g}, as given {self.given:.4g}: {gain}"


def tune_scheme(
    scheme: EntrantLike,
    space: Mapping[str, Sequence[float] | None] | str | os.PathLike[str],
    distribution: str | os.PathLike[str] | Mapping[str, Any] = DISTRIBUTION,
    objective: str | Mapping[str, Any] = OBJECTIVE,
    *,
    candidates: int = 200,
    links: int = 32,
    test_links: int = 100,
    seed: int = 1,
    threads: int = 2,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> TunedScheme:
    """Searches a scheme's parameters by CMA-ES over whole runs, and compares the best ones with the scheme as given.

    Arguments:
        scheme: an entrant (docs/entrants.md), such as `copa`, `cubic@hystart=0` or `runs/hyvar`.
        space: parameters with `[low, high]`, or None for their own bounds, or a YAML file of them; on a logarithmic
            scale where low is above 0.
        distribution: a configuration whose links are drawn, by name or file, or keys of `env` that differ from the
            default one's.
        objective: an objective of whole runs (docs/training.md), by name or with its coefficients.
        candidates: how many are scored at least.
        links: runs per candidate.
        test_links: links of the comparison, which no candidate ran over.
        seed: seed of the links and of the search; the same one gives the same result on any number of threads.
        threads: runs at once.
        out: folder for the plan, all candidates and the result.
        progress: called with the number of scored candidates and of all.

    Raises ConfigError, PolicyError or TraceError.
    """
    if not isinstance(space, Mapping):
        space = read_space(Path(space))
    ranges = {name: _range(f"space: {name}", between) for name, between in space.items()}
    env = name_traces(_env(distribution)).model_dump(mode="json")
    named = {"name": objective} if isinstance(objective, str) else dict(objective)
    plan = Plan(str(scheme), ranges, env, named, candidates, links, test_links, seed)
    return run(plan, scheme, None if out is None else Path(out), threads, progress)


def run(
    plan: Plan,
    scheme: EntrantLike,
    out: Path | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    resume: bool = False,
) -> TunedScheme:
    """Carries out `plan`, or goes on with it in `out`. Raises what `tune_scheme` does.

    After Ctrl-C the best candidate so far is compared and written, and KeyboardInterrupt says how to go on.
    """
    check_seed(plan.seed)
    with ExitStack() as stack:
        entrant = read(scheme, stack)
        ranges, trials = _prepared(plan, entrant, threads)
        known = _Scores(trials, plan, entrant, out, resume)
        total = plan.candidates + 2
        try:
            best = search(
                ranges,
                {name: known.params[name] for name in ranges.ranges},
                known.score,
                plan.candidates,
                plan.seed,
                lambda tried: progress(len(tried), max(total, len(tried))) if progress else None,
            )
        except KeyboardInterrupt:
            if not known.tried:
                raise
            best = max(known.tried, key=lambda each: each.score)
            found = _compared(plan, entrant, known, ranges, best, complete=False)
            if out is not None:
                write_atomically(out / BEST, found.dump())
            kept = f" (in {out})" if out is not None else ""
            raise KeyboardInterrupt(
                f"interrupted after {found.tried} candidates; best: {found}{kept}; {again()}"
            ) from None
        found = _compared(plan, entrant, known, ranges, best, complete=True)
    if out is not None:
        write_atomically(out / BEST, found.dump())
    return found


def read_space(path: Path) -> dict[str, tuple[float, float] | None]:
    """Reads a space from YAML: parameters, each with `[low, high]` or null. Raises ConfigError."""
    data = read_data(path, "a space in YAML: parameters with their ranges")
    if not isinstance(data, dict) or not data:
        raise ConfigError(f"{path}: expected parameters with their ranges, such as `delta: [0.05, 2]`")
    return {str(name): _range(f"{path}: {name}", between) for name, between in data.items()}


def read_plan(out: Path) -> Plan:
    """Reads the plan of the search in `out`. Raises ConfigError if there is none."""
    try:
        data = read_data(out / PLAN)
        space = {name: _range(name, between) for name, between in data["space"].items()}
        return Plan(**{**data, "space": space})
    except OSError as error:
        raise ConfigError(f"{out}: holds no search ({PLAN}: {error.strerror})") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{out / PLAN}: is damaged: {error}; start anew in another folder") from error


def _range(where: str, between: Any) -> tuple[float, float] | None:
    if between is None:
        return None
    numbers = isinstance(between, (list, tuple)) and all(type(each) in (int, float) for each in between)
    if not numbers or len(between) != 2:
        raise ConfigError(f"{where} = {between!r}: expected [low, high], or null for the parameter's own bounds")
    return float(between[0]), float(between[1])


def _env(distribution: str | os.PathLike[str] | Mapping[str, Any]) -> EnvConfig:
    if isinstance(distribution, Mapping):
        env = load_config(DISTRIBUTION).env.model_dump(mode="json")
        return load_config(DISTRIBUTION, {"env": merge(env, distribution)}).env
    return load_config(distribution).env


def _prepared(plan: Plan, entrant: Entrant, threads: int) -> tuple[Ranges, SchemeTrials]:
    for name, least in (("candidates", 1), ("links", 1), ("test_links", 2)):
        if getattr(plan, name) < least:
            raise ConfigError(f"{name} = {getattr(plan, name)}: expected at least {least}")
    if wrong := set(entrant.flow) & {"weight", "requirement", "ecn", "l4s"}:
        raise ConfigError(f"{entrant.label}: {wrong.pop()} is a setting of a flow; give parameters alone")
    scheme, entry = entrant.flow["scheme"], about(entrant.flow["scheme"])
    if entry.get("assisted") not in (None, "acct"):
        raise ConfigError(f"{entrant.label}: needs routers of its own, which link distributions do not have")
    env, bounds = EnvConfig.model_validate(plan.env), {p["name"]: (p["min"], p["max"]) for p in entry["params"]}
    for name, drawn in env.drawn.items():
        check_range("env.drawn", name, drawn, bounds)
    ranges = Ranges.of(bounds, plan.space, "space")
    params = {p["name"]: p["default"] for p in entry["params"]} | dict(entrant.flow.get("params", {}))
    source = distribution_of(env, scheme, params, whole_runs=True), None
    return ranges, SchemeTrials(source, ObjectiveConfig.model_validate(plan.objective), params, threads)


class _Scores:
    """Scores candidates, and keeps the scores in the folder: what is known is not run again."""

    def __init__(self, trials: SchemeTrials, plan: Plan, entrant: Entrant, out: Path | None, resume: bool) -> None:
        self._trials, self._plan, self._out = trials, plan, out
        self._answers = _answers(entrant)
        entry = about(entrant.flow["scheme"])
        self.params = {p["name"]: float(p["default"]) for p in entry["params"]} | dict(entrant.flow.get("params", {}))
        self.tried: list[Tried] = []
        self._known: dict[tuple[float, ...], float] = {}
        if out is None:
            return
        check_writable(out)
        if resume:
            self._known = _read_candidates(out / CANDIDATES, list(plan.space))
        elif (out / PLAN).exists():
            raise ConfigError(f"{out}: holds a search already; go on with it (--resume), or name another folder")
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_atomically(out / PLAN, plan.dump())

    def score(self, asked: Sequence[Values]) -> list[float]:
        """Returns the mean objective of each candidate over the links of the search."""
        keys = [tuple(each.values()) for each in asked]
        new = [each for key, each in zip(keys, asked, strict=True) if key not in self._known]
        for each, score in zip(new, self.scores(new, self._plan.seed, self._plan.links), strict=True):
            self._known[tuple(each.values())] = float(score.mean())
        self.tried += [Tried(each, self._known[key]) for key, each in zip(keys, asked, strict=True)]
        if new and self._out is not None:
            write_atomically(self._out / CANDIDATES, _csv([*self._plan.space, "score"], self._known))
        return [self._known[key] for key in keys]

    def scores(self, asked: Sequence[Values], seed: int, links: int) -> list[NDArray[np.float64]]:
        """Returns the objective of each candidate on each link, `[links]`."""
        done = self._trials.run([Candidate(self._answers, each) for each in asked], seed, links)
        return [outcome.by_trial for outcome in done]


def _csv(head: Sequence[str], rows: Mapping[tuple[float, ...], float]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([*map(repr, key), repr(score)] for key, score in rows.items())
    return text.getvalue()


def _read_candidates(path: Path, names: list[str]) -> dict[tuple[float, ...], float]:
    if not path.exists():
        return {}
    try:
        head, *rows = csv.reader(path.read_text("utf-8").splitlines())
        if head != [*names, "score"]:
            raise ValueError(f"columns {', '.join(head)}")
        return {tuple(map(float, row[:-1])): float(row[-1]) for row in rows}
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: is damaged: {error}; delete it to score its candidates again") from error


def _answers(entrant: Entrant) -> Answers:
    if entrant.policy_file is not None:
        return entrant.policy_file.read_bytes()
    return None if entrant.policy is None else answers_of(entrant.policy)


def _compared(
    plan: Plan, entrant: Entrant, scores: _Scores, ranges: Ranges, best: Tried, complete: bool
) -> TunedScheme:
    given = {name: scores.params[name] for name in ranges.ranges}
    params = given if best.values == given else _rounded(best.values, ranges)
    before, after = scores.scores([given, params], plan.seed + HELD_OUT, plan.test_links)
    return TunedScheme(
        with_params(entrant, params),
        params,
        len(scores.tried),
        plan.objective["name"],
        float(after.mean()),
        float(before.mean()),
        confidence_interval(after - before),
        complete,
    )


def _rounded(values: Values, ranges: Ranges) -> dict[str, float]:
    """Returns values as they are written, inside their ranges."""
    out = {}
    for name, value in values.items():
        low, high = ranges.ranges[name]
        out[name] = min(max(float(f"{value:.{DIGITS}g}"), low), high)
    return out
