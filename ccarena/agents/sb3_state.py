"""State of a Stable-Baselines3 model between two rollouts, as arrays and JSON: nothing is pickled.

SB3's own `save` pickles, and leaves out the replay buffer, the worlds and the random generators, so that a resumed
training differs. SB3 draws from NumPy's and PyTorch's global generators, which are therefore part of the state.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

log = logging.getLogger(__name__)

Arrays = dict[str, NDArray]

_COUNTERS = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
)


def state(model: BaseAlgorithm) -> tuple[Arrays, dict[str, Any]]:
    """Returns everything that later rollouts depend on."""
    worlds: Any = model.env
    algorithm, position, has_gauss, cached, keys = _numpy_state()
    arrays: Arrays = {
        "environment": np.frombuffer(worlds.envs.get_state(), dtype=np.uint8),
        "observation": np.array(model._last_obs, dtype=np.float32),
        "starts": np.array(_starts(model), dtype=np.bool_),
        "returns": worlds._returns.copy(),
        "lengths": worlds._lengths.copy(),
        "asked_in": worlds.groups.copy(),
        "numpy": keys,
        "torch": torch.get_rng_state().numpy(),
    }
    rest: dict[str, Any] = {
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
        "numpy": [algorithm, position, has_gauss, cached],
        "actions": model.action_space.np_random.bit_generator.state,
        "groups": {},
        "losses": {name: float(value) for name, value in model.logger.name_to_value.items()},
    }
    for name, part in model.get_parameters().items():
        if "param_groups" in part:
            rest["groups"][name] = part["param_groups"]
            for index, moments in part["state"].items():
                arrays |= {f"{name}/{index}.{key}": _array(value) for key, value in moments.items()}
        else:
            arrays |= {f"{name}/{key}": _array(value) for key, value in part.items()}
    for name in model._get_torch_save_params()[1]:
        if (variable := getattr(model, name, None)) is not None:
            arrays[f"variable/{name}"] = _array(variable)
    if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
        memory = model.replay_buffer
        filled = memory.buffer_size if memory.full else memory.pos
        rest["memory"] = {"pos": memory.pos, "full": memory.full}
        arrays |= {f"memory/{name}": array[:filled] for name, array in _columns(memory).items()}
    for index, remembered in enumerate(_lstm_states(model)):
        arrays[f"lstm/{index}"] = _array(remembered)
    return arrays, rest


def restore(model: BaseAlgorithm, arrays: Arrays, rest: dict[str, Any]) -> None:
    """Restores a `state()`. Raises KeyError, ValueError or RuntimeError if it belongs to another model.

    Worlds that were in other processes, or in another number of them, begin fresh episodes.
    """
    worlds: Any = model.env
    try:
        worlds.envs.set_state(arrays["environment"].tobytes())
        model._last_obs = arrays["observation"].copy()
        model._last_episode_starts = arrays["starts"].copy()
        worlds._returns[:], worlds._lengths[:] = arrays["returns"], arrays["lengths"]
        worlds.groups[:] = arrays["asked_in"]
    except ValueError as error:
        log.warning("the worlds begin fresh episodes, because theirs are of another executor (%s)", error)
        model.num_timesteps = rest["counters"]["num_timesteps"]
        begin(model)
    for name, value in rest["counters"].items():
        setattr(model, name, value)

    model.logger.name_to_value.update(rest["losses"])

    parameters: dict[str, Any] = {}
    for name, part in model.get_parameters().items():
        own = {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
        if "param_groups" not in part:
            parameters[name] = {key: _tensor(array) for key, array in own.items()}
            continue
        moments: dict[int, dict[str, Any]] = {}
        for key, array in own.items():
            index, _, moment = key.partition(".")
            moments.setdefault(int(index), {})[moment] = _tensor(array)
        parameters[name] = {"state": moments, "param_groups": rest["groups"][name]}
    model.set_parameters(parameters, exact_match=True, device=model.device)
    for name in model._get_torch_save_params()[1]:
        if (variable := getattr(model, name, None)) is not None:
            variable.data.copy_(_tensor(arrays[f"variable/{name}"]))
    if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
        memory = model.replay_buffer
        memory.pos, memory.full = rest["memory"]["pos"], rest["memory"]["full"]
        for name, column in _columns(memory).items():
            saved = arrays[f"memory/{name}"]
            column[: len(saved)] = saved
    for order, remembered in enumerate(_lstm_states(model)):
        remembered.copy_(_tensor(arrays[f"lstm/{order}"]))

    algorithm, position, has_gauss, cached = rest["numpy"]
    np.random.set_state((algorithm, arrays["numpy"].astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(torch.from_numpy(arrays["torch"].copy()))
    model.action_space.np_random.bit_generator.state = rest["actions"]


def begin(model: BaseAlgorithm) -> None:
    """Begins fresh episodes in all worlds, which follow from the seed and the number of decisions so far."""
    worlds: Any = model.env
    worlds.seed(int(np.random.SeedSequence((model.seed or 0, model.num_timesteps)).generate_state(1)[0]))
    worlds.groups[:] = 0
    model._last_obs = worlds.reset()
    model._last_episode_starts = np.ones(model.n_envs, np.bool_)


def _columns(memory: Any) -> Arrays:
    """Returns the contents of a replay buffer, a row per step of all worlds."""
    rows = memory.buffer_size
    return {name: a for name, a in vars(memory).items() if isinstance(a, np.ndarray) and a.shape[:1] == (rows,)}


def _lstm_states(model: BaseAlgorithm) -> list[torch.Tensor]:
    """Returns the memory of the worlds' flows for recurrent policies; empty for others."""
    states = getattr(model, "_last_lstm_states", None)
    return [] if states is None else [part for pair in states for part in pair]


def _starts(model: BaseAlgorithm) -> NDArray[np.bool_]:
    starts = model._last_episode_starts
    return np.zeros(model.n_envs, np.bool_) if starts is None else starts


def _numpy_state() -> tuple[str, int, int, float, NDArray[np.int64]]:
    algorithm, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return str(algorithm), int(position), int(has_gauss), float(cached), np.asarray(keys).astype(np.int64)


def _array(value: Any) -> NDArray:
    return np.asarray(value.detach().cpu().numpy()).copy()


def _tensor(array: NDArray) -> torch.Tensor:
    return torch.from_numpy(np.array(array))
