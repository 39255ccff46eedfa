"""Learned flow on real Linux TCP over an emulated link, in real time, as Gymnasium environments.

The world does not wait for the caller. An action stays in force until the next one. Intervals that end while the caller
computes are counted (`missed_intervals`). They give no reward, because their action had its reward already. Each
environment is a process with network namespaces of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from ccarena import _core
from ccarena.cc_kernel_bridge.run import Runner, check_traffic
from ccarena.configs.named import Scheme
from ccarena.envs.learned import Distribution, RewardLike, Setting
from ccarena.errors import ActionError, ConfigError, ScenarioError
from ccarena.policies.spec import Spec

__all__ = ["LearnedKernelEnv"]

GRACE_S = 1.0
"""Longest time past its horizon that an episode waits for the decision interval to end, as in the simulator, s."""


class LearnedKernelEnv(gym.Env[NDArray[np.float32], SupportsFloat], EzPickle):
    """`ccarena/Learned-v0` on real TCP: the same spaces, rewards, arguments and, for the same seed, the same links.

    Observations, actions and rewards are those of `ccarena.envs.LearnedEnv`.

    ## Starting State
    A flow that has sent nothing. It starts with the first action, so that no time passes between the two.

    ## Episode End
    Truncated at the first decision after the episode's duration, in real time; a flow that stalls ends at most 1 s
    later. Never terminated.

    ## Info
    Report of the finished interval by name; `interval_s`, its length; and `missed_intervals`, the intervals that ended
    before this action came.

    ## Arguments
    - `spec`, `distribution`, `scenario`, `reward`: as for `ccarena.envs.LearnedEnv`. Other flows of a scenario may have
      policies; the caller decides for this one. A reward that takes `privileged` is refused.
    - `traffic`: sender of the other flows' data, `own` or `iperf3`.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        spec: Scheme | None = None,
        distribution: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        reward: RewardLike | None = None,
        traffic: str = "own",
    ) -> None:
        EzPickle.__init__(self, spec=spec, distribution=distribution, scenario=scenario, reward=reward, traffic=traffic)
        check_traffic(traffic)
        self._setting = Setting.of(spec, distribution, scenario, reward, learners=None if scenario is not None else 1)
        if self._setting.reward.needs_privileged:
            raise ConfigError(
                "reward: it takes `privileged`, which only the simulator knows; give reward= with one of reports alone"
            )
        if (numbers := self._setting.spec.numbers) > 1:
            raise ConfigError(
                f"spec: its continuous actions have {numbers} numbers, and the environment on kernel TCP takes one: "
                "give its actuators `levels`, or use the simulator"
            )
        self._runner: Runner | None = None
        self._prepared: dict[str, Any] | None = None
        """The episode that the first action starts."""
        self._traffic = traffic
        self._start(seed=0)
        self._flow = self._learner(self._draw())
        self.observation_space = self._setting.spec.observation_space  # type: ignore[assignment]
        self.action_space: gym.Space[Any] = self._setting.spec.action_space

    @property
    def scheme(self) -> Spec:
        """Returns the spec of the scheme."""
        return self._setting.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Ends the current episode at once, and prepares the next one; with `seed`, the first of that run."""
        super().reset(seed=seed)
        self.close()
        if seed is not None:
            self._start(seed)
        document = self._draw()
        self._episode += 1
        self._flow, self._horizon_s = self._learner(document), document["duration_s"]
        self._observation = _core.SharedWorld(None, json.dumps(document)).observe(0)
        self._prepared = {**document, "duration_s": self._horizon_s + GRACE_S}
        return self._observation.copy(), {}

    def step(self, action: SupportsFloat) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Puts the action in force and waits for the end of the current interval.

        Raises:
            ActionError: the action is outside its space, or no episode is running; nothing has changed.
            MachineError, RunnerError: the flow cannot run here, or its process died; `reset` starts a new one.
        """
        given = self._checked(action)
        if self._runner is None:
            if self._prepared is None:
                raise ActionError("no episode is going on; call reset() to start one")
            self._runner = Runner(self._prepared, environment=True, traffic=self._traffic)
            self._prepared = None
        try:
            missed = self._runner.drain()
            self._runner.act(self._flow, given)
            due = self._runner.wait()
        except BaseException:
            self.close()
            raise
        # A run that ends without a decision has had an interval that did not: the last one that did stands.
        last = due or (missed.pop() if missed else None)
        over = due is None or due.time_ns >= self._horizon_s * 1e9
        if over:
            self.close()
        columns = self._setting.spec.report
        report = np.zeros(len(columns), np.float32) if last is None else last.report
        if last is not None:
            self._observation = last.observation
        info = dict(zip(columns, report.tolist(), strict=True))
        info |= {"interval_s": info["interval_ms"] / 1e3, "missed_intervals": len(missed)}
        value = 0.0 if last is None else float(self._setting.reward(report[None, :])[0])
        return self._observation.copy(), value, False, over, info

    def close(self) -> None:
        """Ends the episode and its process."""
        self._prepared = None
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _start(self, seed: int) -> None:
        """Starts a run from its first episode."""
        self._seed, self._episode = seed, 0
        self._prepared = None

    def _draw(self) -> dict[str, Any]:
        """Draws the next episode's scenario, the same as that of a simulated world with this seed."""
        domain, scenario = self._setting.sources
        document: dict[str, Any] = json.loads(
            _core.draw_scenario(domain, scenario, seed=self._seed, episode=self._episode)
        )
        return document

    def _learner(self, document: dict[str, Any]) -> int:
        """Returns the index of the flow that the caller decides for. Raises ScenarioError if there is not
        exactly one.
        """
        world = _core.SharedWorld(None, json.dumps(document))
        if world.learners != 1:
            raise ScenarioError(
                f"the scenario has {world.learners} flows whose scheme is learned and has no policy; expected exactly "
                "one"
            )
        self._setting.spec.check(world.spec)
        learned = {entry["name"] for entry in _core.schemes() if entry["learned"]}
        return next(
            index
            for index, flow in enumerate(document["flows"])
            if flow["policy"] is None and (isinstance(flow["scheme"], dict) or flow["scheme"] in learned)
        )

    def _checked(self, action: SupportsFloat) -> float:
        [value] = self._setting.spec.given(action, ()).tolist()
        count, bounds = len(self._setting.spec.actions), self._setting.spec.bounds
        if count and not (value.is_integer() and 0 <= value < count):
            raise ActionError(f"action is {value:g}; expected an index from 0 to {count - 1}")
        for low, high in bounds or ():
            if not low <= value <= high:
                raise ActionError(f"action is {value:g}; expected a number from {low:g} to {high:g}")
        return value
