"""Native rollouts: what step by step gives, for discrete and continuous actions and worlds with several learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ccarena.agents.a3c import Learner, Worker
from ccarena.agents.acting import acting
from ccarena.agents.actor_critic import ActorCritic
from ccarena.agents.algorithm import Context
from ccarena.agents.collecting import Native, StepByStep, Steps, collector
from ccarena.agents.worlds import environments
from ccarena.configs import load_config
from ccarena.configs.schema import A3CConfig
from ccarena.errors import TrainingError
from ccarena.policies.networks import bind_flat
from ccarena.policies.spec import spec_of

CPU = torch.device("cpu")
STEPS = 12
SHORT = {
    "env.episode_s": [0.3, 1.0],
    "env.link.kinds": {"constant": 1, "random_steps": 1},
    "env.link.rate_mbps": [2, 20],
    "env.cross_traffic.probability": 0,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "discrete": ("acct", {}),
    "several learners": ("acct", {"env.learners": 2}),
    "a continuous action": ("orca", {"algorithm": {"name": "a3c"}}),
}


def context(case: str, **more: Any) -> Context:
    scheme, changes = CASES[case]
    config = load_config(scheme, {**SHORT, **changes, "env.worlds": 8, **more})
    return Context(config, spec_of(config), environments(config))


def network(of: Context) -> ActorCritic:
    """With weights that make its answers differ, and a spread that is not 1."""
    torch.manual_seed(4)
    made = ActorCritic(of)
    bind_flat(made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def pair(of: Context, threads: int = 1) -> tuple[Native, StepByStep]:
    """Both ways, over worlds of the same seed and with the same weights."""
    acts = network(of)
    envs = [of.make_envs(of.rows, threads) for _ in range(2)]
    seen = [np.array(each.reset(seed=9)[0]) for each in envs]
    native = collector(envs[0], acts, of.spec, CPU, STEPS, seen[0])
    assert isinstance(native, Native)
    return native, StepByStep(envs[1], acts, of.spec, acting(acts, of.spec, CPU), STEPS, seen[1])


def fields(steps: Steps) -> dict[str, Any]:
    found = {name: np.array(value) for name, value in vars(steps).items() if name != "finals"}
    return found | {"finals": [(t, worlds.tolist(), last.tolist()) for t, worlds, last in steps.finals]}


@pytest.mark.parametrize("case", ["discrete", "several learners"])
def test_a_native_rollout_is_what_step_by_step_gives(case: str) -> None:
    native, by_step = pair(context(case))
    one, other = np.random.default_rng(2), np.random.default_rng(2)
    ended = 0
    for _ in range(4):
        found, expected = fields(native.collect(one)), fields(by_step.collect(other))
        ended += len(expected["finals"])
        for name, value in expected.items():
            assert np.array_equal(found[name], value) if name != "finals" else found[name] == value, name
        assert found["actions"].dtype == expected["actions"].dtype
        assert len(np.unique(found["actions"])) > 3
    assert ended, "no episode ended"


def test_continuous_actions_are_drawn_and_squashed_alike() -> None:
    """But for their last bits, since sums are taken in another order; these grow with every decision."""
    native, by_step = pair(context("a continuous action"))
    found, expected = (fields(each.collect(np.random.default_rng(2))) for each in (native, by_step))
    for name in ("observations", "actions", "rewards"):
        np.testing.assert_allclose(found[name][:3], expected[name][:3], rtol=1e-3, atol=1e-3, err_msg=name)
    assert np.std(found["actions"]) > 0.3 and found["actions"].shape == (STEPS, 8, 1)


def test_threads_change_nothing() -> None:
    (one, _), (two, _) = pair(context("discrete"), 1), pair(context("discrete"), 2)
    for seed in range(3):
        a, b = (fields(each.collect(np.random.default_rng(seed))) for each in (one, two))
        assert all(np.array_equal(a[name], b[name]) for name in a if name != "finals") and a["finals"] == b["finals"]


def test_a_rollout_uses_the_weights_loaded_last() -> None:
    of = context("discrete")
    acts = network(of)
    envs = of.make_envs(of.rows, 1)
    native = collector(envs, acts, of.spec, CPU, STEPS, np.array(envs.reset(seed=1)[0]))
    assert len(np.unique(native.collect(np.random.default_rng(1)).actions)) > 3
    with torch.no_grad():
        for parameter in acts.parameters():
            parameter.zero_()
        list(acts.actor.parameters())[-1][5] = 100
    assert np.all(native.collect(np.random.default_rng(1)).actions == 5)


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


def test_a_network_whose_weights_are_computed_goes_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(DOUBLED)
    of = context("discrete", network=f"{tmp_path}/net.py:Net")
    envs = of.make_envs(of.rows, 1)
    found = collector(envs, network(of), of.spec, CPU, STEPS, np.array(envs.reset(seed=1)[0]))
    assert isinstance(found, StepByStep)
    assert found.collect(np.random.default_rng(1)).rewards.any()


def test_weights_that_have_diverged_end_the_training_with_advice() -> None:
    of = context("discrete")
    settings = of.config.algorithm
    assert isinstance(settings, A3CConfig)
    worker = Worker(of.make_envs(of.rows, 1), of, settings, 1, 2)
    weights = Learner(of, settings).weights
    worker.run(weights, 0.1)
    with pytest.raises(TrainingError, match=r"no finite answer .*algorithm\.actor_lr"):
        worker.run(weights * np.float32(1e30), 0.1)
