"""Behaviour cloning: a policy learns the actions of datasets of trajectories, by their likelihood.

Without memory, an update has random decisions of all datasets. A network with memory follows `batch` flows, each from
its beginning and with its memory, `sequence` decisions per update. It follows a flow for a number of decisions that is
drawn evenly in its logarithm, then another one. Beginnings therefore count more than their share: a scheme fills a link
in some 20 of 2000 decisions. A policy that did not learn these stays where no flow of the dataset has been.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.algorithm import Arrays, Context, Run
from ccarena.agents.learner import Learner
from ccarena.agents.offline_policy import Choice, Distribution, Mixture, offline_policy, targets
from ccarena.configs.learning import OfflineConfig
from ccarena.core.terminal import progress_bar
from ccarena.data import collect
from ccarena.data.dataset import Dataset, union
from ccarena.envs.rewards import Reward
from ccarena.policies.networks import Normalisation, states_of

__all__ = ["BehaviourCloning", "Followed"]

COLLECTED = "data"
"""Folder of the dataset that a training collects, in its own folder."""
RECORDED_EVERY = 16
"""Updates between two records of the learning curve."""


@dataclass(frozen=True)
class Followed:
    """Decisions of one update, R = T · N of them."""

    rows: NDArray[np.int64]
    """Rows of the dataset, `[R]`; the next observation of each is in the next row."""
    outputs: Tensor
    """Outputs of the policy's network, `[R, outputs]`."""
    memory: tuple[Tensor, ...]
    """States of the policy after each decision, `[R, ...]` each, without gradients."""


class BehaviourCloning:
    """Algorithm `bc` (`ccarena.agents.algorithm.Algorithm`), and what other algorithms on datasets share with it."""

    def __init__(self, context: Context) -> None:
        config, spec = context.config, context.spec
        self._context, self._config, self._spec = context, cast(OfflineConfig, config.algorithm), spec
        self._datasets = [Dataset.open(folder, spec) for folder in self._config.data]
        for dataset in self._datasets:
            dataset.paths(self._config.schemes)
        if not self._datasets:
            collect.check(config, self._config.schemes, config.seed)
        self._device = torch.device(config.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self._distribution: Distribution = (
                Choice(spec.outputs) if spec.bounds is None else Mixture(spec.bounds, self._config.components)
            )
            network = context.network(self._distribution.outputs)
            self._states = states_of(network)
            self._policy = offline_policy(network, self._distribution, spec.size)
            self._build(context)
        self._actor = Learner(self._policy, self._device)
        self._updates, self._decisions = 0, 0
        self._follow = np.zeros((0, 2), np.int64)
        self._memory: tuple[Tensor, ...] = ()

    def _build(self, context: Context) -> None:
        """Builds networks besides the policy's, seeded."""

    def _load(self) -> None:
        """Reads the datasets into memory; collects one first if none is given."""
        config, spec = self._context.config, self._spec
        datasets = self._datasets
        if not datasets:
            schemes, links = self._config.schemes, self._config.links
            with progress_bar("collecting", "shards") as progress:
                out = Path(str(config.out), COLLECTED)
                datasets = [
                    collect.collect(
                        config, schemes, links, out, seed=config.seed, threads=config.threads, progress=progress
                    )
                ]
        reward = Reward(config.reward, spec)
        data = union([dataset.load(reward, self._config.schemes) for dataset in datasets])
        with torch.no_grad():
            observations = Normalisation(spec)(torch.from_numpy(data.observations)).to(self._device)
            self._policy.standardised.fit(observations)
            self._observations = self._policy.standardised(observations)
        self._actions = targets(spec, data.actions).to(self._device)
        self._rewards, self._flows = torch.from_numpy(data.rewards).to(self._device), (data.starts, data.stops)

    @property
    def decisions(self) -> int:
        """Returns the number of decisions that it has learned from, each as often as it was drawn."""
        return self._decisions

    def learn(self, run: Run) -> None:
        """Learns until `run` ends the training."""
        self._load()
        total = self._context.config.total_decisions
        figures: dict[str, float] = {}
        count, reward = 0, 0.0
        while run.rest():
            for _ in range(RECORDED_EVERY):
                rate = 1 - (1 - self._config.learning_rate_end) * min(1.0, self._decisions / total)
                rows, fresh = self._draw()
                followed = self._follow_flows(rows, fresh)
                for name, value in self._update(followed, self._config.learning_rate * rate).items():
                    figures[name] = figures.get(name, 0.0) + value * rows.size
                self._updates += 1
                self._decisions += rows.size
                count += rows.size
                reward += float(self._rewards[rows.ravel()].double().sum())
                if self._decisions >= total:
                    break
            run.record({"decisions": float(count), "reward": reward, **figures}, updates=self._updates)
            figures, count, reward = {}, 0, 0.0

    def _draw(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the rows of the next update, `[T, N]`, and which of them begin a flow."""
        rng = np.random.Generator(np.random.PCG64([self._context.config.seed, self._updates]))
        many = self._config.batch
        starts, stops = self._flows
        many_flows = len(starts)
        if not self._states:
            chosen = rng.integers(0, many_flows, (1, many))
            # The same shares of decisions as with memory.
            part = rng.random((1, many)) * rng.random((1, many))
            rows = starts[chosen] + (part * (stops - 1 - starts)[chosen]).astype(np.int64)
            return rows, np.ones(rows.shape, bool)
        if not len(self._follow):
            self._follow = np.zeros((many, 2), np.int64)
        rows, fresh = np.empty((self._config.sequence, many), np.int64), np.zeros((self._config.sequence, many), bool)
        for step in range(self._config.sequence):
            ended = np.flatnonzero(self._follow[:, 0] >= self._follow[:, 1])
            if len(ended):
                chosen = rng.integers(0, many_flows, len(ended))
                length = np.ceil((stops - 1 - starts)[chosen] ** rng.random(len(ended))).astype(np.int64)
                self._follow[ended] = np.stack([starts[chosen], starts[chosen] + length], axis=1)
                fresh[step, ended] = True
            rows[step] = self._follow[:, 0]
            self._follow[:, 0] += 1
        return rows, fresh

    def _follow_flows(self, rows: NDArray[np.int64], fresh: NDArray[np.bool_]) -> Followed:
        """Returns what the policy makes of `rows`, `[T, N]`; those `fresh` begin with an empty memory."""
        network = self._policy.network
        if not self._states:
            return Followed(rows[0], network(self._observations[rows[0]]), ())
        if not self._memory:
            shapes = self._states.values()
            self._memory = tuple(torch.zeros(rows.shape[1], *shape, device=self._device) for shape in shapes)
        memory, outputs, states = self._memory, [], []
        for step, begins in zip(rows, fresh, strict=True):
            kept = torch.from_numpy(~begins).to(self._device, torch.float32)
            memory = tuple(state * kept.view(-1, *[1] * (state.dim() - 1)) for state in memory)
            output, *following = network(self._observations[step], *memory)
            memory = tuple(following)
            outputs.append(output)
            states.append([state.detach() for state in memory])
        self._memory = tuple(states[-1])
        return Followed(rows.ravel(), torch.cat(outputs), tuple(torch.cat(each) for each in zip(*states, strict=True)))

    def _losses(self, followed: Followed) -> Tensor:
        """Returns the negative logarithm of the likelihood of each action, `[R]`."""
        return -self._distribution.log_likelihood(followed.outputs, self._actions[followed.rows])

    def _update(self, followed: Followed, rate: float) -> dict[str, float]:
        """Learns from decisions, and returns figures."""
        loss = self._losses(followed).mean()
        self._actor.step(loss, rate, self._config.max_grad_norm)
        return {"policy_loss": float(loss.detach())}

    def _learners(self) -> dict[str, Learner]:
        return {"actor": self._actor}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns weights, moments, the flows that it follows and their memory."""
        arrays = {f"{name}.{key}": x for name, each in self._learners().items() for key, x in each.state().items()}
        arrays |= {f"memory.{i}": state.cpu().numpy().copy() for i, state in enumerate(self._memory)}
        arrays["follow"] = self._follow.copy()
        standardised = self._policy.standardised
        arrays |= {name: buffer.cpu().numpy().copy() for name, buffer in standardised.named_buffers()}
        return arrays, {
            "updates": self._updates,
            "decisions": self._decisions,
            "data": [dataset.digest for dataset in self._datasets],
        }

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`. Raises ValueError if its datasets were others."""
        if rest["data"] != [dataset.digest for dataset in self._datasets]:
            raise ValueError(f"it has learned from other datasets than those in {', '.join(self._config.data)} now")
        for name, each in self._learners().items():
            own = {key.partition(".")[2]: x for key, x in arrays.items() if key.startswith(f"{name}.")}
            each.restore(own)
        self._follow = arrays["follow"].copy()
        for name, buffer in self._policy.standardised.named_buffers():
            buffer.copy_(torch.from_numpy(arrays[name].copy()))
        count = sum(key.startswith("memory.") for key in arrays)
        self._memory = tuple(torch.from_numpy(arrays[f"memory.{i}"].copy()).to(self._device) for i in range(count))
        self._updates, self._decisions = int(rest["updates"]), int(rest["decisions"])

    def policy(self) -> nn.Module:
        """Returns the current policy."""
        return deepcopy(self._policy).cpu()

    def close(self) -> None:
        """Does nothing, since nothing was started."""
