"""From the training configuration's `env` section to the document that the simulator draws its episodes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ccarena import _core
from ccarena.configs.schema import AcctEnvConfig, EnvConfig
from ccarena.errors import ConfigError, TraceError, did_you_mean
from ccarena.scenario import scenario_json
from ccarena.traces import available, find
from ccarena.traces.held_out import HELD_OUT

Env = TypeVar("Env", bound=EnvConfig)


def documents(
    config: EnvConfig | None,
    scenario: Mapping[str, Any] | None,
    learners: int = 1,
    default: type[EnvConfig] = AcctEnvConfig,
) -> tuple[str | None, str | None]:
    """What an environment's episodes come from, as (domain, scenario) for `ccarena._core`, one of them None.

    Neither is the domain of `default`'s defaults. Raises ConfigError for both, and what `domain_json` raises.
    """
    if scenario is None:
        return domain_json(default() if config is None else config, learners), None
    if config is not None:
        raise ConfigError("an environment takes a config or a scenario, not both")
    return None, scenario_json(scenario)


def name_traces(config: Env) -> Env:
    """`config` with `traces: auto` replaced by the names of what is there now, so that a run keeps what it saw."""
    if config.link.traces != "auto" or config.link.kinds.trace == 0:
        return config
    names = [Path(path).name for path in _traces("auto")]
    link = config.link.model_copy(update={"traces": names or "auto"})
    return config.model_copy(update={"link": link})


def domain_json(config: EnvConfig, learners: int = 1) -> str:
    """The domain of `config` as JSON for `ccarena._core`: names of presets checked, traces found as files.

    Raises:
        ConfigError: a preset, scheme or trace is unknown, or nothing but recorded traces is wanted and there are none.
    """
    link = config.link
    traces = _traces(link.traces) if link.kinds.trace > 0 else []
    if not traces and link.kinds.constant + link.kinds.random_steps + link.kinds.cellular == 0:
        raise ConfigError(
            "env.link.kinds: only trace is above 0, and no recorded trace was found; fetch some with `ccarena traces "
            "fetch nyc-lte`, name a folder in CCARENA_TRACE_DIR, or give another kind some weight"
        )
    document = {
        "episode_s": config.episode_s,
        "link": {
            "kinds": link.kinds.model_dump(),
            "rate_mbps": link.rate_mbps,
            "step_s": link.step_s,
            "presets": _presets(link.presets) if link.kinds.cellular > 0 else [],
            "traces": traces,
            "rtt_ms": link.rtt_ms,
            "buffer_bdp": None if link.buffer_packets else link.buffer_bdp,
            "buffer_packets": link.buffer_packets,
            "loss": link.loss,
            "lossy": link.lossy,
            "signal": link.signal,
            "agent_headroom": link.agent_headroom,
        },
        "cross_traffic": {
            "probability": config.cross_traffic.probability,
            "schemes": heuristics("env.cross_traffic.schemes", config.cross_traffic.schemes),
            "flows": config.cross_traffic.flows,
        },
        "learner": {
            "scheme": config.scheme,
            "params": _params(config.scheme, config.params),
            "count": learners,
            "desired_mbps": config.desired_mbps,
        },
    }
    return json.dumps(document)


def _presets(names: str | list[str]) -> list[str]:
    known = [preset["name"] for preset in _core.cellular_presets()]
    return known if isinstance(names, str) else [_known("env.link.presets", "preset", n, known) for n in names]


def heuristics(key: str, names: list[str]) -> list[str]:
    """`names`, if each is a scheme that needs no training. Otherwise raises ConfigError, which names `key`."""
    known = [scheme["name"] for scheme in _core.schemes() if not scheme["learned"]]
    return [_known(key, "scheme", name, known) for name in names]


def _params(scheme: str, given: dict[str, float]) -> dict[str, float]:
    params = next(entry["params"] for entry in _core.schemes() if entry["name"] == scheme)
    bounds = {param["name"]: (param["min"], param["max"]) for param in params}
    for name, value in given.items():
        _known(f"env.{scheme}", "parameter", name, list(bounds))
        low, high = bounds[name]
        if not low <= value <= high:
            raise ConfigError(f"env.{scheme}.{name} is {value:g}; expected {low:g} to {high:g}")
    return dict(given)


def _known(key: str, what: str, name: str, known: list[str]) -> str:
    if name not in known:
        raise ConfigError(f'{key}: unknown {what} "{name}"{did_you_mean(name, known)}; there are {", ".join(known)}')
    return name


def _traces(names: str | list[str]) -> list[str]:
    if not isinstance(names, str):
        return [str(_trace(name)) for name in names]
    return [str(path) for name, path in sorted(available().items()) if name not in HELD_OUT]


def _trace(name: str) -> Path:
    try:
        return find(name)
    except TraceError as error:
        raise ConfigError(f"env.link.traces: {error}") from error
