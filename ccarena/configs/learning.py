"""Configuration of learning: the reward, the network and the algorithm, each by name with its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from ccarena.configs.cluster import RayConfig
from ccarena.configs.sections import Pair, Range, Section, Text

OWN_FILE = ".py:"
"""Mark of a name in the user's own file, `FILE.py:NAME`."""
MOST_LINKS = 1_000_000
"""Most links of a dataset."""
SPEC_FILES = (".yaml", ".yml", ".json")
"""Suffixes of specs' files."""


class Named(Section):
    """Section with a `name`; every other key is an argument, checked against the named object."""

    model_config = ConfigDict(extra="allow")

    name: Text
    """Name."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Returns the arguments besides the name."""
        return dict(self.__pydantic_extra__ or {})

    @model_validator(mode="after")
    def _plain(self) -> Named:
        for path, value in _not_plain(self.arguments, ""):
            raise ValueError(f"{path} = {value!r}: expected text, a finite number, a list or a mapping")
        return self


def _not_plain(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _not_plain(child, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _not_plain(child, f"{path}[{index}]")
    elif not isinstance(value, (str, int, float, type(None))) or (isinstance(value, float) and not isfinite(value)):
        yield path, value


class RewardConfig(Named):
    """Reward of a decision interval."""

    name: Text = "power"
    """A built-in reward, or `FILE.py:NAME` in your own file (docs/environment.md). Every other key is a coefficient of
    it."""


class NetworkConfig(Named):
    """Networks of actor and critic, which share no weights."""

    name: Text = "mlp"
    """A built-in network, or `FILE.py:CLASS`, a `torch.nn.Module` in your own file (docs/training.md). Every other key
    is an argument of it."""


RAY_WORKERS = "ray.workers"
"""Key with the number of workers that share the worlds of most algorithms on a cluster."""


class AlgorithmSection(Section):
    """Algorithm section. Its class attributes describe the algorithm for the rest of a training."""

    implementation: ClassVar[str]
    """Implementation, `MODULE:NAME`, called with a `ccarena.agents.algorithm.Context`."""
    workers_key: ClassVar[str | None] = RAY_WORKERS
    """Key of the number that `env.worlds` is divisible by; None if the algorithm steps no worlds."""
    whole_runs: ClassVar[bool] = False
    """Scores candidates on whole runs. The untrained policy is one of them, and a cluster moves runs at will."""
    steps_together: ClassVar[bool] = True
    """Steps all worlds together, on a cluster in `ray.workers` processes; else its workers step their own."""
    even_learners: ClassVar[bool] = True
    """Steps the same number of learners in every world."""
    shares_gradients: ClassVar[bool] = False
    """Learns from the gradients of workers, which `ray.exchange` and `ray.max_staleness` are about."""
    late_rewards: ClassVar[bool] = False
    """Uses an interval's reward only after the next decision."""
    worker_module: ClassVar[str] = ""
    """Module that its own workers on a cluster import; empty if it has none."""
    in_flight: ClassVar[frozenset[str]] = frozenset()
    """Keys that may change between a checkpoint and its continuation: the implementation reads them anew, and no array
    of the state depends on them."""
    own_reward: ClassVar[Mapping[str, Any]] = {}
    """Defaults of keys with a reward in the user's own file, where they differ from those with a built-in one."""

    @property
    def searched(self) -> dict[str, Pair | None]:
        """Returns the parameters of the spec that are searched, with their ranges."""
        return {}

    @property
    def datasets(self) -> list[str]:
        """Returns the folders of datasets in its key `data`; none if it does not learn from any."""
        return []

    def learns_in(self, ray: RayConfig) -> str | None:
        """Returns the name of the processes that compute gradients on a cluster; None if the training's own does."""
        return None


class A3CConfig(AlgorithmSection):
    """Asynchronous advantage actor-critic (Mnih et al. 2016) for discrete and continuous actions."""

    implementation = "ccarena.agents.a3c_algorithm:A3C"
    workers_key = "algorithm.workers"
    steps_together = False
    shares_gradients = late_rewards = True
    worker_module = "ccarena.agents.ray"
    in_flight = frozenset(
        ("gamma", "actor_lr", "critic_lr", "entropy", "entropy_decay_fraction", "rms_decay", "max_grad_norm")
    )

    name: Literal["a3c"] = "a3c"
    """The algorithm."""
    workers: int = Field(4, ge=1, le=1024)
    """Workers that compute gradients, each with its own share of `env.worlds`."""
    rollout_length: int = Field(16, ge=1, le=4096)
    """Decisions per world between two gradients: the n of n-step returns."""
    gamma: float = Field(0.99, ge=0, lt=1)
    """Discount per decision."""
    actor_lr: float = Field(1e-4, gt=0, le=1)
    """Learning rate of the actor at the start; it falls linearly to zero."""
    critic_lr: float = Field(1e-3, gt=0, le=1)
    """Learning rate of the critic at the start; it falls linearly to zero."""
    entropy: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = Field((1.0, 0.1), strict=False)
    """Weight of the entropy bonus at the start and after its decay: `[start, end]`."""
    entropy_decay_fraction: float = Field(0.5, gt=0, le=1)
    """Share of `total_decisions` over which the entropy weight falls, linearly."""
    rms_decay: float = Field(0.99, ge=0, lt=1)
    """Decay of RMSProp's mean square."""
    rms_epsilon: float = Field(1e-5, gt=0, le=1)
    """Constant added to RMSProp's root mean square."""
    max_grad_norm: float | None = Field(0.5, gt=0)
    """Largest norm of a gradient, to which it is clipped; null turns this off."""
    reward_floor: float | None = Field(-30.0, lt=0)
    """Threshold below which learning compresses rewards by `reward_below`; null turns this off. Reported rewards do not
    change."""
    reward_below: Literal["flat", "log"] = "log"
    """Value of a reward r below the floor f: f itself (`flat`), or f (1 + ln(r / f)), which still orders rewards
    (`log`)."""
    reward_scale: float = Field(0.01, gt=0)
    """Factor on rewards for learning; reported rewards are unscaled."""

    def learns_in(self, ray: RayConfig) -> str | None:
        """Returns the name of the processes that compute gradients on a cluster; None if the training's own does."""
        return "workers" if ray.exchange == "gradients" else None


class ObjectiveConfig(Named):
    """Objective: the score of a whole run. Evolution maximises it, and policies and baseline rules are compared
    by it.
    """

    name: Text = "reward"
    """A built-in objective, or `FILE.py:NAME` in your own file (docs/training.md). Every other key is a coefficient of
    it: a number, or the name of a parameter or input that differs between runs."""


class EvolutionConfig(AlgorithmSection):
    """Algorithm that learns from the scores of whole runs."""

    implementation = "ccarena.agents.evolution:Evolution"
    workers_key = None
    steps_together = False
    whole_runs = True
    even_learners = False
    strategy: ClassVar[str]
    """`MODULE:CLASS` of the strategy (`ccarena.agents.evolution.Strategy`)."""

    links: int = Field(24, ge=1, le=100_000)
    """Runs per candidate. Links are drawn anew for each generation, and are the same for all its candidates."""
    params: dict[str, Annotated[Pair, Range(-1e9, 1e9)] | None] = Field({})
    """Parameters of the spec to search, each within `[low, high]`, or within its own bounds if null; on a logarithmic
    scale if low is above 0. The artifact stores the result."""
    weights: bool = True
    """`true` searches the network's weights. `false` uses no network, and the constant action `action`."""
    action: float | None = None
    """The constant action without a network; null is the middle of the bounds, or the middle discrete action."""
    fresh: bool = True
    """`true` draws new links for each generation; `false` uses the same links for all."""

    @model_validator(mode="after")
    def _something(self) -> EvolutionConfig:
        if not self.weights and not self.params:
            raise ValueError("weights = false and no params: there is nothing to search")
        return self

    @property
    def searched(self) -> dict[str, Pair | None]:
        """Returns `params`."""
        return dict(self.params)


class CmaEsConfig(EvolutionConfig):
    """CMA-ES (Hansen 2016, arXiv:1604.00772) by the package `cma`, for up to a few hundred numbers."""

    strategy = "ccarena.core.cma_es:CmaEs"

    name: Literal["cma_es"] = "cma_es"
    """The algorithm."""
    population: int | None = Field(None, ge=2, le=100_000)
    """Candidates per generation; null is 4 + 3 ln(numbers searched)."""
    sigma: float = Field(0.2, gt=0, le=10)
    """Standard deviation of the first generation: of weights, and of parameters as a share of their range."""


class EsConfig(EvolutionConfig):
    """Antithetic evolution strategies (Salimans et al. 2017, arXiv:1703.03864) for networks."""

    strategy = "ccarena.agents.es:Es"
    in_flight = frozenset(("sigma", "learning_rate", "learning_rate_end", "weight_decay"))

    name: Literal["es"] = "es"
    """The algorithm."""
    population: int = Field(32, ge=2, le=100_000, multiple_of=2)
    """Candidates per generation, an even number; half of them are mirrored."""
    sigma: float = Field(0.08, gt=0, le=10)
    """Standard deviation of candidates: of weights, and of parameters as a share of their range."""
    learning_rate: float = Field(0.03, gt=0, le=1)
    """Adam's step at the start."""
    learning_rate_end: float = Field(0.1, ge=0, le=1)
    """Learning rate at the end, as a share of the start; it falls linearly."""
    weight_decay: float = Field(0.0, ge=0, lt=1)
    """Share of the weights that a step subtracts, times the learning rate."""


class Sb3Config(AlgorithmSection, Named):
    """Algorithm of Stable-Baselines3 or sb3-contrib; every key that is not here is an argument of its class."""

    implementation = "ccarena.agents.sb3:Sb3"
    own_reward: ClassVar[Mapping[str, Any]] = {"reward_floor": None}
    in_flight = frozenset(
        {
            *("learning_rate", "learning_rate_end", "ent_coef", "vf_coef", "clip_range", "max_grad_norm", "gae_lambda"),
            *("n_epochs", "batch_size", "gradient_steps", "tau", "target_policy_noise"),
        }
    )

    name: Text = "PPO"
    """Name of the class, such as `TD3`, `SAC`, `PPO`, `DQN`, `TQC` or `RecurrentPPO`."""
    gamma: float = Field(0.99, ge=0, lt=1)
    """Discount per `discount_unit_s`, or per step."""
    discount: Literal["time", "step"] = "time"
    """`time` discounts by the length of steps (semi-Markov); `step` discounts every step alike."""
    discount_unit_s: float = Field(0.02, gt=0, le=60)
    """Simulated time to which `gamma` applies, s."""
    learning_rate: float = Field(1e-3, gt=0, le=1)
    """Learning rate at the start."""
    learning_rate_end: float = Field(0.1, ge=0, le=1)
    """Learning rate at the end, as a share of the start; it falls linearly."""
    reward_floor: float | None = Field(-1.0, le=0)
    """Least reward, in learning and in the learning curve; null turns this off. The default with a reward in your own
    file is null."""
    reward_scale: float = Field(1.0, gt=0)
    """Factor on rewards for learning; reported rewards are unscaled."""
    noise: float | None = Field(None, ge=0, le=1)
    """Largest standard deviation of exploration over all worlds, for actions from -1 to 1; the smallest is a tenth of
    it. Off-policy algorithms then start with their own policy. Null leaves exploration to the algorithm."""
    balance: Text | None = None
    """A column of the report, such as Hyvar's `case`: an off-policy algorithm samples transitions so that each of its
    values is equally frequent. Null samples uniformly."""


class RllibConfig(AlgorithmSection, Named):
    """Trainer of RLlib; every key that is not here is an argument of `training` of its configuration class."""

    implementation = "ccarena.agents.rllib:Rllib"
    steps_together = False
    late_rewards = True
    worker_module = "ccarena.agents.rllib_runner"
    in_flight = frozenset(
        {
            *("gamma", "learning_rate", "learning_rate_end", "entropy_coeff", "vf_loss_coeff", "clip_param", "lambda_"),
            *("grad_clip", "num_epochs", "minibatch_size", "tau", "training_intensity"),
        }
    )

    name: Literal["rllib"] = "rllib"
    """The algorithm."""
    trainer: Literal["ppo", "appo", "impala", "sac"] = "ppo"
    """Trainer: `ppo`; `appo` and `impala`, which learn while workers act, with V-trace; `sac`, from a replay buffer."""
    learners: int = Field(0, ge=0, le=64)
    """Learner processes on the cluster, each with its share of a batch and, with `device: cuda`, a GPU of its own; 0
    learns in the training's own process."""
    rollout_length: int = Field(32, ge=1, le=4096)
    """Decisions per row that a worker delivers at a time, by native inference."""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount per decision."""
    learning_rate: float = Field(3e-4, gt=0, le=1)
    """Learning rate of all networks at the start."""
    learning_rate_end: float = Field(0.1, ge=0, le=1)
    """Learning rate at the end, as a share of the start; it falls linearly."""
    critic_hidden: list[int] = Field([256, 256], min_length=1)
    """Hidden layers of the critics of `sac`, which see observation and action."""
    reward_floor: float | None = Field(None, le=0)
    """Least reward in learning; null turns this off."""
    reward_scale: float = Field(1.0, gt=0)
    """Factor on rewards for learning; reported rewards are unscaled."""

    def learns_in(self, ray: RayConfig) -> str | None:
        """Returns the name of the processes that compute gradients on a cluster; None if the training's own does."""
        return "learners" if self.learners else None


class OfflineConfig(AlgorithmSection):
    """Algorithm that learns from datasets of trajectories (docs/training.md); it simulates nothing but evaluations."""

    workers_key = None
    steps_together = False
    even_learners = False
    in_flight = frozenset(("learning_rate", "learning_rate_end", "max_grad_norm"))

    @property
    def datasets(self) -> list[str]:
        """Returns the folders of datasets that it learns from."""
        return self.data

    data: list[Text] = Field([])
    """Folders of datasets that `ccarena data collect` wrote, for the same spec. If there are none, the training first
    runs `schemes` on links of `env` itself, and writes the dataset in its folder."""
    schemes: list[Text] = Field([])
    """Schemes to learn from; of given datasets, none named is all of them."""
    links: int = Field(100, ge=1, le=MOST_LINKS)
    """Number of links of a dataset that the training collects."""
    batch: int = Field(256, ge=1, le=1_000_000)
    """Decisions per update; with a network that has memory, flows that it follows at a time."""
    sequence: int = Field(16, ge=1, le=4096)
    """Decisions of each flow per update of a network that has memory: gradients reach so far back, its memory to the
    beginning of the flow."""
    learning_rate: float = Field(1e-3, gt=0, le=1)
    """Adam's step at the start."""
    learning_rate_end: float = Field(0.1, ge=0, le=1)
    """Learning rate at the end, as a share of the start; it falls linearly."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Largest norm of a gradient, to which it is clipped."""
    components: int = Field(5, ge=1, le=64)
    """Gaussians in the mixture that a policy of continuous actions learns; it acts by their mean."""

    @model_validator(mode="after")
    def _something(self) -> OfflineConfig:
        if not self.data and not self.schemes:
            raise ValueError("no data and no schemes: there is nothing to learn from; name one of them")
        return self


class BcConfig(OfflineConfig):
    """Behaviour cloning: the policy learns the actions of the dataset, by their likelihood."""

    implementation = "ccarena.agents.offline:BehaviourCloning"

    name: Literal["bc"] = "bc"
    """The algorithm."""


class OfflineQConfig(OfflineConfig):
    """Algorithm on datasets whose critics weight the actions that the policy learns."""

    in_flight = OfflineConfig.in_flight | {"gamma", "temperature", "target_rate"}

    gamma: float = Field(0.99, ge=0, lt=1)
    """Discount per decision."""
    temperature: float = Field(3.0, ge=0)
    """Weight of an action is exp(temperature × advantage), within a limit; 0 is behaviour cloning."""
    target_rate: float = Field(0.005, gt=0, le=1)
    """Share by which target critics follow the critics per update."""
    critic_hidden: list[int] = Field([256, 256], min_length=1)
    """Hidden layers of the critics, which see the observation and have no memory."""
    reward_scale: float = Field(1.0, gt=0)
    """Factor on rewards for learning; reported rewards are unscaled."""
    reward_floor: float | None = Field(None, le=0)
    """Least reward in learning; null turns this off."""


class IqlConfig(OfflineQConfig):
    """Implicit Q-learning (Kostrikov et al. 2022, arXiv:2110.06169): the policy learns the actions of the dataset that
    its critics rate above average.
    """

    implementation = "ccarena.agents.iql:Iql"
    in_flight = OfflineQConfig.in_flight | {"expectile"}

    name: Literal["iql"] = "iql"
    """The algorithm."""
    expectile: float = Field(0.7, gt=0, lt=1)
    """Expectile of the critics' values that the value function learns: 0.5 is their mean, 1 their maximum."""


class CrrConfig(OfflineQConfig):
    """Critic-regularised regression (Wang et al. 2020, arXiv:2006.15134): the policy learns the actions of the dataset
    that its critics rate above its own.
    """

    implementation = "ccarena.agents.crr:Crr"

    name: Literal["crr"] = "crr"
    """The algorithm."""
    weight: Literal["binary", "exp"] = "binary"
    """`binary` learns the actions above the policy's mean, all alike; `exp` weights by exp(temperature × advantage), at
    most 20."""
    samples: int = Field(4, ge=1, le=64)
    """Actions of the policy whose mean return an action is compared with."""


class OwnAlgorithm(AlgorithmSection, Named):
    """Class in your own file that follows `ccarena.agents.algorithm.Algorithm`."""

    implementation = "ccarena.agents.algorithms:own"
    even_learners = False

    name: Text = Field("", pattern=r"\.py:")
    """`FILE.py:CLASS` in your own file (docs/tutorial-algorithm.md). Every other key is an argument of it."""


def kind_of(value: Any) -> str:
    """Returns the key of `ALGORITHMS` for the algorithm `value`, a mapping or a section with its `name`."""
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    if name in ("cma_es", "es", "bc", "crr", "iql", "rllib"):
        return str(name)
    if name == "a3c" or not isinstance(name, str):
        return "a3c"
    return "own" if OWN_FILE in name else "sb3"


ALGORITHMS: dict[
    str,
    type[
        A3CConfig | BcConfig | CmaEsConfig | CrrConfig | EsConfig | IqlConfig | RllibConfig | Sb3Config | OwnAlgorithm
    ],
] = {
    "a3c": A3CConfig,
    "bc": BcConfig,
    "cma_es": CmaEsConfig,
    "crr": CrrConfig,
    "es": EsConfig,
    "iql": IqlConfig,
    "rllib": RllibConfig,
    "sb3": Sb3Config,
    "own": OwnAlgorithm,
}
"""Sections of algorithms by kind."""
AlgorithmConfig = Annotated[
    Annotated[A3CConfig, Tag("a3c")]
    | Annotated[BcConfig, Tag("bc")]
    | Annotated[CmaEsConfig, Tag("cma_es")]
    | Annotated[CrrConfig, Tag("crr")]
    | Annotated[EsConfig, Tag("es")]
    | Annotated[IqlConfig, Tag("iql")]
    | Annotated[RllibConfig, Tag("rllib")]
    | Annotated[Sb3Config, Tag("sb3")]
    | Annotated[OwnAlgorithm, Tag("own")],
    Discriminator(kind_of),
]
