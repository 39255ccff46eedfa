"""The configuration of a learned scheme and of one training: every key with its type, unit, default and meaning.

A key is defined here, or in the module of its section, and nowhere else. The command line, the checks, the error
messages and docs/configuration.md all read it. `env` is in `distribution`, `reward`, `network` and `algorithm` are in
`learning`, and what judges the result is in `judging`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from ccarena.configs.cluster import RayConfig
from ccarena.configs.distribution import CrossTraffic, EnvConfig, LinkConfig, LinkKinds
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
    Sb3Config,
)
from ccarena.configs.sections import MAX_SEED, Count, Section, Text

__all__ = [
    "A3CConfig",
    "AlgorithmConfig",
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
    "RulesConfig",
    "Sb3Config",
    "Target",
    "TrainConfig",
    "ValidationConfig",
]


class TrainConfig(Section):
    """The configuration of a learned scheme: what it is, how it is trained and what it is held against."""

    name: Text = Field("run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Name of the run, and of its folder: up to 100 letters, digits, `.`, `_`, `-`. Without it, the file's name."""
    spec: Text | dict[str, Any]
    """The learned scheme: the name of a shipped spec, a file, or the spec itself (docs/learned.md)."""
    params: dict[str, float] = Field({})
    """Parameters of the spec that differ from their defaults, such as `budget_ms: 5`."""
    reward: RewardConfig = RewardConfig()
    """What is maximised."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """What a whole run is worth: what evolution maximises, and what a policy and its baselines are compared by."""
    network: NetworkConfig = NetworkConfig()
    """Actor and critic."""
    algorithm: AlgorithmConfig = A3CConfig()
    """Learning algorithm."""
    seed: int = Field(1, ge=0, le=MAX_SEED)
    """Seed of everything random: the same configuration, seed and version give the same policy (executor `local`)."""
    total_decisions: Count = Field(2_000_000, ge=1)
    """Length of the training in decisions, over all worlds and learners."""
    out: Text | None = None
    """Folder of the run; null is `runs/NAME`, or `runs/NAME-2`, ... if that one is taken."""
    executor: Literal["local", "ray"] = "local"
    """`local`: in this process, deterministic. `ray`: on every machine of a Ray cluster. A3C's gradients are applied as
    they arrive; worlds of other algorithms, and evolution's candidates, give the same result wherever they run."""
    device: str = Field("cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where the networks live: `cpu`, `cuda` or `cuda:N`. Small networks are fastest on the CPU."""
    threads: int = Field(2, ge=1, le=1024)
    """Threads that simulate worlds; the result does not depend on it."""
    checkpoint_every_s: float = Field(30.0, gt=0)
    """Wall time between checkpoints, s; one is also written at the end and when interrupted."""
    checkpoints_kept: int = Field(0, ge=0, le=100_000)
    """Older checkpoints that are kept, in the folder `checkpoints`, beside the last one and the previous one."""
    ray: RayConfig = RayConfig()
    """Training on a cluster."""
    env: EnvConfig = EnvConfig()
    """The training distribution."""
    progress: ProgressConfig = ProgressConfig()
    """The learning curve."""
    track: Literal["none", "wandb", "mlflow"] = "none"
    """Who gets the learning curve besides `progress.jsonl` and TensorBoard: Weights & Biases (extra `wandb`) or MLflow
    (extra `mlflow`), as their own environment variables say."""
    validation: ValidationConfig = ValidationConfig()
    """Judging the policy while it learns."""
    baselines: list[str] = Field(["cubic", "bbr", "reno"])
    """Heuristics that the evaluation runs beside the policy."""
    constant_actions: list[ConstantAction] = Field([])
    """The scheme with one action always, for the tables of an evaluation."""
    rules: RulesConfig = RulesConfig()
    """What learning has to beat: how the best rules without learning are searched."""
    expectations: list[ExpectationConfig] = Field([])
    """What the policy has to reach for the verdict "learned"."""
    eval: EvalConfig = EvalConfig()
    """Evaluation after training."""

    @model_validator(mode="after")
    def _even_share(self) -> TrainConfig:
        if isinstance(self.algorithm, A3CConfig):
            key, workers = "algorithm.workers", self.algorithm.workers
        elif self.executor == "ray" and not isinstance(self.algorithm, EvolutionConfig):
            key, workers = "ray.workers", self.ray.workers
        else:
            return self
        if (worlds := self.env.worlds) % workers:
            near = max(workers, round(worlds / workers) * workers)
            raise ValueError(f"env.worlds = {worlds} is not divisible by {key} = {workers}; try env.worlds = {near}")
        return self
