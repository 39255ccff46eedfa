"""Loop of an attack: cases from three sources are run, and the archive keeps the worst of each harm and kind of link.

The first cases are random. Then generations of CMA-ES climb towards the worst case of one harm and competition after
the other. In between, changes and mixtures of archived cases fill the archive (MAP-Elites). Every generation draws from
a generator of its own, and the journal keeps all results. A resumed attack therefore finds the same as one without an
interruption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ccarena.attacks.archive import Archive
from ccarena.attacks.case import Case, Competition
from ccarena.attacks.harms import Harm
from ccarena.attacks.space import Genes, Space
from ccarena.attacks.trial import SEED, Outcome, Trials
from ccarena.configs.learning import CmaEsConfig
from ccarena.core.cma_es import CmaEs
from ccarena.core.terminal import Progress

__all__ = ["Tried", "search"]

FIRST_PART = 0.3
"""Part of the candidates that is random."""
BATCH = 32
"""Candidates of a random batch, and of a batch of changes."""
POPULATION = 12
"""Candidates of a generation of CMA-ES."""
SIGMA = 0.2
"""Standard deviation of its first generation, in widths of the genes."""
STALE = 4
"""Generations without a worse case, after which CMA-ES starts from another one."""
TRIES = 20
"""Attempts at a case that was not tried before, for each that is wanted."""
CHANGED, MIXED = 0.15, 0.3
"""Share of a case's genes that are changed, and of cases that are mixtures of two."""


Target: TypeAlias = tuple[str, str | None]
"""Harm, and who is beside the entrant; None leaves that to the genes."""


@dataclass(frozen=True)
class Tried:
    """Candidate and its outcome."""

    number: int
    source: str
    """`random`, `cma-es` or `archive`."""
    case: Case
    outcome: Outcome


@dataclass
class _Climb:
    """CMA-ES towards the worst case of one harm."""

    strategy: CmaEs
    best: float
    stale: int = 0


class _Search:
    """State of a search."""

    def __init__(self, space: Space, harms: Mapping[str, Harm], trials: Trials, seed: int, archive: Archive) -> None:
        self.space, self.harms, self.trials, self.seed = space, harms, trials, seed
        self.archive = archive
        self.tried: list[Tried] = []
        self._competitions: list[Competition | None] = list(
            dict.fromkeys(each.competition for each in harms.values() if each.competition is not None)
        ) or [None]
        self._climbs: dict[Target, _Climb] = {}
        self._generation = 0

    def random(self, count: int) -> None:
        """Runs random cases, in each competition in turn."""
        rng = self._rng()
        genes = [rng.random(self.space.size) for _ in range(count)]
        competitions = [self._competitions[index % len(self._competitions)] for index in range(count)]
        self._judge("random", genes, [self.space.case(*each) for each in zip(genes, competitions, strict=True)])

    def targets(self) -> list[Target]:
        """Returns the harms with each competition in which they are defined, one competition after the other."""
        found: dict[str, list[str | None]] = {}
        for name, harm in self.harms.items():
            found[name] = [None] if harm.competition is None else list(self.space.competitions()[harm.competition])
        most = max(len(besides) for besides in found.values())
        return [(name, besides[turn]) for turn in range(most) for name, besides in found.items() if turn < len(besides)]

    def climb(self, target: Target) -> None:
        """Runs a generation of CMA-ES towards the worst case of a harm in a competition, if any case has some of it."""
        (harm, beside), rng = target, self._rng()
        elites = [each for each in self.archive.of(harm) if beside in (None, each.case.values["beside"])]
        if not elites:
            return
        climb = self._climbs.get(target)
        if climb is None or climb.stale >= STALE:
            start = elites[0 if climb is None else int(rng.integers(len(elites)))]
            seed = int(rng.integers(2**31))
            climb = _Climb(CmaEs(start.genes, 0, CmaEsConfig(sigma=SIGMA, population=POPULATION), seed), start.severity)
            self._climbs[target] = climb
        genes = list(np.clip(climb.strategy.ask(), 0.0, 1.0))
        outcomes = self._judge("cma-es", genes, [self.space.case(each, beside=beside) for each in genes])
        severities = np.array([each.value(harm) / self.harms[harm].threshold for each in outcomes])
        climb.strategy.tell(severities, 0.0)
        climb.stale = climb.stale + 1 if severities.max() <= climb.best else 0
        climb.best = max(climb.best, float(severities.max()))

    def change(self, count: int) -> None:
        """Runs cases that are changes or mixtures of archived ones."""
        rng, elites = self._rng(), list(self.archive.cells.values())
        if not elites:
            return self.random(count)
        genes: list[Genes] = []
        cases: list[Case] = []
        known = {each.case.id for each in self.tried}
        for _ in range(TRIES * count):
            if len(genes) == count:
                break
            parent, other = (elites[int(rng.integers(len(elites)))] for _ in range(2))
            child = parent.genes.copy()
            if rng.random() < MIXED:
                from_other = rng.random(child.size) < 0.5
                child[from_other] = other.genes[from_other]
            changed = rng.random(child.size) < CHANGED
            changed[int(rng.integers(child.size))] = True
            child[changed] = np.clip(child[changed] + rng.normal(0.0, SIGMA, int(changed.sum())), 0.0, 1.0)
            case = self.space.case(child, self.harms[parent.harm].competition)
            if case.id not in known:
                known.add(case.id)
                genes.append(child)
                cases.append(case)
        if not genes:
            return self.random(count)
        self._judge("archive", genes, cases)
        return None

    def _judge(self, source: str, genes: Sequence[Genes], cases: Sequence[Case]) -> list[Outcome]:
        outcomes = self.trials.run([(case, SEED) for case in cases])
        for each, case, outcome in zip(genes, cases, outcomes, strict=True):
            number = len(self.tried)
            self.tried.append(Tried(number, source, case, outcome))
            self.archive.add(number, each, case, outcome)
        return outcomes

    def _rng(self) -> np.random.Generator:
        self._generation += 1
        return np.random.Generator(np.random.PCG64([self.seed, 0xA77AC, self._generation]))


def search(
    space: Space,
    harms: Mapping[str, Harm],
    trials: Trials,
    archive: Archive,
    candidates: int,
    seed: int,
    progress: Progress | None = None,
) -> list[Tried]:
    """Tries about `candidates` cases, fills the archive, and returns all that were tried."""
    state = _Search(space, harms, trials, seed, archive)
    targets, turn = state.targets(), 0
    while (done := len(state.tried)) < candidates:
        left = candidates - done
        if done < FIRST_PART * candidates:
            state.random(min(BATCH, left))
        elif turn % 3 < 2 and left >= POPULATION:
            state.climb(targets[(turn - turn // 3) % len(targets)])
            turn += 1
        else:
            state.change(min(BATCH, left))
            turn += 1
        if progress is not None:
            progress(min(len(state.tried), candidates), candidates)
    return state.tried
