"""Rewards that native code computes from a scheme's reports, in one call for all rows of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ccarena import _core
from ccarena.policies.spec import Spec

__all__ = ["NativeReward"]

PRIVILEGED = "privileged."


class NativeReward:
    """Reward of `crates/ccarena-sim/src/rewards.rs`: `columns` of the report, or of the privileged state if their names
    begin with "privileged.", in the order in which the native code reads them.
    """

    def __init__(self, name: str, columns: Sequence[str], coefficients: Sequence[float]) -> None:
        self._name, self._columns, self._coefficients = name, columns, coefficients

    @property
    def needs_privileged(self) -> bool:
        """Returns whether it reads privileged state."""
        return any(column.startswith(PRIVILEGED) for column in self._columns)

    def of(self, spec: Spec, report: Callable[[str], int], privileged: Callable[[str], int]) -> _core.Reward:
        """Returns the reward for a scheme; `report` and `privileged` find the numbers of columns by their names."""
        places = [
            (True, privileged(column.removeprefix(PRIVILEGED)))
            if column.startswith(PRIVILEGED)
            else (False, report(column))
            for column in self._columns
        ]
        return _core.Reward(self._name, places, self._coefficients, spec.actions)
