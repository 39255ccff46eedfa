"""Rewards: the built-in ones by name, or any callable of the user's own file.

A reward is a function, or a class whose objects are called, with parameters among these, by name:

    report       `Columns`: what the scheme reported of N decision intervals; `report.rtt_ms` is `float32[N]`
    privileged   `Columns`: what only the simulator knows of them, such as `privileged.capacity_mbps`; not on the kernel
    spec         `ccarena.policies.spec.Spec`: the scheme's actions and names

It answers `[N]` numbers, unscaled. Every further parameter is a coefficient: a key of `reward` in the configuration.

    def power(report, exponent=1.0):
        return report.throughput_mbps**exponent / report.rtt_ms
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.configs.schema import RewardConfig
from ccarena.configs.userfile import bind, find, is_own
from ccarena.core.learned_schemes import learned_schemes
from ccarena.envs.native_reward import NativeReward
from ccarena.errors import ConfigError, did_you_mean
from ccarena.policies.spec import Spec

__all__ = ["Columns", "Reward", "built_in", "coefficients"]


GIVEN = ("report", "privileged", "spec")
"""Parameters that are no coefficients."""
PROBES = 2
"""Number of all-zero rows on which a reward is tried before anything is simulated."""


def built_in() -> dict[str, str]:
    """Returns the built-in rewards by name: `power`, and those of learned schemes, each as `MODULE:FUNCTION`."""
    own = {name: scheme.reward for name, scheme in learned_schemes().items() if scheme.reward is not None}
    return {**own, "power": "ccarena.envs.power:power"}


class Columns(Mapping[str, NDArray[Any]]):
    """Named columns of a table `[N, columns]`: `columns.rtt_ms` or `columns["rtt_ms"]`, `[N]`.

    Errors for an unknown column name the table (`what`), and the configuration's `key` that refers to it.
    """

    __slots__ = ("_index", "_key", "_table", "_what")

    def __init__(self, table: NDArray[Any], index: Mapping[str, int], what: str, key: str = "reward") -> None:
        self._table, self._index, self._what, self._key = table, index, what, key

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._table[:, self.number(name)]

    def number(self, name: str) -> int:
        """Returns the number of a column. Raises ConfigError if there is none of this name."""
        try:
            return self._index[name]
        except KeyError:
            raise ConfigError(
                f'{self._key}: there is no column "{name}" in {self._what}{did_you_mean(name, self._index)}'
            ) from None

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)


class Reward:
    """Reward with its coefficients, for one scheme. Raises ConfigError if it does not fit the scheme's report."""

    def __init__(self, reward: RewardConfig | Callable[..., ArrayLike], spec: Spec) -> None:
        self._spec = spec
        self._call: Callable[..., ArrayLike] | NativeReward
        if isinstance(reward, RewardConfig):
            self._name = reward.name
            self._call, self._coefficients = _with_coefficients(_named(reward.name), reward)
        else:
            self._name = getattr(reward, "__name__", type(reward).__name__)
            self._call, self._coefficients = reward, {}
        self._report = {name: column for column, name in enumerate(spec.report)}
        self._privileged = {name: column for column, name in enumerate(spec.privileged)}
        self._given: list[str] = []
        self.native: _core.Reward | None = None
        """The reward in native code, which worlds compute while they step; None for one in Python."""
        if isinstance(self._call, NativeReward):
            reports, privileged = self._columns(*self._empty())
            self.native = self._call.of(spec, reports.number, privileged.number)
            self._given = ["report", *(["privileged"] if self._call.needs_privileged else [])]
        else:
            takes = _parameters(self._call)
            self._given = [name for name in GIVEN if name in takes]
        self._check()

    @property
    def needs_privileged(self) -> bool:
        """Returns whether the reward uses privileged state."""
        return "privileged" in self._given

    def __call__(
        self, reports: NDArray[np.float32], privileged: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Rewards `[N]` from reports `[N, len(spec.report)]` and privileged state `[N, len(spec.privileged)]`.

        Raises ConfigError if the user's own answers another shape or a value that is not finite.
        """
        if self.needs_privileged and privileged is None:
            raise ConfigError(
                f"reward = {self._name}: it takes `privileged`, which only the simulator knows; on the kernel give "
                "another reward"
            )
        if self.native is not None:
            out, finite = self.native(reports, privileged)
            return out if finite else self.check(out, reports)
        out = np.asarray(self._answer(reports, privileged))
        if out.shape != (len(reports),) or out.dtype.kind not in "fiub":
            raise ConfigError(
                f"reward = {self._name}: it answered {out.dtype} of shape {out.shape}; expected {len(reports)} "
                "numbers, one per row of the columns that it is given"
            )
        return self.check(out.astype(np.float32, copy=False), reports)

    def check(self, out: NDArray[np.float32], reports: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the rewards `out` of `reports`. Raises ConfigError if one is not finite."""
        if not np.isfinite(out).all():
            row = int(np.flatnonzero(~np.isfinite(out))[0])
            seen = dict(zip(self._spec.report, reports[row].tolist(), strict=True))
            raise ConfigError(
                f"reward = {self._name}: it answered {out[row]} for the report {seen}; guard divisions and logarithms "
                "against intervals in which nothing arrived"
            )
        return out

    def _answer(self, reports: NDArray[np.float32], privileged: NDArray[np.float32] | None) -> ArrayLike:
        assert not isinstance(self._call, NativeReward), "which is asked in one call"
        given: dict[str, Any] = dict(zip(GIVEN, (*self._columns(reports, privileged), self._spec), strict=True))
        return self._call(**{name: given[name] for name in self._given}, **self._coefficients)

    def _columns(self, reports: NDArray[np.float32], privileged: NDArray[np.float32] | None) -> tuple[Columns, Columns]:
        known = np.empty((len(reports), 0), np.float32) if privileged is None else privileged
        return (
            Columns(reports, self._report, f"the report of {self._spec.name}"),
            Columns(known, self._privileged, "the simulator's privileged state"),
        )

    def _empty(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return (
            np.zeros((PROBES, len(self._spec.report)), np.float32),
            np.zeros((PROBES, len(self._spec.privileged)), np.float32),
        )

    def _check(self) -> None:
        """Calls the reward once with empty intervals, so that unknown names are found before training."""
        if not self._given:
            raise ConfigError(f"reward = {self._name}: it takes none of {', '.join(GIVEN)}; expected `report` at least")
        try:
            self(*self._empty())
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"reward = {self._name}: with a report of zeros it raised {type(error).__name__}: {error}"
            ) from error


def coefficients(name: str) -> dict[str, inspect.Parameter]:
    """Returns the coefficients of the reward `name`."""
    found = _named(name)
    return {key: p for key, p in inspect.signature(found).parameters.items() if key not in GIVEN}


def _named(name: str) -> Callable[..., Any]:
    if is_own(name):
        found = find(name, "reward")
        if not callable(found):
            raise ConfigError(f"reward = {name}: it is no function or class")
        return found
    known = built_in()
    if name not in known:
        raise ConfigError(
            f"reward = {name}: unknown reward, and no FILE.py:NAME of your own{did_you_mean(name, known)}"
        )
    module, _, attribute = known[name].partition(":")
    return getattr(import_module(module), attribute)


def _with_coefficients(
    found: Callable[..., Any], config: RewardConfig
) -> tuple[Callable[..., Any] | NativeReward, dict[str, Any]]:
    """Returns the callable and its coefficients: an object of a class has them already."""
    bound = bind(found, config.arguments, "reward", config.name, GIVEN)
    if not inspect.isclass(found):
        return found, bound
    made: Any = found(**bound)
    return made, {}


def _parameters(call: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(call).parameters)
