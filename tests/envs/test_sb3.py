"""The vector environment as Stable-Baselines3 sees it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.envs.acct import SHORT, AcctVectorEnv

pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: its view of worlds not tested")
from ccarena.envs.sb3 import Sb3VecEnv


def test_terminal_observations_and_returns() -> None:
    native = AcctVectorEnv(4, SHORT, threads=1)
    wrapped = Sb3VecEnv(AcctVectorEnv(4, SHORT, threads=1, copy=False), reward_scale=0.01)
    wrapped.seed(5)
    expected, _ = native.reset(seed=5)
    assert np.array_equal(wrapped.reset(), expected)
    returns, episodes = np.zeros(4), 0
    for row in np.random.default_rng(0).integers(0, 15, (100, 4)):
        observations, reward, _, truncated, infos = native.step(row)
        seen, scaled, dones, each = wrapped.step(row)
        assert np.array_equal(seen, observations) and np.array_equal(dones, truncated)
        np.testing.assert_allclose(scaled, reward * 0.01, rtol=1e-6)
        returns += reward
        for world in np.flatnonzero(dones):
            assert np.array_equal(each[world]["terminal_observation"], infos["final_obs"][world])
            assert each[world]["TimeLimit.truncated"]
            assert each[world]["episode"]["r"] == pytest.approx(returns[world])
            episodes += 1
        returns[dones] = 0
    assert episodes > 4


def test_what_sb3_is_given_stays_as_it_was() -> None:
    wrapped = Sb3VecEnv(AcctVectorEnv(2, SHORT, copy=False))
    wrapped.seed(1)
    first = wrapped.reset()
    kept = first.copy()
    wrapped.step(np.array([1, 2]))
    assert np.array_equal(first, kept)


def test_a_learner_of_sb3_takes_it() -> None:
    from stable_baselines3 import A2C

    model = A2C("MlpPolicy", Sb3VecEnv(AcctVectorEnv(4, SHORT), 0.01), n_steps=8, device="cpu", seed=1)
    model.learn(256)
    assert model.num_timesteps == 256


def test_worlds_that_reset_otherwise_are_refused() -> None:
    envs = AcctVectorEnv(2, SHORT)
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset mode"):
        Sb3VecEnv(envs)
