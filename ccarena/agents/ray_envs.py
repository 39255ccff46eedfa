"""Vector environment of worlds on a Ray cluster, for algorithms that step them together.

Rows are split over `ray.workers` processes, each with its own native worlds. A step sends every process its actions and
waits for all, so the result is the same on any machines. If a process is lost, one with fresh worlds replaces it, and
its episodes count as truncated at the last observation.
"""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.agents.algorithm import MakeEnvs
from ccarena.agents.ray_actors import Crew, Lost
from ccarena.agents.ray_start import wait_for_machines
from ccarena.configs import TrainConfig
from ccarena.executors.ray import connect, module
from ccarena.executors.shipping import Parcel

__all__ = ["RayVectorEnv", "on_cluster"]

_Step = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class _Worlds:
    """Ray actor with some of the rows."""

    def __init__(self, make_envs: Parcel[MakeEnvs], rows: int) -> None:
        self._envs = make_envs.open()(rows, 1)

    def reset(self, seed: int | None) -> NDArray[np.float32]:
        return np.array(self._envs.reset(seed=seed)[0])

    def step(self, actions: NDArray[Any]) -> _Step:
        return self._envs.step(actions)

    def get_state(self) -> bytes:
        return bytes(self._envs.get_state())  # type: ignore[attr-defined]

    def set_state(self, state: bytes) -> NDArray[np.float32] | None:
        return self._envs.set_state(state)  # type: ignore[attr-defined]


def on_cluster(make_envs: MakeEnvs, config: TrainConfig) -> MakeEnvs:
    """Returns `make_envs` with its rows on a cluster."""
    return functools.partial(_make, make_envs, config)


def _make(make_envs: MakeEnvs, config: TrainConfig, rows: int, threads: int, **more: Any) -> RayVectorEnv:
    return RayVectorEnv(functools.partial(make_envs, **more), config, rows)


class RayVectorEnv(gym.vector.VectorEnv):
    """Vector environment with `rows` rows of `make_envs`, on the cluster that `config.ray` names."""

    def __init__(self, make_envs: MakeEnvs, config: TrainConfig, rows: int) -> None:
        settings = config.ray
        self._ray = ray = module("executor = ray")
        self._started_ray = connect(settings.address)
        count = settings.workers
        each = f"ray.workers = {count}, which step their worlds together,"
        wait_for_machines(config, {"cores": count}, each, {"cores": "lower ray.workers"})
        self._each = rows // count
        # One local world says what the spaces are, and stands in nowhere.
        example = make_envs(config.env.learners, 1)
        self.metadata = example.metadata
        self.num_envs = rows
        self.single_observation_space = example.single_observation_space
        self.single_action_space = example.single_action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, rows)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, rows)
        example.close()
        remote = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Worlds)
        shipped = Parcel(make_envs)

        def create(_index: int) -> Any:
            return remote.remote(shipped, self._each)

        self._crew = Crew(create, count, settings.deaths, settings.patience_s, together=True)
        self._seed = config.seed
        self._restarts = [0] * count
        self._observation = np.zeros((rows, *self.single_observation_space.shape), np.float32)  # type: ignore[misc]
        self._waited_s = self._steps = 0.0

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts every world anew; each process's seeds follow from `seed`."""
        assert not isinstance(seed, list)
        self._seed = self._seed if seed is None else seed
        self._restarts = [0] * len(self._restarts)
        parts = self._all("reset", [(self._own_seed(index),) for index in range(len(self._restarts))])
        self._observation = np.concatenate(parts)
        return self._observation.copy(), {}

    def _own_seed(self, index: int) -> int:
        drawn = np.random.SeedSequence((self._seed, index, self._restarts[index])).generate_state(1, np.uint64)[0]
        return int(drawn >> np.uint64(1))

    def step(self, actions: NDArray[Any]) -> _Step:
        """Steps every world to its next decision."""
        began_s = time.monotonic()
        actions = np.asarray(actions)
        count, each = len(self._crew.actors), self._each
        pieces = [actions[index * each : (index + 1) * each] for index in range(count)]
        calls = [actor.step.remote(piece) for actor, piece in zip(self._crew.actors, pieces, strict=True)]
        parts: list[_Step] = []
        for index, call in enumerate(calls):
            try:
                parts.append(self._take(index, call))
            except Lost:
                parts.append(self._anew(index, parts))
        self._waited_s, self._steps = self._waited_s + time.monotonic() - began_s, self._steps + 1
        observation, reward, terminated, truncated = (np.concatenate([part[k] for part in parts]) for k in range(4))
        self._observation = observation
        return observation.copy(), reward, terminated, truncated, self._infos([part[4] for part in parts], truncated)

    def _infos(self, each: list[dict[str, Any]], truncated: NDArray[np.bool_]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for name in ("reports", "interval_s", "privileged"):
            known = [part[name] for part in each if name in part]
            if known:
                # Of a process that was lost nothing is known, and nothing is reported.
                blank = np.zeros_like(known[0])
                infos[name] = np.concatenate([part.get(name, blank) for part in each])
        if truncated.any():
            blank = np.zeros((self._each, *self.single_observation_space.shape), np.float32)  # type: ignore[misc]
            infos["final_obs"] = np.concatenate([part.get("final_obs", blank) for part in each])
            infos["_final_obs"] = truncated.copy()
        return infos

    def _anew(self, index: int, done: list[_Step]) -> _Step:
        """Returns the step of a lost process: its episodes are truncated at their last observation."""
        each = self._each
        last = self._observation[index * each : (index + 1) * each].copy()
        self._restarts[index] += 1
        first = self._ask(index, "reset", (self._own_seed(index),))
        nothing = np.zeros(each, np.float32)
        cut, on = np.ones(each, np.bool_), np.zeros(each, np.bool_)
        infos = {"final_obs": last}
        if done and "interval_s" in done[0][4]:
            infos["interval_s"] = np.full(each, float(np.mean(done[0][4]["interval_s"])), np.float32)
        return first, nothing, on, cut, infos

    def _all(self, name: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        calls = [getattr(actor, name).remote(*given) for actor, given in zip(self._crew.actors, arguments, strict=True)]
        parts = []
        for index, call in enumerate(calls):
            try:
                parts.append(self._take(index, call))
            except Lost:
                parts.append(self._ask(index, name, arguments[index]))
        return parts

    def _ask(self, index: int, name: str, arguments: tuple[Any, ...]) -> Any:
        """Returns one process's answer, and repeats the call if the process is lost."""
        while True:
            try:
                return self._take(index, getattr(self._crew.actors[index], name).remote(*arguments))
            except Lost:
                continue

    def _take(self, index: int, call: Any) -> Any:
        while not self._ray.wait([call], timeout=1.0)[0]:
            self._crew.look()
        return self._crew.take(index, call)

    def figures(self) -> dict[str, float]:
        """Returns the time of a step of all worlds, ms, and `Crew.figures`, for the learning curve."""
        return {"step_ms": 1e3 * self._waited_s / max(self._steps, 1.0), **self._crew.figures()}

    def get_state(self) -> bytes:
        """Returns the argument of `set_state`, the states of all processes."""
        states = self._all("get_state", [()] * len(self._crew.actors))
        about = {"restarts": self._restarts, "sizes": [len(state) for state in states]}
        return json.dumps(about).encode() + b"\n" + b"".join(states)

    def set_state(self, state: bytes) -> NDArray[np.float32]:
        """Restores the result of `get_state` of as many processes. Raises ValueError for another number."""
        head, _, data = state.partition(b"\n")
        about = json.loads(head)
        if len(about["sizes"]) != len(self._crew.actors):
            raise ValueError(f"worlds of {len(about['sizes'])} processes, expected {len(self._crew.actors)}")
        self._restarts = list(about["restarts"])
        ends = np.cumsum(about["sizes"])
        parts = [data[end - size : end] for end, size in zip(ends, about["sizes"], strict=True)]
        self._observation = np.concatenate(self._all("set_state", [(part,) for part in parts]))
        return self._observation.copy()

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the processes, and Ray if it was started here."""
        self._crew.close()
        if self._started_ray:
            self._ray.shutdown()
