"""Worker of RLlib's algorithms: rollouts by native inference, as pieces of episodes.

RLlib's own env runner calls Python, PyTorch and its connectors in every step of the environment. This one collects
`rollout_length` decisions of every row in one call (`ccarena.agents.collecting.Sampler`) and cuts them where episodes
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from ccarena.agents.algorithm import Context
from ccarena.agents.collecting import Sampler, Steps, seeds
from ccarena.agents.rllib_modules import CONTEXT, inputs_of
from ccarena.configs.learning import RllibConfig
from ccarena.errors import PolicyError, TrainingError

__all__ = ["GENERATION", "STATS", "Runner"]

GENERATION = "generation"
"""Key of a number in the runner's settings that fresh episodes depend on."""
STATS = "ccarena"
"""Key of the statistics of rollouts among RLlib's metrics."""


class Runner(SingleAgentEnvRunner):
    """Env runner whose rollouts are native."""

    def make_env(self) -> None:
        """Makes this worker's share of the worlds."""
        context: Context = self.config.env_config[CONTEXT].open()
        remote = self.config.num_env_runners > 0
        if remote:
            torch.set_num_threads(1)
        self.num_envs = context.rows // max(self.config.num_env_runners, 1)
        self.env = context.make_envs(self.num_envs, 1 if remote else context.config.threads)
        self._sampler: Sampler | None = None

    def _sample(self, **kwargs: Any) -> list[SingleAgentEpisode]:
        context: Context = self.config.env_config[CONTEXT].open()
        settings = cast(RllibConfig, context.config.algorithm)
        if self._sampler is None:
            self._sampler = self._begin(context, settings)
        try:
            steps, stats = self._sampler.collect()
        except PolicyError as error:
            raise TrainingError(
                f"the actor has no finite answer any more ({error}); start a new run with a lower "
                "algorithm.learning_rate"
            ) from error
        for name, value in stats.items():
            self.metrics.log_value((STATS, name), value, reduce="sum")
        self._increase_sampled_metrics(int(stats["decisions"]), int(stats["episodes"]))
        return list(self._pieces(steps, settings))

    def _begin(self, context: Context, settings: RllibConfig) -> Sampler:
        # A worker that replaces a lost one plays other episodes.
        again = self.worker_index and ray.get_runtime_context().was_current_actor_reconstructed
        drawn = seeds(context.config.seed, self.worker_index or 0, self.config.env_config[GENERATION] + bool(again))
        module: Any = self.module
        envs: Any = self.env
        return Sampler(envs, module.network, context, torch.device("cpu"), settings.rollout_length, *drawn)

    def _pieces(self, steps: Steps, settings: RllibConfig) -> Iterator[SingleAgentEpisode]:
        """Yields the piece of every episode in the rollout."""
        length, rows = steps.rewards.shape
        rewards = steps.rewards if settings.reward_floor is None else np.maximum(steps.rewards, settings.reward_floor)
        rewards = rewards * np.float32(settings.reward_scale)
        columns = self._columns(steps, settings)
        actions = steps.actions
        if settings.trainer == "sac" and np.issubdtype(actions.dtype, np.floating):
            actions = np.tanh(actions)  # its critics rate squashed actions
        over = steps.terminated | steps.truncated
        finals = {(t, int(row)): last for t, cut, lasts in steps.finals for row, last in zip(cut, lasts, strict=True)}
        for row in range(rows):
            ends = [int(t) + 1 for t in np.flatnonzero(over[:, row])]
            starts = [0, *ends]
            for start, end in zip(starts, [*ends, length], strict=True):
                if start == end:
                    continue
                ended = bool(over[end - 1, row])
                last = finals.get((end - 1, row), steps.following[row]) if ended else steps.following[row]
                yield _piece(
                    np.concatenate([steps.observations[start:end, row], last[None]]),
                    actions[start:end, row],
                    rewards[start:end, row],
                    {name: column[start:end, row] for name, column in columns.items()},
                    bool(steps.terminated[end - 1, row]),
                    bool(steps.truncated[end - 1, row]),
                )

    def _columns(self, steps: Steps, settings: RllibConfig) -> dict[str, NDArray[Any]]:
        """Returns what learners need to know of the policy that acted, `[T, N, ...]`."""
        shape = steps.rewards.shape
        columns: dict[str, NDArray[Any]] = {WEIGHTS_SEQ_NO: np.full(shape, self._weights_seq_no, np.int32)}
        if settings.trainer == "sac":
            return columns
        module: Any = self.module
        with torch.inference_mode():
            inputs = inputs_of(module.network, torch.from_numpy(steps.observations).flatten(0, 1))
            drawn = torch.from_numpy(steps.actions).flatten(0, 1)
            logp = module.action_dist_cls.from_logits(inputs).logp(drawn)
        columns[Columns.ACTION_DIST_INPUTS] = inputs.numpy().reshape(*shape, -1)
        columns[Columns.ACTION_LOGP] = logp.numpy().reshape(shape)
        return columns

    def get_metrics(self) -> dict[str, Any]:
        """Returns the figures since the last call."""
        return self.metrics.reduce()


def _piece(
    observations: NDArray[np.float32],
    actions: NDArray[Any],
    rewards: NDArray[np.float32],
    columns: dict[str, NDArray[Any]],
    terminated: bool,
    truncated: bool,
) -> SingleAgentEpisode:
    """Returns a piece of an episode as an episode of its own: no learner here looks beyond a piece, and one that gets
    lost with a worker leaves no gap.
    """
    return SingleAgentEpisode(
        observations=InfiniteLookbackBuffer(observations),
        actions=InfiniteLookbackBuffer(actions.copy()),
        rewards=InfiniteLookbackBuffer(rewards),
        extra_model_outputs={name: InfiniteLookbackBuffer(column) for name, column in columns.items()},
        terminated=terminated,
        truncated=truncated,
        len_lookback_buffer=0,
    )
