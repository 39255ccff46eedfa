"""Headroom of the league: how far the best heuristic is from an oracle, by family, and so what is left to learn.

The headroom is the oracle's score over the best heuristic's, less 1, as the geometric mean over the family's links. The
best heuristic is the one with the highest mean in the family; the best of each link is chosen with hindsight, as by a
perfect chooser of schemes. Heuristics are the registry's schemes that need neither a policy nor a router's help.
Intervals (95 %) are bootstraps over links; all pieces of one recording are drawn together.

Of a lone sender, the causal oracle shows how much of the headroom an end-to-end sender can reach, since nobody tells it
the capacity. Where flows share a link, the best heuristic of each link shows what is within reach at least.

`ccarena.eval.heldout.league` defines the scores and the oracles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.league import SHARED_FROM, family_of
from ccarena.eval.heldout.link import PACKET_BYTES, Link
from ccarena.eval.heldout.oracle import best_score
from ccarena.eval.measure.record import Record
from ccarena.eval.measure.table import LEAST_SCORE, normalised_power, value
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.schemes import heuristics, registered

__all__ = ["CAUSAL", "ENOUGH", "EVERY", "SCORE", "Headroom", "bounds", "headroom", "league_scores", "score_of"]

SCORE = "league_score"
"""Column of the rows with the score of the league."""
CAUSAL = "causal oracle"
"""Label of the oracle that nobody tells the capacity; in the oracle's rows the column with its score."""
ENOUGH = 0.05
"""Headroom from which on there is something to learn."""
RESAMPLES = 2000
FAIR = 1.0
"""Score of the fair oracle, where flows share a link."""
EVERY = "all families"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Headroom:
    """Headroom of a family, or of one kind of its links."""

    family: str
    links: int
    synthetic: int
    """Links that replace recordings."""
    oracle: float
    """Score of the oracle, the geometric mean over links, as are the others."""
    best: str
    """Heuristic with the highest score."""
    score: float
    """Score of the best heuristic."""
    gain: float
    """Headroom above the best heuristic."""
    low: float
    high: float
    gain_of_links: float
    """Headroom above the best heuristic of each link."""
    window: float
    """Score of the best fixed window of each link; NaN where flows share it."""
    causal: float
    """Score of the causal oracle; NaN where flows share a link."""
    reach: float
    """Headroom within reach of an end-to-end sender, above the best heuristic: to the causal oracle; where flows share
    a link, to the best heuristic of each link."""
    reach_low: float
    reach_high: float

    @property
    def answer(self) -> str:
        """Returns whether learning can gain more than `ENOUGH`: yes, no or undecided."""
        return _answer(self.low, self.high)

    @property
    def bound(self) -> str:
        """Returns what keeps the best heuristic from a higher score.

        - `link`: at most `ENOUGH` is left to a sender that is told the capacity.
        - `knowledge`: more is left to that sender, but not to one that nobody tells the capacity.
        - `controller`: more is left to any end-to-end sender.
        """
        if self.answer == "no":
            return "link"
        within = _answer(self.reach_low, self.reach_high)
        if within == "yes":
            return "controller"
        is_known = math.isfinite(self.causal)
        return "knowledge" if is_known and within == "no" and self.answer == "yes" else "undecided"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {**asdict(self), "answer": self.answer, "bound": self.bound}


def _answer(low: float, high: float) -> str:
    """Returns whether a gain is more than `ENOUGH`, from its interval."""
    return "yes" if low > ENOUGH else "no" if high < ENOUGH else "undecided"


def score_of(link: Link, run: Run) -> float:
    """Returns the score of a run on a link of the league; 0 if nothing came through."""
    score = _score_of(link, run)
    return score if math.isfinite(score) else 0.0


def _score_of(link: Link, run: Run) -> float:
    if not link.shared:
        return float(value(run.measured().flows[0], "score"))
    record = Record(run.document, run.result, (SHARED_FROM * link.duration_s, link.duration_s))
    fair = float(value(record.flows[0], "score_sharing")) if link.shared != "short" else 1.0
    if link.shared == "rival":
        return fair
    [whole] = record.links
    used, delay_ms = (float(value(whole, name)) for name in ("utilisation", "queueing_delay_mean_ms"))
    return fair * normalised_power(used, delay_ms, link.base_rtt_ms)


def bounds(link: Link, capacity_mbps: Floats) -> dict[str, float]:
    """Returns the scores of both oracles on a link with a lone sender, from its capacity in each millisecond."""
    limit = link.buffer_packets * PACKET_BYTES
    score = partial(best_score, capacity_mbps, 1.0, link.base_rtt_ms, limit, by_opportunities=link.recorded)
    return {SCORE: score(), CAUSAL: score(is_causal=True)}


@dataclass(frozen=True)
class _Scores:
    """Logarithms of scores by entrant, `[links]`, of a family or a kind of its links."""

    of: dict[str, Floats]
    oracle: Floats
    blocks: list[str]
    """Links of a block are drawn together."""
    synthetic: int


def headroom(result: Evaluation) -> list[Headroom]:
    """Returns the headroom of each family, and of each kind of shared links; empty without links of the league."""
    known = _heuristics(result)
    out = []
    for name, scores in _families(result).items():
        mine = {label: scores.of[label] for label in known if label in scores.of}
        if not mine:
            continue
        best = max(mine, key=lambda label: float(mine[label].mean()))
        each = scores.oracle - mine[best]
        low, high = _interval(each, scores.blocks)
        chosen = np.max(list(mine.values()), axis=0)
        within = scores.of.get(CAUSAL, chosen) - mine[best]
        about = (len(each), scores.synthetic, _mean(scores.oracle), best, _mean(mine[best]))
        gains = (_mean(each) - 1, low, high, _mean(scores.oracle - chosen) - 1)
        window, causal = (_mean(scores.of.get(who)) for who in (BEST_WINDOW, CAUSAL))
        reach = (_mean(within) - 1, *_interval(within, scores.blocks))
        out.append(Headroom(name, *about, *gains, window, causal, *reach))
    return out


def _mean(logs: Floats | None) -> float:
    """Returns the geometric mean; NaN of nobody."""
    return math.nan if logs is None else float(np.exp(logs.mean()))


def league_scores(result: Evaluation) -> dict[str, dict[str, float]]:
    """Returns each entrant's score by family and kind, and over all families, which count alike; the highest first.

    The oracles are among the entrants. An entrant that did not run on all links of a family has no score there.
    """
    families = _families(result)
    whole = [name for name in families if ":" not in name]
    out: dict[str, dict[str, float]] = {}
    for label in dict.fromkeys([ORACLE, CAUSAL, *result.schemes()]):
        logs = {name: s.oracle if label == ORACLE else s.of.get(label) for name, s in families.items()}
        means = {name: float(np.mean(log)) for name, log in logs.items() if log is not None}
        if means:
            out[label] = {name: math.exp(mean) for name, mean in means.items()}
            if all(name in means for name in whole):
                out[label][EVERY] = math.exp(float(np.mean([means[name] for name in whole])))
    return dict(sorted(out.items(), key=lambda item: -item[1].get(EVERY, 0.0)))


def _heuristics(result: Evaluation) -> list[str]:
    """Returns the labels of the heuristics of an evaluation."""
    plain = {name for name in heuristics() if not registered()[name]["assisted"] and name != "fixed"}
    return [
        label
        for label, flow in result.entrants.items()
        if isinstance(flow.get("scheme"), str) and flow["scheme"] in plain and "controller" not in flow
    ]


def _families(result: Evaluation) -> dict[str, _Scores]:
    """Returns the scores of each family, and after `shared` those of each kind of its links."""
    rows = [row for row in result.valid_rows() if SCORE in row]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    found: dict[str, list[str]] = {}
    for group in groups:
        found.setdefault(family_of(group), []).append(group)
    out = {}
    for family, its in found.items():
        out[family] = _scores([row for row in rows if row["group"] in its])
        for group in its if len(its) > 1 else ():
            kind = group.partition(", ")[2]
            out[kind] = _scores([row for row in rows if row["group"] == group])
    return out


def _scores(rows: Iterable[Mapping[str, Any]]) -> _Scores:
    by_link: dict[tuple[str, str, int], dict[str, float]] = {}
    synthetic = set()
    for row in rows:
        link = (str(row["group"]), str(row["link"]), int(row["seed"]))
        if row["synthetic"]:
            synthetic.add(link)
        scores = by_link.setdefault(link, {ORACLE: math.log(FAIR)} if row["shared"] else {})
        log = math.log(max(float(row[SCORE]), LEAST_SCORE))
        scores[row["scheme"]] = log
        if CAUSAL in row:
            scores[CAUSAL] = math.log(max(float(row[CAUSAL]), LEAST_SCORE))
    links = [link for link, scores in by_link.items() if ORACLE in scores]
    labels = dict.fromkeys(label for link in links for label in by_link[link])
    of = {
        label: np.array([by_link[link][label] for link in links])
        for label in labels
        if label != ORACLE and all(label in by_link[link] for link in links)
    }
    oracle = np.array([by_link[link][ORACLE] for link in links])
    return _Scores(of, oracle, [f"{group} {name.partition(',')[0]}" for group, name, _ in links], len(synthetic))


def _interval(logs: Floats, blocks: Sequence[str]) -> tuple[float, float]:
    """Returns the bootstrap interval of the mean, as a gain; NaN of a single block."""
    names = list(dict.fromkeys(blocks))
    if len(names) < 2:
        return math.nan, math.nan
    at = np.array([names.index(block) for block in blocks])
    sums, counts = np.bincount(at, weights=logs), np.bincount(at)
    rng = np.random.Generator(np.random.PCG64(0))
    drawn = rng.integers(0, len(names), (RESAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.expm1(np.quantile(means, [0.025, 0.975]))
    return float(low), float(high)
