"""PPO, APPO, IMPALA and SAC of RLlib (new API stack), with workers that act by native inference.

Workers, learners and the exchange between them are RLlib's; worlds, networks, checkpoints and artifacts are those of
every algorithm here. A resumed training goes on with the networks and optimisers of its checkpoint, on fresh episodes;
SAC fills its replay buffer again before it learns.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from ccarena.agents.actor_critic import Actor, ActorCritic
from ccarena.agents.algorithm import Arrays, Context, Run, Stats
from ccarena.agents.ray_start import wait_for_machines
from ccarena.configs.learning import RllibConfig
from ccarena.core.terminal import again
from ccarena.errors import ConfigError, MissingDependencyError, TrainingError, did_you_mean
from ccarena.executors.ray import connect, last_line, module, on_machine
from ccarena.executors.shipping import Parcel

try:
    module("training with RLlib")  # first: it settles what Ray reads once, when it is imported
    import ray
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.algorithms.appo import APPOConfig
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.sac import SACConfig
    from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_METRICS_LOGGER, DEFAULT_MODULE_ID
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS
except ImportError as error:
    raise MissingDependencyError.for_extra("ray[rllib]", "rllib", "training with RLlib") from error

from ccarena.agents.rllib_modules import CONTEXT, OnPolicy, Sac
from ccarena.agents.rllib_replay import ArrayReplay, take_arrays
from ccarena.agents.rllib_runner import GENERATION, STATS, Runner

__all__ = ["Rllib"]

# RLlib greets every algorithm with several lines about versions of itself.
for _name in ("ray.rllib", "ray.tune", "ray._common", "ray.train"):
    logging.getLogger(_name).setLevel(logging.ERROR)

TRAINERS: dict[str, type[AlgorithmConfig]] = {
    "ppo": PPOConfig,
    "appo": APPOConfig,
    "impala": IMPALAConfig,
    "sac": SACConfig,
}
OURS = {
    *("self", "kwargs", "gamma", "lr", "actor_lr", "critic_lr", "alpha_lr", "model", "optimizer", "learner_class"),
    *("learner_connector", "add_default_connectors_to_learner_pipeline", "learner_config_dict", "vtrace"),
    *("use_kl_loss", "kl_coeff", "kl_target"),  # a coefficient that changes, and that RLlib's states lack
    *("use_critic", "vf_share_layers", "policy_model_config", "q_model_config", "replay_buffer_config"),
}
"""Arguments of `training` that other keys set, or that have no effect here."""
LOSSES = {
    "policy_loss": "policy_loss",
    "mean_pi_loss": "policy_loss",  # IMPALA's
    "vf_loss": "value_loss",
    "qf_loss": "critic_loss",
    "entropy": "entropy",
    "alpha_value": "entropy_weight",
    "diff_num_grad_updates_vs_sampler_policy": "staleness_mean",
}
"""Names in the learning curve of figures of RLlib's learners."""
UPDATES = "weights_seq_no"
"""RLlib's figure with the number of updates."""
REPLAY: dict[str, Any] = {"type": "EpisodeReplayBuffer", "capacity": 100_000}


class Rllib:
    """Algorithm `rllib` (`ccarena.agents.algorithm.Algorithm`)."""

    def __init__(self, context: Context) -> None:
        self._context, self._config = context, cast(RllibConfig, context.config.algorithm)
        self.decisions = self._updates = 0
        self._saved: tuple[Arrays, dict[str, Any]] | None = None
        self._trainer: Any = None  # an `Algorithm` of RLlib, whose types have parts as optional that a built one has
        self._started_ray = False
        self._network()  # a network that cannot be used is refused now
        self._trainer_config()
        if context.config.executor == "ray" and ray.is_initialized():
            self._wait_for_machines()  # before anything is written

    def learn(self, run: Run) -> None:
        """Runs RLlib's iterations until `run` ends the training."""
        while run.rest():
            result = self._iterate(self.start())
            runners, learners = result.get(ENV_RUNNER_RESULTS, {}), result.get(LEARNER_RESULTS, {})
            stats: Stats = {name: float(value) for name, value in runners.get(STATS, {}).items()}
            if not stats.get("decisions"):
                continue
            self.decisions += int(stats["decisions"])
            learned = learners.get(DEFAULT_MODULE_ID, {})
            now = {ours: float(learned[theirs]) for theirs, ours in LOSSES.items() if theirs in learned}
            if np.isnan(now.get("staleness_mean", 0.0)):
                learned, now = {}, {}  # a mean of nothing: learner processes have finished no update meanwhile
            self._check(now)
            self._updates = int(learned.get(UPDATES, self._updates))
            if self._context.config.executor == "ray":
                workers = self.start().env_runner_group
                now["workers"] = float(workers.num_healthy_remote_workers())
                now["restarts"] = float(workers.num_remote_worker_restarts())
            run.record(stats, updates=self._updates, **now)

    def _iterate(self, trainer: Any) -> dict[str, Any]:
        try:
            result: dict[str, Any] = trainer.train()
        except ray.exceptions.RayTaskError as error:
            raise TrainingError(f"RLlib: {error.cause or error}") from error
        return result

    def _check(self, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            if not np.isfinite(value):
                raise TrainingError(
                    f"after {self.decisions} decisions: the {name} is not finite; start a new run with a lower "
                    "algorithm.learning_rate"
                )

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns the state of networks and optimisers."""
        group = self.start().learner_group
        figures = f"{COMPONENT_LEARNER}/{COMPONENT_METRICS_LOGGER}"
        state = group.get_state(components=COMPONENT_LEARNER, not_components=figures)
        arrays: Arrays = {}
        rest = {"decisions": self.decisions, "updates": self._updates}
        rest["learner"] = _packed(state[COMPONENT_LEARNER], "", arrays)
        if self._config.trainer == "sac":
            rest["log_alpha"] = next(result.get() for result in group.foreach_learner(_log_alpha))
        return arrays, rest

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`; learners and workers are restored when they are started."""
        self.decisions, self._updates = int(rest["decisions"]), int(rest["updates"])
        self._saved = arrays, rest

    def move(self, context: Context) -> None:
        """Goes on with fresh episodes in worlds of other links."""
        self._saved = self.state()
        self.close()
        self._context = context

    def policy(self) -> nn.Module:
        """Returns the deterministic policy."""
        network = self._network()
        prefix = "pi_encoder.actor." if self._config.trainer == "sac" else "network."
        weights = self.start().learner_group.get_weights()[DEFAULT_MODULE_ID]
        own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        network.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in own.items()})
        return network.policy()

    def close(self) -> None:
        """Ends workers and learners."""
        if self._trainer is not None:
            self._trainer.stop()
            self._trainer = None
        if self._started_ray:
            ray.shutdown()
            self._started_ray = False

    def _network(self) -> Actor:
        return (Actor if self._config.trainer == "sac" else ActorCritic)(self._context)

    def start(self) -> Any:
        """Returns RLlib's algorithm, with its workers and learners."""
        if self._trainer is None:
            # RLlib keeps its settings in Ray's store, in one process as well.
            config = self._context.config
            self._started_ray = connect("local" if config.executor == "local" else config.ray.address)
            if config.executor == "ray":
                self._wait_for_machines()
            trainer: Any = self._built()
            self._trainer = trainer
            if self._replays_arrays:  # RLlib takes none but its own by its settings
                trainer.local_replay_buffer = ArrayReplay(REPLAY["capacity"], config.seed)
                trainer.learner_group.foreach_learner(take_arrays)
            if self._saved is not None:
                arrays, rest = self._saved
                if "log_alpha" in rest:
                    trainer.learner_group.foreach_learner(_set_log_alpha, value=rest["log_alpha"])
                trainer.learner_group.set_state({COMPONENT_LEARNER: _unpacked(rest["learner"], arrays)})
                trainer.learner_group.foreach_learner(_set_rates)
                trainer.env_runner_group.sync_weights(
                    from_worker_or_learner_group=trainer.learner_group, inference_only=True
                )
                self._saved = None
        return self._trainer

    def _built(self) -> Any:
        try:
            return self._trainer_config().build_algo()
        except ray.exceptions.RayError as error:
            raise TrainingError(
                f"RLlib's workers and learners cannot start{on_machine(error)}: {last_line(error)}; mend that on the "
                f"machines, and {again()}"
            ) from error

    def _wait_for_machines(self) -> None:
        """Waits for what every worker and learner takes; RLlib would wait without a word, for ever."""
        config, learners = self._context.config, self._config.learners
        # As RLlib has it: a learner on a GPU takes no core.
        gpus = learners if config.device != "cpu" else 0
        wait_for_machines(
            config,
            {"cores": config.ray.workers + learners - gpus, "GPUs": gpus},
            f"ray.workers = {config.ray.workers} and algorithm.learners = {learners}",
            {"cores": "lower one of them", "GPUs": "lower algorithm.learners"},
        )

    def _trainer_config(self) -> AlgorithmConfig:
        """Returns the configuration of RLlib for the rest of the training. Raises ConfigError."""
        context, settings, config = self._context, self._config, self._context.config
        on_ray = config.executor == "ray"
        if settings.learners and not on_ray:
            raise ConfigError(
                f"algorithm.learners = {settings.learners}: learner processes are for a cluster; expected 0, or "
                "--executor ray"
            )
        made = TRAINERS[settings.trainer]()
        arguments = self._arguments(made)
        workers = config.ray.workers if on_ray else 0
        gpus = float(config.device != "cpu")
        spec, shipped = context.spec, Parcel(context)
        try:
            made.api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
            made.environment(
                env="ccarena",
                env_config={CONTEXT: shipped, GENERATION: self._updates},
                observation_space=spec.observation_space,
                action_space=self._action_space(),
                disable_env_checking=True,
            )
            made.env_runners(
                env_runner_cls=Runner,
                num_env_runners=workers,
                num_envs_per_env_runner=context.rows // max(workers, 1),
                rollout_fragment_length=settings.rollout_length,
                create_local_env_runner=not workers,
                sample_timeout_s=config.ray.patience_s,
            )
            made.learners(
                num_learners=settings.learners,
                num_gpus_per_learner=gpus,
                local_gpu_idx=torch.device(config.device).index or 0,
            )
            made.rl_module(
                rl_module_spec=RLModuleSpec(
                    module_class=Sac if settings.trainer == "sac" else OnPolicy,
                    observation_space=spec.observation_space,
                    action_space=self._action_space(),
                    model_config={CONTEXT: shipped, "critic_hidden": settings.critic_hidden},
                )
            )
            made.fault_tolerance(restart_failed_env_runners=True, max_num_env_runner_restarts=1000)
            made.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=1)
            made.debugging(seed=config.seed, log_level="ERROR")
            made.training(**arguments)
            made.validate()
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"algorithm = rllib, {settings.trainer}: {' '.join(str(error).split())}") from error
        return made

    @property
    def _replays_arrays(self) -> bool:
        settings = self._config
        return settings.trainer == "sac" and not settings.learners and settings.arguments.get("n_step", 1) == 1

    def _action_space(self) -> gym.Space[Any]:
        """Returns the space of drawn actions: before they are squashed, for `sac` from -1 to 1."""
        spec = self._context.spec
        if spec.bounds is None:
            return gym.spaces.Discrete(spec.outputs)
        most = 1.0 if self._config.trainer == "sac" else np.inf
        return gym.spaces.Box(-most, most, (spec.numbers,), np.float32)

    def _arguments(self, made: AlgorithmConfig) -> dict[str, Any]:
        """Returns the arguments of `training`, checked. Raises ConfigError."""
        settings, config = self._config, self._context.config
        takes: set[str] = set()
        for parent in type(made).__mro__:
            if training := vars(parent).get("training"):
                takes |= {n for n in inspect.signature(training).parameters if not n.endswith("_schedule")}
        takes -= OURS
        for name, value in settings.arguments.items():
            if name not in takes:
                raise ConfigError(
                    f"algorithm.{name} = {value!r}: RLlib's {settings.trainer} takes no such argument"
                    f"{did_you_mean(name, [*takes, *RllibConfig.model_fields])}"
                )
        total, end = config.total_decisions, settings.learning_rate_end
        rate = settings.learning_rate * (end + (1 - end) * (1 - min(self.decisions / total, 1.0)))
        falling = [[0, rate], [max(total - self.decisions, 1), settings.learning_rate * end]]
        rows = self._context.rows // (config.ray.workers if config.executor == "ray" else 1)
        piece, learners = rows * settings.rollout_length, max(settings.learners, 1)
        whole = self._context.rows * settings.rollout_length
        rates: dict[str, Any] = {"lr": falling}
        defaults: dict[str, Any]
        if settings.trainer == "sac":
            rates = {"lr": None, **dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), falling)}
            defaults = {"training_intensity": 8, "replay_buffer_config": REPLAY}
        elif settings.trainer == "ppo":
            batch = whole // learners
            defaults = {"train_batch_size_per_learner": batch, "minibatch_size": max(batch // 8, 1), "num_epochs": 5}
            defaults |= {"use_kl_loss": False, "vf_clip_param": np.inf, "grad_clip": 0.5, "entropy_coeff": 0.0}
        else:
            defaults = {"train_batch_size_per_learner": piece, "grad_clip": 0.5, "entropy_coeff": 0.0}
        return {"gamma": settings.gamma, **rates, **defaults, **settings.arguments}


def _log_alpha(learner: Any) -> float:
    """Returns the logarithm of SAC's temperature, which RLlib's own states lack."""
    return float(learner.curr_log_alpha[DEFAULT_MODULE_ID].detach())


def _set_log_alpha(learner: Any, value: float) -> None:
    learner.curr_log_alpha[DEFAULT_MODULE_ID].data.fill_(value)


def _set_rates(learner: Any) -> None:
    """Sets the configured learning rates, which a state of optimisers replaces until the first update."""
    for optimizer, schedule in learner._optimizer_lr_schedules.items():
        learner._set_optimizer_lr(optimizer, lr=schedule.get_current_value())


def _packed(value: Any, path: str, arrays: Arrays) -> Any:
    """Returns nested data as JSON, in which arrays are references to `arrays`."""
    if isinstance(value, torch.Tensor):
        arrays[path] = value.detach().cpu().numpy().copy()
        return {"tensor": path}
    if isinstance(value, (np.ndarray, np.generic)):
        arrays[path] = np.array(value)
        return {"array": path}
    if isinstance(value, dict):
        return {"items": [[key, _packed(child, f"{path}/{key}", arrays)] for key, child in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [_packed(child, f"{path}/{index}", arrays) for index, child in enumerate(value)]}
    return value


def _unpacked(value: Any, arrays: Arrays) -> Any:
    """Returns the data that `_packed` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tensor":
        return torch.from_numpy(arrays[inner].copy())
    if kind == "array":
        return arrays[inner].copy()
    if kind == "list":
        return [_unpacked(child, arrays) for child in inner]
    return {key: _unpacked(child, arrays) for key, child in inner}
