"""The environments on the kernel, over a program that answers as `ccarena-kernel` does but takes no time."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from kernel_frames import Program

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: environments were not tested (run make)")

from functools import partial

import ccarena.envs
from ccarena import _core
from ccarena.configs import load_config
from ccarena.configs.schema import EnvConfig
from ccarena.envs.kernel import LearnedKernelEnv
from ccarena.errors import ActionError, ConfigError, MachineError, RunnerError, ScenarioError
from tests.envs.acct import ACTIONS, OBSERVATION_SIZE, REPORT_FIELDS, AcctEnv

AcctKernelEnv = partial(LearnedKernelEnv, "acct")
KernelEnv = partial(LearnedKernelEnv, "acct", None)
SHORT = EnvConfig(episode_s=(1.0, 1.0))
SCENARIO: dict[str, Any] = {
    "duration_s": 1,
    "links": [{"service": {"type": "constant", "rate_mbps": 12}, "router": True}],
    "flows": [{"scheme": "cubic"}, {"scheme": "acct"}],
}

# Intervals of 0.3 s: what is observed first is the action, and it is rewarded as ACCT's in the green zone, by alpha.
FLOW = f"""
def send(letter, payload):
    write.write(struct.pack("<I", len(payload) + 1) + letter + payload)
    write.flush()

def decide(flow, time_s, action):
    report = [0.0] * {len(REPORT_FIELDS)}
    report[{REPORT_FIELDS.index("alpha")}] = report[{REPORT_FIELDS.index("previous_alpha")}] = {ACTIONS}[int(action)]
    head = struct.pack("<IQII", flow, int(time_s * 1e9), {OBSERVATION_SIZE}, len(report))
    values = [action] + [1.0] * {OBSERVATION_SIZE - 1} + report
    send(b"D", head + struct.pack("<" + "f" * len(values), *values))

line = read.readline()
heard.write(line)
send(b"S", b'{{"flows": [], "zero_ns": 1}}')
"""
ANSWERS = """
now = 0.0
while answer := read.read(12):
    now += 0.3
    flow, action = struct.unpack("<Id", answer)
    decide(flow, now, action)
"""
PLAYS = FLOW + ANSWERS
STALLS = FLOW + "read.read(12)\nsend(b'R', b'{\"flows\": [], \"links\": []}')\n"
BUSY = FLOW + "read.read(12)\nfor k in range(4):\n    decide(1, 0.1 * (k + 1), 5)\nheard.write(b'sent')\n" + ANSWERS


def requested(heard: Path) -> dict[str, Any]:
    """What the program was asked to run."""
    document: dict[str, Any] = json.loads(heard.read_bytes().splitlines()[0])
    return document


def test_gymnasium_accepts_it_without_a_warning(program: Program) -> None:
    program(PLAYS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        # The world is real: the same seed is the same link, not the same packets. (This one is deterministic.)
        env = gymnasium.make("ccarena/AcctKernel-v0", distribution=SHORT)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


def test_stable_baselines3_accepts_it_and_learns_on_several(program: Program) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: fine-tuning was not tried")
    program(PLAYS)
    from stable_baselines3.common.env_checker import check_env as sb3_check
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = AcctKernelEnv(SHORT)
    sb3_check(env, warn=True)
    env.close()
    envs = DummyVecEnv([lambda: AcctKernelEnv(SHORT), lambda: AcctKernelEnv(SHORT)])
    sb3.A2C("MlpPolicy", envs, n_steps=4, device="cpu").learn(16)
    envs.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_several_side_by_side(program: Program, mode: str) -> None:
    program(PLAYS)
    envs = gymnasium.make_vec("ccarena/AcctKernel-v0", num_envs=2, vectorization_mode=mode, distribution=SHORT)
    try:
        envs.reset(seed=1)
        observations, rewards, _, truncated, _ = envs.step(np.array([3, 6]))
        assert observations[:, 0].tolist() == [3, 6] and rewards.tolist() == [ACTIONS[3], ACTIONS[6]]
        assert not truncated.any()
    finally:
        envs.close()


def test_an_episode_s_link_is_the_simulated_world_s(program: Program) -> None:
    heard = program(PLAYS)
    env, simulated = AcctKernelEnv(SHORT), AcctEnv(SHORT)
    domain = ccarena.envs.distribution_json(load_config("acct").model_copy(update={"env": SHORT}))
    for episode, seed in ((0, 7), (1, None), (2, None), (0, 3)):
        first, info = env.reset(seed=seed)
        expected, _ = simulated.reset(seed=seed)
        assert np.array_equal(first, expected) and info == {}
        env.step(1)
        ran = requested(heard)
        drawn_json = _core.draw_scenario(domain, seed=3 if seed == 3 else 7, episode=episode)
        drawn = json.loads(_core.validate_scenario(drawn_json))
        assert ran["environment"] and ran["scenario"]["links"] == drawn["links"]
        assert ran["scenario"]["seed"] == drawn["seed"] and ran["scenario"]["flows"] == drawn["flows"]
        # A second of grace for the interval that is going on at the episode's end.
        assert ran["scenario"]["duration_s"] == drawn["duration_s"] + 1.0
    env.close()


def test_an_episode_ends_at_the_first_decision_after_its_time(program: Program) -> None:
    program(PLAYS)
    env = KernelEnv(SCENARIO)
    env.reset(seed=1)
    played = [env.step(4) for _ in range(4)]
    assert [over for _, _, _, over, _ in played] == [False, False, False, True]
    assert [reward for _, reward, _, _, _ in played] == [ACTIONS[4]] * 4
    info = played[0][4]
    assert tuple(info) == (*REPORT_FIELDS, "interval_s", "missed_intervals") and info["alpha"] == ACTIONS[4]
    with pytest.raises(ActionError, match="reset"):
        env.step(4)
    env.reset()
    assert env.step(4)[3] is False


def test_a_flow_that_stalls_ends_its_episode(program: Program) -> None:
    program(STALLS)
    env = KernelEnv(SCENARIO)
    first, _ = env.reset()
    observation, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated, info["acked_packets"]) == (0.0, False, True, 0.0)
    assert np.array_equal(observation, first)


def test_intervals_that_end_while_the_agent_thinks_are_counted(program: Program) -> None:
    heard = program(BUSY)
    env = KernelEnv(SCENARIO)
    env.reset()
    # Four intervals end after the first action; the first of them is that step's.
    assert env.step(3)[4]["missed_intervals"] == 0
    while b"sent" not in heard.read_bytes():
        time.sleep(0.01)
    time.sleep(0.05)
    observation, reward, _, _, info = env.step(8)
    assert info["missed_intervals"] == 3
    assert observation[0] == 8 and reward == ACTIONS[8]
    env.close()


def test_reset_and_close_end_the_process_at_once(program: Program) -> None:
    program(PLAYS)
    env = KernelEnv(SCENARIO)
    for leave in (env.reset, env.close):
        env.reset()
        env.step(0)
        runner = env._runner
        assert runner is not None
        begun_s = time.monotonic()
        leave()
        assert time.monotonic() - begun_s < 0.5 and not Path(f"/proc/{runner.pid}").exists()
    env.close()


@pytest.mark.parametrize("action", [np.nan, np.inf, -1, len(ACTIONS), 1.5, [1], "two", None])
def test_an_impossible_action_starts_nothing(program: Program, action: Any) -> None:
    heard = program(PLAYS)
    env = KernelEnv(SCENARIO)
    env.reset()
    with pytest.raises(ActionError, match="action"):
        env.step(action)
    assert not heard.exists()


def test_a_process_that_dies_ends_the_episode_and_not_the_environment(program: Program) -> None:
    program(FLOW + "read.read(12)\nprint('out of memory', file=sys.stderr)\nsys.exit(1)")
    env = KernelEnv(SCENARIO)
    env.reset()
    with pytest.raises(RunnerError, match="out of memory"):
        env.step(1)
    with pytest.raises(ActionError, match="reset"):
        env.step(1)
    program(PLAYS)
    env.reset()
    env.step(1)
    env.close()
    program(
        'read.readline()\nsend = b\'{"kind": "machine", "message": "needs root: sudo"}\'\n'
        "write.write(struct.pack('<I', len(send) + 1) + b'E' + send)"
    )
    env.reset()
    with pytest.raises(MachineError, match="needs root"):
        env.step(1)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({**SCENARIO, "flows": [{"scheme": "cubic"}]}, "0 flows"),
        ({**SCENARIO, "flows": [{"scheme": "acct", "count": 2}]}, "2 flows"),
        ({**SCENARIO, "flows": [{"scheme": "acct", "policy": {"constant": 1}}]}, "0 flows"),
        ({**SCENARIO, "flows": [{"scheme": "akct"}]}, 'did you mean "acct"'),
    ],
)
def test_a_scenario_that_does_not_fit_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        KernelEnv(document)


def test_what_has_to_be_given() -> None:
    with pytest.raises(ConfigError, match="give spec="):
        LearnedKernelEnv()
    with pytest.raises(ConfigError, match="only the simulator knows"):
        AcctKernelEnv(SHORT, reward=lambda privileged: privileged.capacity_mbps)
    with pytest.raises(ConfigError, match="not both"):
        AcctKernelEnv(SHORT, SCENARIO)
    with pytest.raises(ConfigError, match='did you mean "iperf3"'):
        KernelEnv(SCENARIO, traffic="iperf")


def test_another_reward(program: Program) -> None:
    program(PLAYS)
    env = KernelEnv(SCENARIO, reward=lambda report: -report.alpha)
    env.reset()
    assert env.step(5)[1] == -ACTIONS[5]
    env.close()
