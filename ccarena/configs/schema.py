"""Configuration of a learned scheme and of one training: every key with its type, unit, default and meaning.

A key is defined here, or in the module of its section, and nowhere else. The command line, the checks, the error
messages and docs/configuration.md all read it. `env` is in `distribution`; `reward`, `network` and `algorithm` are in
`learning`; and `judging` has the sections that judge the result.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Literal

from pydantic import Field, model_validator

from ccarena.configs.cluster import RayConfig
from ccarena.configs.distribution import AttackConfig, CrossTraffic, EnvConfig, LinkConfig, LinkKinds
from ccarena.configs.judging import (
    ConstantAction,
    EvalConfig,
    ExpectationConfig,
    ProgressConfig,
    RulesConfig,
    Target,
    ValidationConfig,
)
from ccarena.configs.learning import (
    OWN_FILE,
    RAY_WORKERS,
    A3CConfig,
    AlgorithmConfig,
    CmaEsConfig,
    EsConfig,
    EvolutionConfig,
    Named,
    NetworkConfig,
    ObjectiveConfig,
    OwnAlgorithm,
    RewardConfig,
    RllibConfig,
    Sb3Config,
)
from ccarena.configs.sections import Count, Section, Text
from ccarena.core.seeds import MOST_SEED

__all__ = [
    "A3CConfig",
    "AlgorithmConfig",
    "AttackConfig",
    "CmaEsConfig",
    "ConstantAction",
    "CrossTraffic",
    "EnvConfig",
    "EsConfig",
    "EvalConfig",
    "EvolutionConfig",
    "ExpectationConfig",
    "LinkConfig",
    "LinkKinds",
    "Named",
    "NetworkConfig",
    "ObjectiveConfig",
    "OwnAlgorithm",
    "ProgressConfig",
    "RayConfig",
    "RewardConfig",
    "RllibConfig",
    "RulesConfig",
    "Sb3Config",
    "Target",
    "TrainConfig",
    "ValidationConfig",
]


class TrainConfig(Section):
    """Configuration of a learned scheme: its spec, its training and its evaluation."""

    name: Text = Field("run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Name of the run, and of its folder: up to 100 letters, digits, `.`, `_`, `-`. Without it, the file's name."""
    spec: Text | dict[str, Any]
    """The learned scheme: the name of a shipped spec, a file, or the spec itself (docs/learned.md)."""
    params: dict[str, float] = Field({})
    """Parameters of the spec that differ from their defaults, such as `budget_ms: 5`."""
    reward: RewardConfig = RewardConfig()
    """Reward of a decision interval, maximised by the algorithm."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """Score of a whole run: maximised by evolution, and the measure by which a policy and its baseline rules are
    compared."""
    network: NetworkConfig = NetworkConfig()
    """Actor and critic."""
    algorithm: AlgorithmConfig = A3CConfig()
    """Learning algorithm."""
    seed: int = Field(1, ge=0, le=MOST_SEED)
    """Seed of everything random: the same configuration, seed and version give the same policy (executor `local`)."""
    total_decisions: Count = Field(2_000_000, ge=1)
    """Length of the training in decisions, over all worlds and learners."""
    out: Text | None = None
    """Folder of the run; null is `runs/NAME`, or `runs/NAME-2`, ... if that exists."""
    executor: Literal["local", "ray"] = "local"
    """`local`: in this process, deterministic. `ray`: on every machine of a Ray cluster; the results of A3C, APPO and
    IMPALA then depend on the order in which gradients or rollouts arrive."""
    device: str = Field("cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Device of the networks: `cpu`, `cuda` or `cuda:N`. Small networks are fastest on the CPU."""
    threads: int = Field(2, ge=1, le=1024)
    """Threads that simulate worlds; the result does not depend on it."""
    checkpoint_every_s: float = Field(30.0, gt=0)
    """Wall time between checkpoints, s; one is also written at the end and on interruption."""
    checkpoints_kept: int = Field(0, ge=0, le=100_000)
    """Number of older checkpoints to keep in the folder `checkpoints`, in addition to the last two."""
    ray: RayConfig = RayConfig()
    """Training on a cluster."""
    env: EnvConfig = EnvConfig()
    """The training distribution."""
    progress: ProgressConfig = ProgressConfig()
    """The learning curve."""
    track: Literal["none", "wandb", "mlflow"] = "none"
    """Service that gets the learning curve in addition to TensorBoard: Weights & Biases (extra `wandb`) or MLflow
    (extra `mlflow`), configured by their own environment variables."""
    validation: ValidationConfig = ValidationConfig()
    """Validation of the policy during the training."""
    baselines: list[str] = Field(["cubic", "bbr", "reno"])
    """Heuristics that the evaluation runs for comparison."""
    constant_actions: list[ConstantAction] = Field([])
    """Constant actions of the scheme to show in the tables of an evaluation."""
    rules: RulesConfig = RulesConfig()
    """Search of the baseline rules, which a policy has to beat."""
    expectations: list[ExpectationConfig] = Field([])
    """Figures that the policy has to reach to have learned."""
    eval: EvalConfig = EvalConfig()
    """Evaluation after training."""

    @property
    def learns_in(self) -> str | None:
        """Returns the name of the cluster's processes that compute gradients; None if this training's own does."""
        return self.algorithm.learns_in(self.ray) if self.executor == "ray" else None

    @model_validator(mode="after")
    def _defaults_with_an_own_reward(self) -> TrainConfig:
        changed = {k: v for k, v in self.algorithm.own_reward.items() if k not in self.algorithm.model_fields_set}
        if changed and OWN_FILE in self.reward.name:
            # Sections are frozen, and a validator returns the object that it was given.
            object.__setattr__(self, "algorithm", self.algorithm.model_copy(update=changed))
        return self

    @model_validator(mode="after")
    def _even_share(self) -> TrainConfig:
        key = self.algorithm.workers_key
        if key is None or (key == RAY_WORKERS and self.executor != "ray"):
            return self
        workers: int = attrgetter(key)(self)
        if (worlds := self.env.worlds) % workers:
            near = max(workers, round(worlds / workers) * workers)
            raise ValueError(f"env.worlds = {worlds} is not divisible by {key} = {workers}; try env.worlds = {near}")
        return self
