"""Off-policy evaluation: the return of a policy from the flows of others, and beside it what the simulator measures.

Returns are discounted from the beginning of a flow and divided by the sum of the discounts, so that they have the unit
of a reward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ccarena.agents.critics import Perceptron
from ccarena.agents.learner import Learner
from ccarena.agents.offline_policy import Standardised, encoded, targets
from ccarena.core.files import scratch
from ccarena.core.terminal import Progress
from ccarena.data.collect import collect_again
from ccarena.data.dataset import Dataset, Rewards, Trajectories
from ccarena.errors import ConfigError
from ccarena.policies.artifact import Artifact
from ccarena.policies.networks import Normalisation
from ccarena.policies.spec import Spec

__all__ = ["Estimate", "decided", "evaluate", "fitted_q", "measured"]

FITS = 5
"""Fits of a fitted Q evaluation, each on links that are drawn with replacement."""
TARGET_RATE, LEARNING_RATE, MOST_GRADIENT = 0.05, 1e-3, 10.0
HIDDEN = [128, 128]
T_FACTOR = 2.776
"""Quantile 0.975 of Student's t with FITS - 1 degrees of freedom."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """Return with its 95 % interval."""

    value: float
    low: float
    high: float


def evaluate(
    dataset: Dataset,
    spec: Spec,
    reward: Rewards,
    policy: Artifact,
    entrant: str,
    *,
    gamma: float,
    updates: int,
    threads: int,
    progress: Progress = lambda done, total: None,
) -> dict[str, Estimate]:
    """Evaluates the dataset's flows, `policy` by fitted Q, and `policy` in the simulator on the dataset's links.

    `entrant` is the policy's text.
    """
    data = dataset.load(reward)
    estimate = fitted_q(data, data.links, spec, decided(policy, data), gamma=gamma, updates=updates, progress=progress)
    with scratch() as folder:
        own = collect_again(dataset, spec, entrant, folder / "own", threads=threads, progress=progress).load(reward)
    return {
        "the dataset's": measured(data, data.links, gamma),
        "the policy's, by fitted Q": estimate,
        "the policy's, simulated": measured(own, own.links, gamma),
    }


def decided(policy: Artifact, data: Trajectories) -> NDArray[np.float32]:
    """Returns what `policy` decides on each row, `[R, numbers]`, following every flow with its memory."""
    lengths = data.stops - data.starts
    order = np.argsort(-lengths)
    starts, lengths = data.starts[order], lengths[order]
    state = np.zeros((len(starts), policy.graph.state_len), np.float32) if policy.graph.state_len else None
    out: NDArray[np.float32] | None = None
    for step in range(int(lengths[0])):
        count = int(np.searchsorted(-lengths, -step))  # flows longer than `step`
        rows = starts[:count] + step
        if state is not None:
            state = np.ascontiguousarray(state[:count])
        action = np.asarray(policy.act(data.observations[rows], state), np.float32).reshape(count, -1)
        if out is None:
            out = np.zeros((len(data.observations), action.shape[1]), np.float32)
        out[rows] = action
    assert out is not None
    return out


def fitted_q(
    data: Trajectories,
    links: NDArray[np.int64],
    spec: Spec,
    decisions: NDArray[np.float32],
    *,
    gamma: float,
    updates: int = 4000,
    batch: int = 512,
    seed: int = 1,
    progress: Progress = lambda done, total: None,
) -> Estimate:
    """Returns the return of the policy that decides `decisions` on the rows of `data`, by fitted Q evaluation.

    `links` is the link of each flow, `[E]`. The interval is Student's over FITS fits, each on links drawn with
    replacement. It covers the chance of the data, and no bias where the policy leaves the data (Fu et al., ICLR 2021,
    arXiv:2103.16596).
    """
    steps = data.steps
    if not len(steps):
        raise ConfigError("the dataset has no decisions; collect longer runs")
    with torch.no_grad():
        observations = Normalisation(spec)(torch.from_numpy(data.observations))
        standardised = Standardised(spec.size)
        standardised.fit(observations)
        observations = standardised(observations)
        acted = encoded(spec, targets(spec, data.actions))
        own = encoded(spec, targets(spec, decisions))
    rewards = torch.from_numpy((1 - gamma) * data.rewards)
    flow = np.repeat(np.arange(len(data.starts)), data.stops - data.starts)[steps]
    names = np.unique(links)
    found = []
    for fit in range(FITS):
        rng = np.random.Generator(np.random.PCG64([seed, fit]))
        drawn = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names))
        weight = drawn[np.searchsorted(names, links)].astype(float)
        # Rows as often as their links were drawn.
        share = np.cumsum(weight[flow])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed * FITS + fit)
            learner = Learner(Perceptron(observations.shape[1] + acted.shape[1], HIDDEN), torch.device("cpu"))
            behind = Perceptron(observations.shape[1] + acted.shape[1], HIDDEN)
        behind.load_state_dict(learner.network.state_dict())
        pairs = list(zip(behind.parameters(), learner.network.parameters(), strict=True))
        for update in range(updates):
            rows = steps[np.searchsorted(share, rng.random(batch) * share[-1], side="right")]
            with torch.no_grad():
                returns = rewards[rows] + gamma * behind(observations[rows + 1], own[rows + 1])
            loss = (learner.network(observations[rows], acted[rows]) - returns).square().mean()
            learner.step(loss, LEARNING_RATE * (1 - 0.9 * update / updates), MOST_GRADIENT)
            with torch.no_grad():
                for target, now in pairs:
                    target.lerp_(now, TARGET_RATE)
        with torch.no_grad():
            value = learner.network(observations[data.starts], own[data.starts]).numpy().astype(float)
        found.append(float(np.average(value, weights=weight)))
        progress(fit + 1, FITS)
    mean, spread = float(np.mean(found)), float(np.std(found, ddof=1))
    return Estimate(mean, mean - T_FACTOR * spread, mean + T_FACTOR * spread)


def measured(data: Trajectories, links: NDArray[np.int64], gamma: float, seed: int = 1) -> Estimate:
    """Returns the return of the flows as they were; the interval is a bootstrap over links."""
    names = np.unique(links)
    returns = np.array([_discounted(data, flow, gamma) for flow in range(len(data.starts))])
    by_link = np.array([returns[links == name].mean() for name in names])
    rng = np.random.Generator(np.random.PCG64(seed))
    means = by_link[rng.integers(0, len(names), (RESAMPLES, len(names)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(by_link.mean()), float(low), float(high))


def _discounted(data: Trajectories, flow: int, gamma: float) -> float:
    """Returns the return of a flow."""
    rewards = data.rewards[data.starts[flow] : data.stops[flow] - 1].astype(float)
    discounts = np.power(gamma, np.arange(len(rewards)))
    return float((discounts * rewards).sum() / max(discounts.sum(), 1.0))
