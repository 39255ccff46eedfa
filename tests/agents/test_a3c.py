"""Returns, gradients and the learner."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ccarena.agents.a3c import Differentiator, Learner, Update, Worker, n_step_returns
from ccarena.agents.acting import acting
from ccarena.agents.actor_critic import ActorCritic, Gaussian
from ccarena.agents.algorithm import Context
from ccarena.agents.collecting import seeds
from ccarena.agents.local import LocalExecutor
from ccarena.configs import load_config
from ccarena.configs.schema import A3CConfig
from ccarena.errors import ConfigError, TrainingError
from ccarena.policies.spec import spec_of
from tests.agents.toy import ToyEnvs, make_toy, toy_context


def small(total: int = 1000, seed: int = 5, **changes: object) -> Context:
    network = {"network.filters": 4, "network.hidden": 32, "total_decisions": total, "seed": seed}
    return toy_context(load_config("acct", network | changes))


SMALL = small()


def config(**changes: object) -> A3CConfig:
    defaults = {
        "workers": 2,
        "rollout_length": 16,
        "gamma": 0.9,
        "actor_lr": 4e-3,
        "critic_lr": 8e-3,
        "entropy": (0.1, 0.01),
    }
    return A3CConfig(**(defaults | changes))


def executor(settings: A3CConfig, total: int, threads: int = 2, seed: int = 1) -> tuple[Learner, LocalExecutor]:
    context = small(total, seed)
    learner = Learner(context, settings)
    workers = [Worker(ToyEnvs(), context, settings, *seeds(seed, index)) for index in range(settings.workers)]
    return learner, LocalExecutor(learner, workers, threads)


def slow_return(t: int, world: int, rewards, terminated, truncated, final_values, last_values, gamma: float) -> float:
    """The definition, one decision at a time and forwards: Σ γ^k r, completed by a value where the sum was cut."""
    total, discount = 0.0, 1.0
    for k in range(t, len(rewards)):
        total += discount * float(rewards[k, world])
        discount *= gamma
        if terminated[k, world]:
            return total
        if truncated[k, world]:
            return total + discount * float(final_values[k, world])
    return total + discount * float(last_values[world])


@given(steps=st.integers(1, 12), worlds=st.integers(1, 4), gamma=st.floats(0, 0.999), seed=st.integers(0, 2**32))
def test_returns_equal_the_definition(steps: int, worlds: int, gamma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, finals = rng.normal(size=(2, steps, worlds)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, worlds)) < 0.2
    last = rng.normal(size=worlds).astype(np.float32)
    arguments = (rewards, terminated, truncated, finals, last, gamma)
    expected = [[slow_return(t, world, *arguments) for world in range(worlds)] for t in range(steps)]
    np.testing.assert_allclose(n_step_returns(*arguments), expected, rtol=1e-4, atol=1e-4)


def test_nothing_passes_between_episodes() -> None:
    """What follows an episode's end, however large, leaves returns before it as they are."""
    rewards = np.ones((4, 1), dtype=np.float32)
    finals = np.full((4, 1), 50, dtype=np.float32)
    none = np.zeros((4, 1), dtype=np.bool_)
    end = none.copy()
    end[1] = True
    for terminated, truncated, expected in ((end, none, 1.5), (none, end, 1.5 + 0.25 * 50), (end, end, 1.5)):
        for beyond in (0.0, 1e6):
            rewards[2:] = beyond
            last = np.full(1, beyond, dtype=np.float32)
            assert n_step_returns(rewards, terminated, truncated, finals, last, 0.5)[0, 0] == expected


def test_gradient_is_that_of_the_loss() -> None:
    """Against the loss written down separately, on the rollout that the worker has collected."""
    settings = config(max_grad_norm=None)
    worker, same = (Worker(ToyEnvs(8), SMALL, settings, 1, 2) for _ in range(2))
    learner = Learner(SMALL, settings)
    gradient = worker.run(learner.weights, entropy_weight=0.3).gradient
    rollout = same.collect(learner.weights)

    network = learner.network()
    logits, values = network(torch.from_numpy(rollout.observations).flatten(0, 1))
    chosen = torch.distributions.Categorical(logits=logits)
    finals = np.zeros_like(rollout.rewards)
    assert rollout.truncated.any()
    replay = ToyEnvs(8)
    replay.reset(seed=1)
    for t in range(settings.rollout_length):
        _, _, _, truncated, infos = replay.step(rollout.actions[t])
        for world in np.flatnonzero(truncated):
            finals[t, world] = network.value(torch.from_numpy(infos["final_obs"][world : world + 1])).item()
    last = network.value(torch.from_numpy(replay._observation)).detach().numpy()
    returns = n_step_returns(
        rollout.rewards * np.float32(0.01), rollout.terminated, rollout.truncated, finals, last, 0.9
    )
    target = torch.from_numpy(returns).flatten()
    gain = (chosen.log_prob(torch.from_numpy(rollout.actions).flatten()) * (target - values.detach())).mean()
    loss = -gain - 0.3 * chosen.entropy().mean() + 0.5 * (target - values).pow(2).mean()
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in network.parameters()])
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-6)


def test_a_rollout_has_the_same_gradient_elsewhere() -> None:
    """What a learner computes of a worker's rollout is what the worker computes itself."""
    settings, weights = config(), Learner(SMALL, config()).weights
    own, other = (Worker(ToyEnvs(8), SMALL, settings, 1, 2) for _ in range(2))
    elsewhere = Differentiator(SMALL, settings, "cpu")
    elsewhere.load(weights)
    found, expected = elsewhere.update(other.collect(weights), 0.3), own.run(weights, 0.3)
    assert np.array_equal(found.gradient, expected.gradient) and found.stats == expected.stats


def test_clips_each_network() -> None:
    worker = Worker(ToyEnvs(8), SMALL, config(max_grad_norm=1e-4), 1, 2)
    gradient = worker.run(Learner(SMALL, config()).weights, 1.0).gradient
    actor_size = sum(p.numel() for p in ActorCritic(SMALL).actor.parameters())
    assert np.linalg.norm(gradient[:actor_size]) <= 1.01e-4
    assert np.linalg.norm(gradient[actor_size:]) <= 1.01e-4


def test_samples_follow_the_policy() -> None:
    """Actions come with the policy's probabilities (chi-squared, 14 degrees of freedom, p = 1e-6)."""
    settings = config(rollout_length=256)
    worker = Worker(ToyEnvs(32), SMALL, settings, 1, 2)
    network = ActorCritic(SMALL)
    with torch.no_grad():
        network.actor.out.weight.zero_()
        network.actor.out.bias.copy_(torch.linspace(-1, 1, 15))
    weights = torch.cat([p.detach().flatten() for p in network.parameters()]).numpy()
    rollout = worker.collect(weights)
    expected = torch.softmax(network.actor.out.bias, 0).detach().numpy() * rollout.actions.size
    found = np.bincount(rollout.actions.ravel(), minlength=15)
    assert ((found - expected) ** 2 / expected).sum() < 56


@pytest.mark.parametrize(
    ("floor", "below", "expected"),
    [
        (None, "flat", [-5.0, 0.2]),
        (-100.0, "flat", [-1.0, 0.2]),
        # Five times the floor: ln 5 of it more.
        (-100.0, "log", [-1.0 - np.log(5.0), 0.2]),
    ],
)
def test_rewards_are_compressed_below_the_floor_for_learning_alone(
    floor: float | None, below: Literal["flat", "log"], expected: list[float]
) -> None:
    settings = config(rollout_length=1, reward_floor=floor, reward_below=below, reward_scale=0.01)
    given = np.array([[-500, 20]], np.float32)
    found = Differentiator(SMALL, settings, "cpu")._learned_rewards(given)
    np.testing.assert_allclose(found, [expected], rtol=1e-6)
    assert given.tolist() == [[-500, 20]]


def test_rmsprop_step() -> None:
    learner = Learner(SMALL, config(actor_lr=0.1, critic_lr=0.2, rms_decay=0.75, rms_epsilon=1e-5))
    start = learner.weights.copy()
    for value in (2.0, 4.0):
        learner.apply(Update(np.full_like(start, value), {"decisions": 10.0}))
    # Mean squares 4, then 0.75 · 4 + 0.25 · 16 = 7; 10 of 1000 decisions take a hundredth off the rate.
    step = 2 / (2 + 1e-5) + 0.99 * 4 / (np.sqrt(7) + 1e-5)
    np.testing.assert_allclose(start[0] - learner.weights[0], 0.1 * step, rtol=1e-4)
    np.testing.assert_allclose(start[-1] - learner.weights[-1], 0.2 * step, rtol=1e-4)
    assert (learner.decisions, learner.updates) == (20, 2)


def test_entropy_weight_decays_linearly() -> None:
    learner = Learner(SMALL, config(entropy=(1, 0.1), entropy_decay_fraction=0.5))
    weights = []
    for learner.decisions in (0, 250, 500, 1000):
        weights.append(learner.entropy_weight)
    assert weights == pytest.approx([1, 0.55, 0.1, 0.1])


def test_a_gradient_that_is_not_finite_stops_training() -> None:
    learner = Learner(SMALL, config())
    before = learner.weights.copy()
    with pytest.raises(TrainingError, match="not finite"):
        learner.apply(Update(np.full_like(before, np.nan), {"decisions": 1.0}))
    assert np.array_equal(learner.weights, before)


def test_solves_the_toy_problem() -> None:
    """At least 80 % of the optimum, 40 times what uniform actions get, with sampled actions."""
    learner, run = executor(config(), 120_000)
    reward = decisions = 0.0
    while not learner.done:
        stats = run.step().stats
        if learner.decisions > 100_000:
            reward, decisions = reward + stats["reward"], decisions + stats["decisions"]
    run.close()
    assert reward / decisions > 0.8 * ToyEnvs.OPTIMUM


def weights_after(threads: int, workers: int = 3, seed: int = 1) -> bytes:
    learner, run = executor(config(workers=workers), 12_000, threads, seed)
    while not learner.done:
        run.step()
    run.close()
    return learner.weights.tobytes()


def test_same_seed_same_bytes_on_any_number_of_threads() -> None:
    assert weights_after(threads=1) == weights_after(threads=3) == weights_after(threads=2)
    assert weights_after(threads=1) != weights_after(threads=1, seed=2)


@pytest.mark.parametrize("updates", [0, 1, 5])
def test_executor_state_resumes_exactly(updates: int) -> None:
    def advance(run: LocalExecutor, count: int) -> None:
        for _ in range(count):
            run.step()

    learner, run = executor(config(workers=3), 10_000)
    advance(run, updates)
    learner_state, run_state = learner.state(), run.state()
    advance(run, 7)
    run.close()

    again, resumed = executor(config(workers=3), 10_000, seed=9)
    again.restore(*learner_state)
    resumed.restore(*run_state)
    advance(resumed, 7)
    resumed.close()
    assert again.weights.tobytes() == learner.weights.tobytes()


def test_a_continuous_action_has_the_probability_of_a_normal_distribution() -> None:
    spread = torch.nn.Parameter(torch.tensor([-0.5]))
    actions = Gaussian((-1.0, 3.0), spread)
    answer, drawn = torch.randn(50, 1), torch.randn(50, 1)
    found, entropy = actions.evaluate(answer, drawn)
    known = torch.distributions.Normal(answer, spread.exp())
    torch.testing.assert_close(found, known.log_prob(drawn).squeeze(1))
    torch.testing.assert_close(entropy, known.entropy().mean())
    given = actions.given(np.array([[-50.0], [0.0], [50.0]], np.float32))
    np.testing.assert_allclose(given, [[-1], [1], [3]])


DOUBLED = """
from torch import nn
from torch.nn import functional

class Net(nn.Module):
    def __init__(self, spec, outputs):
        super().__init__()
        self.out = nn.Linear(spec.size, outputs)

    def forward(self, x):
        return functional.linear(x, self.out.weight * 2, self.out.bias)
"""


@pytest.mark.parametrize("own", [False, True], ids=["the network's own weights", "weights computed from them"])
def test_a_worker_acts_with_the_weights_loaded_last(own: bool, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(DOUBLED)
    context = toy_context(load_config("acct", {"network": f"{file}:Net"})) if own else SMALL
    differentiator = Differentiator(context, config(), "cpu")
    act = acting(differentiator.network, context.spec, differentiator.device)
    rng = np.random.default_rng(3)
    weights = Learner(context, config()).weights
    for _ in range(2):
        weights = weights + rng.normal(size=weights.shape).astype(np.float32)
        differentiator.load(weights)
        seen = rng.uniform(0, 40, (5, context.spec.size)).astype(np.float32)
        with torch.no_grad():
            expected = differentiator.network.act(torch.from_numpy(seen)).numpy()
        np.testing.assert_allclose(act(seen), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_a_network_with_memory_is_refused() -> None:
    config = load_config("acct", {"network": "gru"})
    with pytest.raises(ConfigError, match="it has memory, and a3c learns without"):
        ActorCritic(Context(config, spec_of(config), make_toy))
