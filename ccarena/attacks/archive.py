"""Archive of an attack: the worst case of each harm and kind of link (MAP-Elites, Mouret and Clune 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccarena.attacks.case import Case
from ccarena.attacks.harms import Harm
from ccarena.attacks.space import Genes, Space
from ccarena.attacks.trial import Outcome

__all__ = ["Archive", "Elite"]


@dataclass(frozen=True)
class Elite:
    """Worst case of a cell."""

    number: int
    """Number of the candidate."""
    harm: str
    kind: str
    """Kind of link: the case's mechanism."""
    genes: Genes
    case: Case
    severity: float
    """Value of the harm over its threshold; a counterexample from 1 on."""


@dataclass
class Archive:
    """Elites by harm and kind of link."""

    space: Space
    harms: Mapping[str, Harm]
    cells: dict[tuple[str, str], Elite] = field(default_factory=dict)

    def add(self, number: int, genes: Genes, case: Case, outcome: Outcome) -> None:
        """Adds a case to the cells in which it is the worst so far."""
        kind = case.mechanism(self.space.plain)
        for name, harm in self.harms.items():
            severity = outcome.value(name) / harm.threshold
            before = self.cells.get((name, kind))
            if severity > 0 and (before is None or severity > before.severity):
                self.cells[name, kind] = Elite(number, name, kind, genes, case, severity)

    def of(self, harm: str) -> list[Elite]:
        """Returns the elites of a harm, the worst first."""
        found = [elite for (name, _), elite in self.cells.items() if name == harm]
        return sorted(found, key=lambda each: (-each.severity, each.number))

    def counterexamples(self, most: int) -> list[Elite]:
        """Returns at most `most` counterexamples of each harm, with different competition or disturbances: the worst,
        then those with fewest disturbances.
        """
        plain = self.space.plain
        found = []
        for name in self.harms:
            groups: dict[tuple[str, ...], Elite] = {}
            for elite in self.of(name):
                if elite.severity >= 1.0:
                    group = (str(elite.case.values["beside"]), *elite.case.disturbances(plain))
                    groups.setdefault(group, elite)
            worst_first = list(groups.values())
            others = sorted(
                worst_first[1:], key=lambda each: (len(each.case.disturbances(plain)), -each.severity, each.number)
            )
            found += [*worst_first[:1], *others][:most]
        return found
