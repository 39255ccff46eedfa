"""Evolution: learning from the scores of whole runs, by CMA-ES or by antithetic evolution strategies.

A candidate is a vector: weights of the network, and parameters of the spec in shares of their range. All candidates of
a generation run over the same links, natively and in parallel (`ccarena.envs.trials`). The configuration's `objective`
scores a run.

The policy is the centre of the last generation's distribution: the best candidate is often only the luckiest.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.actor_critic import ACTOR_GAIN
from ccarena.agents.algorithm import Arrays, Context, Run, Stats
from ccarena.agents.evolution_runs import Evaluator, LocalEvaluator
from ccarena.agents.progress import merge
from ccarena.agents.squashed import squashed
from ccarena.configs.link_distribution import param_bounds
from ccarena.configs.ranges import Ranges
from ccarena.configs.schema import EvolutionConfig
from ccarena.configs.spec_files import Action
from ccarena.envs.trials import Candidate
from ccarena.policies import export
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import Graph
from ccarena.policies.networks import states_of
from ccarena.policies.spec import Spec

__all__ = ["Evolution", "Genome", "Strategy"]

Vectors = NDArray[np.float64]


class Strategy(Protocol):
    """Strategy that proposes candidates and learns from their scores."""

    @property
    def centre(self) -> Vectors:
        """Returns the best guess, `[size]`."""

    @property
    def sigma(self) -> float:
        """Returns the standard deviation of candidates around the centre."""

    def ask(self) -> Vectors:
        """Returns the next generation, `[population, size]`."""

    def tell(self, scores: Vectors, progress: float) -> None:
        """Takes the scores `[population]` of the last candidates, higher being better; `progress` goes from 0 to 1."""

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns everything that later generations depend on, between `tell` and `ask`."""

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""


class Constant(nn.Module):
    """Policy with a constant action: a continuous one, or logits that choose it."""

    def __init__(self, spec: Spec, action: Action) -> None:
        super().__init__()
        self.out = nn.Linear(spec.size, spec.outputs)
        nn.init.zeros_(self.out.weight)
        bias = action if spec.bounds is not None else [float(value == action) for value in spec.actions]
        with torch.no_grad():
            self.out.bias.copy_(torch.tensor(bias))

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, spec.size]` to `[N, outputs]`."""
        y: Tensor = self.out(x)
        return y


class Genome:
    """Decoder of candidate vectors: `[weights..., parameters...]`. Raises ConfigError for an unknown parameter or
    action.
    """

    def __init__(self, context: Context, config: EvolutionConfig) -> None:
        self._spec = spec = context.spec
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.config.seed)
            self._module = self._network(context) if config.weights else Constant(spec, neutral(spec, config.action))
        self._searched = list(self._module.parameters()) if config.weights else []
        self._states = states_of(self._module)
        self._ranges = Ranges.of(param_bounds(context.config), config.params, "algorithm.params")
        inside = self._ranges.shares(spec.values(context.config.params))
        weights = [p.detach().reshape(-1) for p in self._searched]
        self.start: Vectors = np.concatenate([*(w.numpy().astype(np.float64) for w in weights), inside])
        """Start of the search: the network as it is built, and the configuration's parameters."""
        self.weights = self.start.size - len(self._ranges.ranges)
        """How many of the numbers are weights."""
        self._template, self._places = self._export()

    @staticmethod
    def _network(context: Context) -> nn.Module:
        network = context.network(context.spec.outputs)
        last = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        if last:
            with torch.no_grad():
                last[-1].weight.mul_(ACTOR_GAIN)
        return network

    def module(self, x: Vectors) -> nn.Module:
        """Returns the policy of a vector, from normalised observations to logits or to the action."""
        self._write(x)
        bounds = self._spec.bounds
        if bounds is None or isinstance(self._module, Constant):
            return self._module
        return squashed(self._module, bounds)

    def params(self, x: Vectors) -> dict[str, float]:
        """Returns the parameters of a vector."""
        return self._ranges.values(x[self.weights :])

    def candidate(self, x: Vectors) -> Candidate:
        """Returns a vector as a candidate to run."""
        if self._places is None:
            graph = export.to_graph(self.module(x), self._spec.size, state=self._states)
        else:
            tensors = dict(self._template.tensors)
            for name, place, shape in self._places:
                tensors[name] = x[place].astype(np.float32).reshape(shape)
            graph = replace(self._template, tensors=tensors)
        return Candidate(Artifact(self._spec.interface, graph).encode(), self.params(x))

    def _write(self, x: Vectors) -> None:
        at = 0
        with torch.no_grad():
            for parameter in self._searched:
                count = parameter.numel()
                values = torch.from_numpy(x[at : at + count].astype(np.float32))
                parameter.copy_(values.view(parameter.shape))
                at += count

    def _export(self) -> tuple[Graph, list[tuple[str, slice, tuple[int, ...]]] | None]:
        """Returns the graph and the place of its tensors in a vector; None if some tensors are computed from weights.

        Tracing costs more than many a run. A candidate's weights are therefore put into a graph that was traced once,
        provided that a second trace with other weights differs in nothing else.
        """
        graph = export.to_graph(self.module(self.start), self._spec.size, state=self._states)
        names = {id(p): name for name, p in self.module(self.start).named_parameters()}
        places, at = [], 0
        for parameter in self._searched:
            place = slice(at, at := at + parameter.numel())
            name = names.get(id(parameter), "")
            if name in graph.tensors:
                places.append((name, place, tuple(parameter.shape)))
        other = self.start + np.random.default_rng(0).uniform(0.1, 0.2, self.start.size)
        traced = export.to_graph(self.module(other), self._spec.size, state=self._states)
        self._write(self.start)
        expected = dict(graph.tensors)
        for name, place, shape in places:
            expected[name] = other[place].astype(np.float32).reshape(shape)
        same = traced.nodes == graph.nodes and traced.tensors.keys() == expected.keys()
        same = same and all(np.array_equal(traced.tensors[name], expected[name]) for name in expected)
        return graph, places if same else None


def neutral(spec: Spec, action: Action | None) -> Action:
    """Returns the `action` of a policy without a network; None chooses the middle one. Raises ConfigError for an
    unknown action.
    """
    if action is None:
        if spec.bounds is None:
            return spec.actions[len(spec.actions) // 2]
        middle = [(low + high) / 2.0 for low, high in spec.bounds]
        return middle if len(middle) > 1 else middle[0]
    spec.constant(action)
    return action


class Evolution:
    """Algorithm `evolution` (`ccarena.agents.algorithm.Algorithm`)."""

    def __init__(self, context: Context) -> None:
        config = cast(EvolutionConfig, context.config.algorithm)
        self._context, self._config = context, config
        self._genome = Genome(context, config)
        self._strategy = _strategy(self._genome, config, context.config.seed)
        self._evaluator = _evaluator(context)
        self._generation = 0
        self._decisions = 0

    @property
    def decisions(self) -> int:
        """Returns the decisions in all runs of all candidates."""
        return self._decisions

    def learn(self, run: Run) -> None:
        """Runs generations until `run` ends the training."""
        while run.rest():
            candidates = [self._genome.candidate(x) for x in self._strategy.ask()]
            drawn = np.random.SeedSequence((self._context.config.seed, self._generation if self._config.fresh else 0))
            scored = self._evaluator.score(candidates, int(drawn.generate_state(1, np.uint64)[0] >> np.uint64(1)))
            stats: Stats = {}
            for each in scored:
                merge(stats, each.stats)
            self._decisions += int(stats["decisions"])
            self._generation += 1
            scores = np.array([each.score for each in scored])
            self._strategy.tell(scores, min(1.0, self._decisions / self._context.config.total_decisions))
            stats["score"] = float(scores.mean()) * stats["decisions"]
            best = float(scores.max())
            run.record(stats, updates=self._generation, score_best=best, sigma=self._strategy.sigma)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns the state of the strategy; links are drawn from the generation's number."""
        arrays, rest = self._strategy.state()
        return arrays, {"strategy": rest, "generation": self._generation, "decisions": self._decisions}

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        self._strategy.restore(arrays, rest["strategy"])
        self._generation, self._decisions = int(rest["generation"]), int(rest["decisions"])

    def move(self, context: Context) -> None:
        """Goes on with runs over other links."""
        self._evaluator.close()
        self._context, self._evaluator = context, _evaluator(context)

    def policy(self) -> nn.Module:
        """Returns the policy at the centre."""
        return self._genome.module(self._strategy.centre)

    def params(self) -> dict[str, float]:
        """Returns the parameters at the centre."""
        return self._genome.params(self._strategy.centre)

    def close(self) -> None:
        """Closes the evaluator."""
        self._evaluator.close()


def _strategy(genome: Genome, config: EvolutionConfig, seed: int) -> Strategy:
    module, _, name = config.strategy.partition(":")
    strategy: Strategy = getattr(import_module(module), name)(genome.start, genome.weights, config, seed)
    return strategy


def _evaluator(context: Context) -> Evaluator:
    if context.config.executor == "ray":
        from ccarena.agents.ray_evolution import RayEvaluator

        return RayEvaluator(context)
    return LocalEvaluator(context.config, context.spec, context.config.threads)
