"""The native vector environment: Gymnasium's autoreset, determinism, saved states, refused actions, memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena import _core
from ccarena.core.learned_schemes import shipped_policies
from ccarena.envs import LearnedVectorEnv
from ccarena.errors import ActionError, CheckpointError, ConfigError, PolicyError
from ccarena.policies.artifact import Artifact
from tests.envs.acct import ACTIONS, OBSERVATION_SIZE, REPORT_FIELDS, SERIES, SHORT, AcctVectorEnv, rewards

ROOT = Path(__file__).parents[2]


def actions(steps: int, worlds: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, len(ACTIONS), (steps, worlds))


def roll(envs: LearnedVectorEnv, chosen: np.ndarray) -> list[np.ndarray]:
    """All that a run of steps returns, one entry per kind of array."""
    steps = [envs.step(row) for row in chosen]
    arrays = [np.array([step[k] for step in steps]) for k in range(4)]
    return [*arrays, np.array([step[4]["reports"] for step in steps])]


def same(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def test_gymnasium_makes_it() -> None:
    envs = gymnasium.make_vec("ccarena/Acct-v0", num_envs=5, distribution=SHORT, threads=1)
    assert isinstance(envs.unwrapped, LearnedVectorEnv) and envs.num_envs == 5
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observations, infos = envs.reset(seed=1)
    assert envs.observation_space.contains(observations) and infos == {}
    envs.action_space.seed(1)
    observations, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observations)
    assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, np.bool_, np.bool_)
    assert infos["reports"].shape == (5, len(REPORT_FIELDS))
    assert np.array_equal(reward, rewards(infos["reports"]))
    envs.close()


def steps_of(envs: gymnasium.vector.VectorEnv, steps: int) -> list[tuple[object, ...]]:
    """Returns the answers of a run with given actions, first observations included."""
    out: list[tuple[object, ...]] = [(envs.reset(seed=7)[0].tolist(),)]
    for k in range(steps):
        observations, reward, terminated, truncated, _ = envs.step(np.array([k % len(ACTIONS)]))
        # Gymnasium's own vector environments give rewards as float64.
        out.append((observations.tolist(), np.float32(reward).tolist(), terminated.tolist(), truncated.tolist()))
    return out


@pytest.mark.parametrize("most", [None, 7])
def test_next_step_autoreset_is_that_of_gymnasiums_own_vector_environments(most: int | None) -> None:
    """With rows, rewards and ends as `SyncVectorEnv` has them, steps of a reset included."""
    native = gymnasium.make_vec(
        "ccarena/Acct-v0", distribution=SHORT, autoreset_mode="NEXT_STEP", max_episode_steps=most
    )
    assert native.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    limited = {} if most is None else {"max_episode_steps": most}
    own = gymnasium.make_vec("ccarena/Acct-v0", vectorization_mode="sync", distribution=SHORT, **limited)
    one, two = steps_of(native, 120), steps_of(own, 120)
    assert one == two and sum(any(row[3]) for row in one[1:]) >= 2  # type: ignore[arg-type]


def test_gymnasiums_wrappers_of_observations_take_it() -> None:
    vector = gymnasium.wrappers.vector
    for wrap in (
        vector.NormalizeObservation,
        vector.FlattenObservation,
        lambda envs: vector.RescaleObservation(envs, np.float32(-1), np.float32(1)),
        lambda envs: vector.TransformObservation(envs, lambda observation: observation),
    ):
        envs = wrap(AcctVectorEnv(2, SHORT, autoreset_mode=AutoresetMode.NEXT_STEP))
        envs.reset(seed=1)
        for row in actions(60, 2):
            assert np.isfinite(envs.step(row)[0]).all()


def test_a_row_that_is_held_has_no_reward_and_no_report() -> None:
    """Also if the reward of a report of zeros is not 0."""
    envs = AcctVectorEnv(3, SHORT, autoreset_mode="NextStep", reward=lambda report: 1 + report.throughput_mbps)
    envs.reset(seed=1)
    held, seen = np.zeros(3, bool), 0
    for row in actions(120, 3):
        _, reward, _, truncated, infos = envs.step(row)
        assert (
            not reward[held].any()
            and (reward[~held] >= 1).all()
            and not infos["reports"][held].any()
            and not truncated[held].any()
        )
        assert "final_obs" not in infos and infos["reports"][~held].any(axis=1).all()
        held, seen = truncated, seen + int(held.sum())
    assert seen > 3


def test_a_saved_state_goes_on_while_rows_are_held() -> None:
    def envs() -> LearnedVectorEnv:
        return AcctVectorEnv(4, SHORT, autoreset_mode="NEXT_STEP", max_episode_steps=5)

    one, two = envs(), envs()
    one.reset(seed=3)
    for row in actions(5, 4):
        last = one.step(row)
    assert last[3].all()
    state = one.get_state()
    assert np.array_equal(two.set_state(state), last[0])
    assert same(roll(one, actions(12, 4, 1)), roll(two, actions(12, 4, 1)))
    for wrong in (b"", state[:3], state[:10]):
        with pytest.raises(CheckpointError, match="saved environment state"):
            two.set_state(wrong)


def test_what_next_step_autoreset_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigError, match="autoreset_mode = 'Disabled': expected SAME_STEP or NEXT_STEP"):
        AcctVectorEnv(2, SHORT, autoreset_mode=AutoresetMode.DISABLED.value)
    with pytest.raises(ConfigError, match="max_episode_steps = 0: expected at least 1"):
        AcctVectorEnv(2, SHORT, max_episode_steps=0)
    policy = _core.Policy(str(shipped_policies()["acct"]))
    envs = AcctVectorEnv(2, SHORT, autoreset_mode="NEXT_STEP")
    with pytest.raises(ConfigError, match="a rollout takes autoreset_mode SAME_STEP"):
        envs.rollout(policy, np.zeros((3, 2, len(ACTIONS)), np.float32))


def test_gymnasium_wraps_it() -> None:
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(AcctVectorEnv(4, SHORT))
    envs.reset(seed=1)
    lengths: list[int] = []
    for row in actions(200, 4):
        infos = envs.step(row)[4]
        lengths += infos["episode"]["l"][infos["_episode"]].tolist() if "episode" in infos else []
    assert len(lengths) > 8


def test_an_ended_world_starts_the_next_episode_in_the_same_step() -> None:
    envs = AcctVectorEnv(6, SHORT, seed=1)
    envs.reset()
    ended = np.zeros(6, int)
    for row in actions(150, 6):
        observations, _, terminated, truncated, infos = envs.step(row)
        assert not terminated.any(), "congestion control has no goal state"
        for world in range(6):
            first = not observations[world, :-1].any()
            assert first == truncated[world]
            if truncated[world]:
                final = infos["final_obs"][world]
                # The last observation of an episode has the interval in it that the step's report is about.
                assert final[-1] == ACTIONS[row[world]] == infos["reports"][world, REPORT_FIELDS.index("alpha")]
                assert final[SERIES["delay"]][-1] == infos["reports"][world, REPORT_FIELDS.index("delay_ratio")]
                assert infos["_final_obs"][world]
        assert ("final_obs" in infos) == truncated.any()
        ended += truncated
    assert (ended >= 2).all()


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads() -> None:
    runs = []
    for threads in (1, 2, 3):
        envs = AcctVectorEnv(16, SHORT, threads=threads)
        observations, _ = envs.reset(seed=9)
        runs.append([observations, *roll(envs, actions(60, 16))])
    assert same(runs[0], runs[1]) and same(runs[0], runs[2])
    envs.reset(seed=10)
    assert not same(runs[0][1:], roll(envs, actions(60, 16)))


def test_a_world_does_not_depend_on_the_size_of_the_batch() -> None:
    small, large = AcctVectorEnv(4, SHORT), AcctVectorEnv(8, SHORT)
    small.reset(seed=4), large.reset(seed=4)
    chosen = actions(60, 8)
    assert same(roll(small, chosen[:, :4]), [part[:, :4] for part in roll(large, chosen)])


def test_a_reset_without_a_seed_starts_the_run_over() -> None:
    envs = AcctVectorEnv(4, SHORT, seed=3)
    envs.reset()
    first = roll(envs, actions(30, 4))
    envs.reset()
    assert same(first, roll(envs, actions(30, 4)))
    envs.reset(seed=3)
    assert same(first, roll(envs, actions(30, 4)))


@settings(max_examples=12, deadline=None)
@given(before=st.integers(0, 80), seed=st.integers(0, 2**32 - 1))
def test_a_state_goes_on_exactly(before: int, seed: int) -> None:
    envs = AcctVectorEnv(5, SHORT, threads=2)
    observations, _ = envs.reset(seed=seed)
    chosen = actions(before + 20, 5, seed)
    for row in chosen[:before]:
        observations = envs.step(row)[0]
    state = envs.get_state()
    expected = roll(envs, chosen[before:])
    for other in (envs, AcctVectorEnv(5, SHORT, seed=1, threads=1)):
        assert np.array_equal(other.set_state(state), observations)
        assert same(expected, roll(other, chosen[before:]))


@pytest.mark.parametrize("damage", [lambda s: s[:-1], lambda s: s + b"\0", lambda s: b"", lambda s: b"\xff" * len(s)])
def test_a_damaged_state_is_refused(damage: Any) -> None:
    envs = AcctVectorEnv(2, SHORT)
    envs.reset(seed=1)
    roll(envs, actions(3, 2))
    with pytest.raises(CheckpointError, match="state"):
        envs.set_state(damage(envs.get_state()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1, np.nan, 2], r"actions\[1\]"),
        ([1, 2, np.inf], r"actions\[2\]"),
        ([-1, 2, 3], r"actions\[0\].*an index from 0 to 14"),
        ([1, 15, 3], r"actions\[1\].*an index from 0 to 14"),
        ([1, 2, 2.5], r"actions\[2\]"),
        ([1, 2], r"shape \(2,\); expected \(3,\)"),
        ([[1, 2, 3]], r"shape \(1, 3\)"),
        (5, r"shape \(\)"),
        ([[1], [1, 2], [3]], "ragged"),
        (["a", "b", "c"], "of type <U1"),
    ],
)
def test_a_refused_action_moves_no_world(wrong: Any, message: str) -> None:
    envs, other = AcctVectorEnv(3, SHORT), AcctVectorEnv(3, SHORT)
    envs.reset(seed=6), other.reset(seed=6)
    chosen = actions(10, 3)
    assert same(roll(envs, chosen), roll(other, chosen))
    with pytest.raises(ActionError, match=message):
        envs.step(wrong)
    assert envs.get_state() == other.get_state()
    assert same(roll(envs, chosen), roll(other, chosen))


def test_without_copies_arrays_are_reused() -> None:
    envs = AcctVectorEnv(2, SHORT, copy=False)
    first, _ = envs.reset(seed=1)
    assert envs.step([1, 1])[0] is first
    copying = AcctVectorEnv(2, SHORT)
    first, _ = copying.reset(seed=1)
    kept = first.copy()
    copying.step([1, 1])
    assert np.array_equal(first, kept)


def test_late_rewards_are_those_of_the_steps() -> None:
    chosen = actions(8, 3)
    *_, reports = late = roll(AcctVectorEnv(3, SHORT, seed=2, late_rewards=True), chosen)
    envs = AcctVectorEnv(3, SHORT, seed=2)
    at_once = roll(envs, chosen)
    assert not late[1].any() and at_once[1].any()
    assert envs.rewards_of(reports).tobytes() == at_once[1].tobytes()


def test_a_rollout_refuses_what_does_not_fit() -> None:
    envs = AcctVectorEnv(3, SHORT, seed=2)
    policy = _core.Policy(shipped_policies()["acct"])
    name, biases = next(
        (k, v) for k, v in Artifact.load(shipped_policies()["acct"]).graph.tensors.items() if "bias" in k
    )
    before = envs.get_state()
    with pytest.raises(ActionError, match=r"noise of shape \(4, 2, 15\); expected \(T, 3, 15\)"):
        envs.rollout(policy, np.zeros((4, 2, len(ACTIONS)), np.float32))
    other = _core.Policy(shipped_policies()["hyvar"])
    with pytest.raises(PolicyError, match=r"a policy for the spec .*; expected one for"):
        envs.rollout(other, np.zeros((4, 3, len(ACTIONS)), np.float32))
    for bad, message in ((np.zeros(1, np.float32), r"shape \[1\]"), (np.full(biases.shape, np.nan, np.float32), "NaN")):
        with pytest.raises(PolicyError, match=message):
            policy.with_weights({name: bad})
    assert envs.get_state() == before, "no world has moved"


def test_counts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_envs = 0"):
        AcctVectorEnv(0, SHORT)
    with pytest.raises(ConfigError, match="one seed"):
        AcctVectorEnv(2, SHORT).reset(seed=[1, 2])


def test_1024_worlds_fit_in_2_gb() -> None:
    code = (
        "import resource, numpy as np; from ccarena.envs import LearnedVectorEnv; "
        "envs = LearnedVectorEnv('acct', 1024); "
        f"envs.reset(seed=1); rng = np.random.default_rng(1); "
        f"[envs.step(rng.integers(0, {len(ACTIONS)}, 1024)) for _ in range(40)]; "
        f"assert envs.step(np.zeros(1024, int))[0].shape == (1024, {OBSERVATION_SIZE}); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) * 1024 < 2e9
