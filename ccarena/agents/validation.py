"""Validation of a policy during training, for every algorithm: its artifact runs on links that training does not draw.

For each class of links in the configuration, `validation.links` links are generated from the ranges of `env.link`, with
seeds that no training uses. Classes of recorded traces use the validation set (`ccarena.traces.held_out`). Every
validation runs the same links from their start, so that scores differ only by the policy.

The score is the mean over classes of the configuration's `objective` over whole runs. If the objective is `reward`, it
is the mean reward per decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.agents.algorithm import Context, Stats
from ccarena.agents.progress import ReportSums, summarise
from ccarena.configs.schema import LinkKinds, TrainConfig
from ccarena.envs.trials import Candidate, Trials
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.errors import ConfigError
from ccarena.policies.artifact import Artifact
from ccarena.traces import available
from ccarena.traces.held_out import VALIDATION

__all__ = ["Best", "Validated", "Validator", "kinds_of"]

_MARK = 0x56414C49
"""Offset that separates these seeds from those of trainings."""
_EPISODE_S = 60.0
"""Length of an episode. Most links are judged within one episode, all for equally many decisions; another link follows
an earlier end.
"""


@dataclass(frozen=True)
class Validated:
    """Results of a policy on the validation links."""

    classes: dict[str, dict[str, float]]
    """Figures by class of links: `score`, which judges, `reward`, the mean per decision, and means and shares of the
    configuration's `progress`.
    """
    actions: dict[str, NDArray[np.float64]]
    """Values of all actions, by class."""

    @property
    def score(self) -> float:
        """Returns the score by which policies are compared: the mean over classes of links."""
        return self._mean("score")

    def row(self) -> dict[str, float]:
        """Returns `score` and `reward`, means over classes, and `CLASS/FIGURE` of each class."""
        figures = {f"{name}/{key}": value for name, each in self.classes.items() for key, value in each.items()}
        return {"score": self.score, "reward": self._mean("reward"), **figures}

    def _mean(self, figure: str) -> float:
        return float(np.mean([each[figure] for each in self.classes.values()]))


class Validator:
    """Validator that runs policies over the validation links of a training."""

    def __init__(self, context: Context) -> None:
        config = context.config
        self._spec, self._settings, self._threads = context.spec, config.validation, config.threads
        self._sums = ReportSums(context.spec, config.progress)
        self._configs = {kind: _only(config, kind) for kind in kinds_of(config)}
        self._trials: dict[str, Trials] = {}
        if config.objective.name != "reward":
            self._trials = {kind: Trials(each, self._spec, self._threads) for kind, each in self._configs.items()}
        mixed = np.random.SeedSequence([_MARK, self._settings.seed])
        self._seed = int(mixed.generate_state(1, np.uint64)[0] >> np.uint64(1))
        self._values = np.asarray(context.spec.actions)

    def __call__(self, policy: Artifact) -> Validated:
        """Returns the results of `policy`. The same policy gets the same results, on any number of threads."""
        classes: dict[str, dict[str, float]] = {}
        actions: dict[str, NDArray[np.float64]] = {}
        for kind, config in self._configs.items():
            figures, actions[kind] = self._run(config, policy)
            classes[kind] = {"score": self._score(kind, policy, figures["reward"]), **figures}
        return Validated(classes, actions)

    def _score(self, kind: str, policy: Artifact, reward: float) -> float:
        if kind not in self._trials:
            return reward
        drawn = self._configs[kind].env.drawn
        params = {name: value for name, value in policy.params.items() if name not in drawn}
        return self._trials[kind].run([Candidate(policy.encode(), params)], self._seed, self._settings.links)[0].score

    def _run(self, config: TrainConfig, policy: Artifact) -> tuple[dict[str, float], NDArray[np.float64]]:
        # An algorithm may have found parameters of the spec, too.
        config = config.model_copy(update={"params": dict(policy.params)})
        rows = self._settings.links * config.env.learners
        long = config.env.model_copy(update={"episode_s": (_EPISODE_S, _EPISODE_S)})
        envs = LearnedVectorEnv(config.model_copy(update={"env": long}), rows, threads=self._threads, copy=False)
        observations, _ = envs.reset(seed=self._seed)
        lived = _natively if policy.interface.bounds is None and not policy.graph.state_len else _step_by_step
        reports, rewards, taken = lived(envs, policy, observations, self._settings.decisions)
        envs.close()
        stats: Stats = {"decisions": float(rewards.size), "reward": float(rewards.sum(dtype=np.float64))}
        row = summarise(stats | self._sums(reports.reshape(-1, reports.shape[-1])))
        figures = {"reward": row.pop("reward_mean"), **row}
        taken = self._values[taken.astype(int)] if policy.interface.bounds is None else taken
        return {name: value for name, value in figures.items() if value is not None}, taken.ravel()


Lived = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]
"""Results of T decisions in N rows: reports `[T, N, report]`, rewards `[T, N]` and actions `[T, N]`."""


def _natively(envs: LearnedVectorEnv, policy: Artifact, _: NDArray[np.float32], decisions: int) -> Lived:
    """Runs a native rollout, which takes the discrete action of the largest logit as the policy does."""
    noise = np.zeros((decisions, envs.num_envs, envs.scheme.outputs), np.float32)
    seen = envs.rollout(_core.Policy.of(policy.encode()), noise)
    return seen.reports, envs.rewards_of(seen.reports, seen.privileged), seen.drawn


def _step_by_step(envs: LearnedVectorEnv, policy: Artifact, observations: NDArray[np.float32], decisions: int) -> Lived:
    """Runs any policy, stepped from Python."""
    rows = envs.num_envs
    state = np.zeros((rows, policy.graph.state_len), np.float32) if policy.graph.state_len else None
    reports, rewards, taken = [], np.empty((decisions, rows), np.float32), []
    for step in range(decisions):
        actions = policy.act(observations, state)
        taken.append(actions)
        given = actions if policy.interface.bounds is None else actions.reshape(rows, -1)
        observations, rewards[step], _, _, infos = envs.step(given)
        reports.append(np.array(infos["reports"]))
    return np.stack(reports), rewards, np.stack(taken)


def kinds_of(config: TrainConfig) -> list[str]:
    """Returns the classes of links to validate on, without `trace` if no recording of the validation set is found.

    Raises ConfigError if no class is left.
    """
    kinds: list[str] = [kind for kind in config.validation.kinds if kind != "trace" or _recordings()]
    if config.validation.kinds and not kinds:
        raise ConfigError(
            f"validation.kinds: only trace is given, and no recording of the validation set ({', '.join(VALIDATION)}) "
            "was found; fetch it with `ccarena traces fetch nyc-lte`, name a folder in CCARENA_TRACE_DIR, or give "
            "another kind of links"
        )
    return kinds


def _recordings() -> list[str]:
    """Returns the recordings of the validation set that are found here."""
    return [name for name in VALIDATION if name in available()]


def _only(config: TrainConfig, kind: str) -> TrainConfig:
    """Returns `config` with links of one class alone."""
    weights = {name: float(name == kind) for name in LinkKinds.model_fields}
    link = config.env.link.model_copy(update={"kinds": LinkKinds(**weights), "traces": _recordings() or "auto"})
    env = config.env.model_copy(update={"link": link})
    return config.model_copy(update={"env": env})


@dataclass
class Best:
    """Best policy so far, and the number of validations since; a part of checkpoints."""

    policy: bytes = b""
    """File of the artifact; empty before the first validation."""
    score: float = -np.inf
    decisions: int = 0
    """Decisions of the training at the best policy's validation."""
    validated: int = 0
    """Decisions at the last validation."""
    worse: int = field(default=0)
    """Number of validations since then, none of them better."""

    def offer(self, policy: bytes, score: float, decisions: int) -> bool:
        """Takes a validation's result. Returns whether it is the best so far; of equal scores the first stays."""
        self.validated = decisions
        if not score > self.score:
            self.worse += 1
            return False
        self.policy, self.score, self.decisions, self.worse = policy, score, decisions, 0
        return True

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns the arguments of `restore`, as arrays and as JSON."""
        arrays: dict[str, NDArray] = {"policy": np.frombuffer(self.policy, np.uint8)}
        rest = {"score": self.score, "decisions": self.decisions, "validated": self.validated, "worse": self.worse}
        return arrays, rest if self.policy else {}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        if rest:
            self.policy = arrays["policy"].tobytes()
            self.score, self.decisions = float(rest["score"]), int(rest["decisions"])
            self.validated, self.worse = int(rest["validated"]), int(rest["worse"])
