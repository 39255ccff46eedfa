"""From the training configuration's `env` section to the document that the simulator draws its episodes from."""

from __future__ import annotations

import json
from pathlib import Path

from ccarena import _core
from ccarena.configs.schema import AcctEnvConfig
from ccarena.errors import ConfigError, TraceError, did_you_mean
from ccarena.traces import available, find


def domain_json(config: AcctEnvConfig, learners: int = 1) -> str:
    """The domain of `config` as JSON for `ccarena._core`: names of presets checked, traces found as files.

    Raises:
        ConfigError: a preset, scheme or trace is unknown, or `trace` links are wanted and no trace is there.
    """
    link = config.link
    document = {
        "episode_s": config.episode_s,
        "link": {
            "kinds": link.kinds.model_dump(),
            "rate_mbps": link.rate_mbps,
            "step_s": link.step_s,
            "presets": _presets(link.presets) if link.kinds.cellular > 0 else [],
            "traces": _traces(link.traces) if link.kinds.trace > 0 else [],
            "rtt_ms": link.rtt_ms,
            "buffer_bdp": None if link.buffer_packets else link.buffer_bdp,
            "buffer_packets": link.buffer_packets,
            "loss": link.loss,
            "signal": link.signal,
            "agent_headroom": link.agent_headroom,
        },
        "cross_traffic": {
            "probability": config.cross_traffic.probability,
            "schemes": _schemes(config.cross_traffic.schemes),
            "flows": config.cross_traffic.flows,
        },
        "learner": {
            "scheme": "acct",
            "params": _params("acct", config.acct),
            "count": learners,
            "desired_mbps": config.desired_mbps,
        },
    }
    return json.dumps(document)


def _presets(names: str | list[str]) -> list[str]:
    known = [preset["name"] for preset in _core.cellular_presets()]
    return known if isinstance(names, str) else [_known("env.link.presets", "preset", n, known) for n in names]


def _schemes(names: list[str]) -> list[str]:
    known = [scheme["name"] for scheme in _core.schemes() if not scheme["learned"]]
    return [_known("env.cross_traffic.schemes", "scheme", name, known) for name in names]


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
    found = [str(path) for path in available().values()]
    if not found:
        raise ConfigError(
            "env.link.kinds.trace is above 0 and no recorded trace was found; fetch some with `ccarena traces fetch "
            "mahimahi`, name a folder in CCARENA_TRACE_DIR, or set env.link.kinds.trace to 0"
        )
    return found


def _trace(name: str) -> Path:
    try:
        return find(name)
    except TraceError as error:
        raise ConfigError(f"env.link.traces: {error}") from error
