"""Behaviour cloning: a policy learns the actions of datasets of trajectories.

Without memory, an update has random decisions of all datasets. A network with memory follows `batch` flows, each from
its beginning and with its memory, `sequence` decisions per update; where a flow ends, another one begins.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ccarena.agents.algorithm import Arrays, Context, Run
from ccarena.agents.squashed import squashed
from ccarena.configs.learning import OfflineConfig
from ccarena.core.terminal import progress_bar
from ccarena.data import collect
from ccarena.data.dataset import Dataset, union
from ccarena.envs.rewards import Reward
from ccarena.errors import TrainingError
from ccarena.policies.networks import Normalisation, bind_flat, states_of

__all__ = ["BehaviourCloning", "Learner"]

COLLECTED = "data"
"""Folder of the dataset that a training collects, in its own folder."""
RECORDED_EVERY = 16
"""Updates between two records of the learning curve."""


class Learner:
    """Network with its optimiser, whose parameters are one vector."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self.network = network.to(device)
        self.weights, self.gradient = bind_flat(self.network)
        self.weights.grad = self.gradient
        self.adam = torch.optim.Adam([self.weights])

    def step(self, loss: Tensor, rate: float, most: float) -> None:
        """Follows the gradient of `loss`."""
        self.gradient.zero_()
        loss.backward()
        norm = float(self.gradient.norm())
        if not np.isfinite(norm):
            raise TrainingError(
                f"the loss is {float(loss):.3g}, and its gradient is not finite; take a smaller algorithm.learning_rate"
            )
        self.gradient.mul_(min(1.0, most / max(norm, 1e-12)))
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns weights and moments."""
        moments = self.adam.state.get(self.weights, {})
        return {"weights": self.weights.detach().cpu().numpy().copy()} | {
            name: np.asarray(moments[name].cpu().numpy()).copy()
            for name in ("exp_avg", "exp_avg_sq", "step")
            if moments
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores a `state()`."""
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(arrays["weights"].copy()))
        if "step" in arrays:
            moments = {name: torch.from_numpy(arrays[name].copy()) for name in ("exp_avg", "exp_avg_sq", "step")}
            device = self.weights.device
            self.adam.state[self.weights] = {name: x if name == "step" else x.to(device) for name, x in moments.items()}


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
            network = context.network(spec.outputs)
            self._states = states_of(network)
            # Refuses what no artifact can say before anything is learned.
            self._module = network if spec.bounds is None else squashed(network, spec.bounds)
            self._build(context)
        self._actor = Learner(self._module, self._device)
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
            observations = Normalisation(spec)(torch.from_numpy(data.observations))
        self._observations = observations.to(self._device)
        self._actions = self._targets(data.actions)
        self._rewards, self._flows = torch.from_numpy(data.rewards).to(self._device), (data.starts, data.stops)
        self._steps = data.steps

    def _targets(self, actions: NDArray[np.float32]) -> Tensor:
        """Returns actions to learn: indices `[R]`, or numbers from -1 to 1 `[R, numbers]`."""
        if self._spec.bounds is None:
            return torch.from_numpy(actions[:, 0].astype(np.int64)).to(self._device)
        low, high = np.array(self._spec.bounds, np.float32).T
        return torch.from_numpy(2 * (actions - low) / (high - low) - 1).to(self._device)

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
                for name, value in self._update(rows, fresh, self._config.learning_rate * rate).items():
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
        if not self._states:
            rows = self._steps[rng.integers(0, len(self._steps), (1, many))]
            return rows, np.ones(rows.shape, bool)
        starts, stops = self._flows
        if not len(self._follow):
            self._follow = np.zeros((many, 2), np.int64)
        rows, fresh = np.empty((self._config.sequence, many), np.int64), np.zeros((self._config.sequence, many), bool)
        for step in range(self._config.sequence):
            # The last row of a flow has no action.
            ended = np.flatnonzero(self._follow[:, 0] >= self._follow[:, 1])
            if len(ended):
                chosen = rng.integers(0, len(starts), len(ended))
                self._follow[ended] = np.stack([starts[chosen], stops[chosen] - 1], axis=1)
                fresh[step, ended] = True
            rows[step] = self._follow[:, 0]
            self._follow[:, 0] += 1
        return rows, fresh

    def _decided(self, rows: NDArray[np.int64], fresh: NDArray[np.bool_]) -> Tensor:
        """Returns the policy's outputs on `rows`, `[T · N, outputs]`: logits, or numbers within the bounds."""
        if not self._states:
            out: Tensor = self._module(self._observations[rows[0]])
            return out
        if not self._memory:
            shapes = self._states.values()
            self._memory = tuple(torch.zeros(rows.shape[1], *shape, device=self._device) for shape in shapes)
        memory, outputs = self._memory, []
        for step, begins in zip(rows, fresh, strict=True):
            kept = torch.from_numpy(~begins).to(self._device, torch.float32)
            memory = tuple(state * kept.view(-1, *[1] * (state.dim() - 1)) for state in memory)
            output, *memory_next = self._module(self._observations[step], *memory)
            memory = tuple(memory_next)
            outputs.append(output)
        self._memory = tuple(state.detach() for state in memory)
        return torch.cat(outputs)

    def _losses(self, rows: NDArray[np.int64], fresh: NDArray[np.bool_]) -> Tensor:
        """Returns the policy's distance from each action of `rows`, `[T · N]`."""
        decided, targets = self._decided(rows, fresh), self._actions[rows.ravel()]
        if self._spec.bounds is None:
            return functional.cross_entropy(decided, targets, reduction="none")
        low, high = torch.tensor(self._spec.bounds, dtype=torch.float32, device=self._device).T
        return (2 * (decided - low) / (high - low) - 1 - targets).square().sum(1)

    def _update(self, rows: NDArray[np.int64], fresh: NDArray[np.bool_], rate: float) -> dict[str, float]:
        """Learns from `rows`, and returns figures."""
        loss = self._losses(rows, fresh).mean()
        self._actor.step(loss, rate, self._config.max_grad_norm)
        return {"policy_loss": float(loss.detach())}

    def _learners(self) -> dict[str, Learner]:
        return {"actor": self._actor}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns weights, moments, the flows that it follows and their memory."""
        arrays = {f"{name}.{key}": x for name, each in self._learners().items() for key, x in each.state().items()}
        arrays |= {f"memory.{i}": state.cpu().numpy().copy() for i, state in enumerate(self._memory)}
        arrays["follow"] = self._follow.copy()
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
        count = sum(key.startswith("memory.") for key in arrays)
        self._memory = tuple(torch.from_numpy(arrays[f"memory.{i}"].copy()).to(self._device) for i in range(count))
        self._updates, self._decisions = int(rest["updates"]), int(rest["decisions"])

    def policy(self) -> nn.Module:
        """Returns the current policy."""
        return deepcopy(self._module).cpu()

    def close(self) -> None:
        """Does nothing, since nothing was started."""
