"""Conversion of the configuration's `env` section to the link distribution that the simulator draws episodes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.configs.distribution import LinkConfig
from ccarena.configs.schema import EnvConfig, TrainConfig
from ccarena.configs.spec_files import is_built_in, spec_json
from ccarena.core.files import digest
from ccarena.core.reader import read_data
from ccarena.errors import CcarenaError, ConfigError, ScenarioError, TraceError, did_you_mean
from ccarena.traces import available, conditions, find
from ccarena.traces.held_out import CARRIERS, HELD_OUT, VALIDATION, carrier_of, derives_from, free

OWN = "self"
"""Scheme of cross traffic that means one more flow of the learner's own."""


def name_traces(env: EnvConfig) -> EnvConfig:
    """Returns `env` with `traces: auto` replaced by the names of the traces found now, so that a run keeps them."""
    if env.link.traces != "auto" or env.link.kinds.trace == 0:
        return env
    names = [Path(path).name for path in _traces("auto")]
    link = env.link.model_copy(update={"traces": names or "auto"})
    return env.model_copy(update={"link": link})


def distribution_json(config: TrainConfig, whole_runs: bool = False) -> str:
    """Returns the link distribution of `config` as JSON for `ccarena._core`: presets checked, traces found as files.

    Cross traffic with the learner's policy is for `whole_runs`. Worlds that are stepped have several learners instead.

    Raises:
        ConfigError: a parameter, preset, scheme or trace is unknown, or only recorded traces are asked for and there
        are none.
    """
    check_params(config)
    return distribution_of(config.env, _scheme(config), config.params, whole_runs)


def distribution_of(env: EnvConfig, scheme: Any, params: Mapping[str, float], whole_runs: bool) -> str:
    """The distribution `env` as JSON for `ccarena._core`, with learners of `scheme`, a registered name or a spec.

    Raises what `distribution_json` does.
    """
    link = env.link
    traces = _traces(link.traces) if link.kinds.trace > 0 else []
    names = [each if isinstance(each, str) else each.scheme for each in env.cross_traffic.schemes]
    heuristics("env.cross_traffic.schemes", names, OWN)
    flows = [each if isinstance(each, str) else each.flow for each in env.cross_traffic.schemes]
    if not traces and sum(link.kinds.model_dump(exclude={"trace"}).values()) == 0:
        raise ConfigError(
            "env.link.kinds: only trace is above 0, and no recorded trace was found; fetch some with `ccarena traces "
            "fetch nyc-lte`, name a folder in CCARENA_TRACE_DIR, or give another kind some weight"
        )
    spec = {
        "episode_s": env.episode_s,
        "link": {
            "kinds": link.kinds.model_dump(exclude={access["name"] for access in _core.accesses()}),
            "media": _media(link),
            "rate_mbps": link.rate_mbps,
            "step_s": link.step_s,
            "presets": _presets(link.presets) if link.kinds.cellular > 0 else [],
            "traces": traces,
            "models": link_models(link.models) if link.kinds.model > 0 else [],
            "conditions": [_recorded(name) for name in link.conditions] if link.kinds.conditions > 0 else [],
            "adversarial": [_found(file) for file in _attacks(link)],
            "augment": link.augment.model_dump() if link.augment else None,
            "uplinks": link.uplinks,
            "delayed_acks": link.delayed_acks,
            "rtt_ms": link.rtt_ms,
            "queues": link.queues,
            "buffer_bdp": None if link.buffer_packets else link.buffer_bdp,
            "buffer_packets": link.buffer_packets,
            "unlimited": link.unlimited,
            "loss": link.loss,
            "lossy": link.lossy,
            "signal": link.signal,
            "router_headroom": link.router_headroom,
            "router": link.router.model_dump() if link.router else None,
        },
        "cross_traffic": {
            "probability": env.cross_traffic.probability,
            "schemes": [flow for flow in flows if whole_runs or flow != OWN],
            "flows": env.cross_traffic.flows,
            "on_off": env.cross_traffic.on_off,
        },
        "learner": {
            "scheme": scheme,
            "params": dict(params),
            "drawn": dict(env.drawn),
            "count": env.learners,
            "desired_mbps": env.desired_mbps,
        },
    }
    return json.dumps(spec)


def _recorded(name: str) -> dict[str, Any]:
    """Returns a conditions trace as the simulator draws it: its file, and what has to be known before it is read."""
    file = conditions.csv_file(find(name))
    trace = conditions.load(file)
    return {
        "file": str(file),
        "mean_mbps": trace.mean("rate_mbps") if "rate_mbps" in trace.columns else None,
        "delay_ms": trace.least_delay_ms,
        "loss": "loss" in trace.columns,
    }


def _attacks(link: LinkConfig) -> list[Path]:
    """Returns the scenario files of attacks that links are drawn from. Raises ConfigError if a folder has none."""
    if link.kinds.adversarial <= 0:
        return []
    files: list[Path] = []
    for name in link.adversarial:
        own = _listed(Path(name)) if Path(name).is_dir() else [Path(name)]
        if not own:
            raise ConfigError(f"env.link.adversarial: {name}: holds no finds; name the folder of a `ccarena attack`")
        files += own
    return files


def _listed(folder: Path) -> list[Path]:
    """Returns the scenarios that the list of finds in a folder names; none if it has no such list."""
    try:
        found = read_data(folder / "finds.yaml")["finds"]
        return [folder / Path(each["scenario"]).name for each in found]
    except (OSError, KeyError, TypeError, ValueError, CcarenaError):
        return []


def _found(file: Path) -> dict[str, Any]:
    """Returns the scenario in a file, in which a flow stands for the learners in place of the attacked entrant's."""
    try:
        document = dict(read_data(file))
        first, *others = document["flows"]
        others = [flow for flow in others if flow["scheme"] != first["scheme"]]
    except OSError as error:
        raise ConfigError(f"env.link.adversarial: {file}: cannot read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"env.link.adversarial: {file}: is no scenario; expected a find of `ccarena attack`"
        ) from error
    placed = {**document, "flows": [{"scheme": "reno"}, *others], "record": {}}
    try:
        _core.validate_scenario(json.dumps(placed))
    except (ScenarioError, TypeError, ValueError) as error:
        raise ConfigError(f"env.link.adversarial: {file}: {error}") from error
    return placed


def _media(link: LinkConfig) -> list[dict[str, Any]]:
    """Returns the media that links are drawn from, with parameters that exist and values within their bounds."""
    found = []
    for access in _core.accesses():
        name = access["name"]
        weight, params = getattr(link.kinds, name), getattr(link, name)
        if weight > 0:
            bounds = {param["name"]: (param["min"], param["max"]) for param in access["params"]}
            for param, values in params.items():
                check_range(f"env.link.{name}", param, values, bounds)
            found.append({"access": name, "weight": weight, "params": params})
    return found


def without_carrier(config: TrainConfig, carrier: str) -> TrainConfig:
    """Returns `config` trained on every recording and preset except those of `carrier`, and tested on its recordings
    alone.

    Recordings of the validation set stay out. Raises ConfigError for an unknown carrier.
    """
    _known("--leave-out", "carrier", carrier, list(CARRIERS))
    tested = [name for name in HELD_OUT if carrier_of(name) == carrier]

    def others(names: list[str]) -> list[str]:
        return [name for name in names if carrier_of(name) != carrier and derives_from(name) not in VALIDATION]

    presets = others([preset["name"] for preset in _core.cellular_presets()])
    link = config.env.link.model_copy(update={"traces": others(sorted(available())) or "auto", "presets": presets})
    return config.model_copy(
        update={
            "name": f"{config.name}-without-{carrier}",
            "env": config.env.model_copy(update={"link": link}),
            "eval": config.eval.model_copy(update={"recordings": tested}),
        }
    )


def trained_on(config: TrainConfig, finds: Sequence[Path] = ()) -> list[dict[str, str]]:
    """Returns everything that training on `config` draws capacity from: `kind` (trace, preset or distribution), name,
    digest.

    The digest of a trace is that of its file; of a preset and of the distribution, that of its parameters. `finds` are
    scenarios of attacks during the training.
    """
    link = config.env.link
    found = []
    if link.kinds.trace > 0:
        files = [Path(file) for file in _traces(link.traces)]
        found += [{"kind": "trace", "name": file.name, "digest": digest(file.read_bytes())} for file in files]
    if link.kinds.conditions > 0:
        files = [find(name) for name in link.conditions]
        found += [{"kind": "conditions", "name": file.name, "digest": digest(file.read_bytes())} for file in files]
    found += [
        {"kind": "find", "name": file.name, "digest": digest(file.read_bytes())} for file in [*_attacks(link), *finds]
    ]
    if link.kinds.cellular > 0:
        presets = {preset["name"]: preset for preset in _core.cellular_presets()}
        found += [
            {"kind": "preset", "name": name, "digest": digest(json.dumps(presets[name], sort_keys=True).encode())}
            for name in _presets(link.presets)
        ]
    if link.kinds.model > 0:
        drawn = {model["name"]: json.dumps(model, sort_keys=True).encode() for model in _core.link_models()}
        found += [{"kind": "model", "name": name, "digest": digest(drawn[name])} for name in link_models(link.models)]
    whole = json.dumps(config.env.model_dump(mode="json"), sort_keys=True)
    return [*found, {"kind": "distribution", "name": config.name, "digest": digest(whole.encode())}]


def _presets(names: str | list[str]) -> list[str]:
    known = [preset["name"] for preset in _core.cellular_presets()]
    return free(known) if isinstance(names, str) else [_known("env.link.presets", "preset", n, known) for n in names]


def link_models(names: str | list[str]) -> list[str]:
    """Returns the link models of `env.link.models`: names, or families for all models of each. Raises ConfigError."""
    known = _core.link_models()
    if isinstance(names, str):
        return [model["name"] for model in known]
    families = {model["family"] for model in known}
    found = []
    for name in names:
        if name in families:
            found += [model["name"] for model in known if model["family"] == name]
        else:
            found.append(_known("env.link.models", "link model", name, [*(m["name"] for m in known), *families]))
    return list(dict.fromkeys(found))


def heuristics(key: str, names: list[str], *more: str) -> list[str]:
    """Returns `names`, if each is a scheme without training, or one of `more`. Otherwise raises ConfigError, naming
    `key`.
    """
    known = [*(scheme["name"] for scheme in _core.schemes() if not scheme["learned"]), *more]
    return [_known(key, "scheme", name, known) for name in names]


def _scheme(config: TrainConfig) -> Any:
    """Returns a shipped spec by its name, any other as it is."""
    return config.spec if is_built_in(config.spec) else json.loads(spec_json(config))


def check_params(config: TrainConfig) -> None:
    """Raises ConfigError for an unknown parameter of the spec, or a value out of its range."""
    bounds = param_bounds(config)
    for name, value in config.params.items():
        check_range("params", name, (value, value), bounds)
    for name, drawn in config.env.drawn.items():
        check_range("env.drawn", name, drawn, bounds)


def param_bounds(config: TrainConfig) -> dict[str, tuple[float, float]]:
    """Returns the bounds of every parameter and input of the configuration's spec, by name."""
    found = _core.learned(spec_json(config))
    params = {param["name"]: (param["min"], param["max"]) for param in found["params"]}
    return params | {name: (each["min"], each["max"]) for name, each in found["inputs"].items()}


def check_range(key: str, name: str, values: tuple[float, float], bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raises ConfigError, naming the configuration's `key`, unless `name` is a parameter that takes both `values`."""
    _known(key, "parameter", name, list(bounds))
    low, high = bounds[name]
    for value in values:
        if not low <= value <= high:
            raise ConfigError(f"{key}.{name} is {value:g}; expected {low:g} to {high:g}")


def _known(key: str, what: str, name: str, known: list[str]) -> str:
    if name not in known:
        raise ConfigError(f'{key}: unknown {what} "{name}"{did_you_mean(name, known)}')
    return name


def with_link_files(config: TrainConfig) -> TrainConfig:
    """Returns `config` with files in place of names and folders of recordings and finds, for machines that lack them.

    Raises ConfigError if one is missing.
    """
    link = config.env.link
    files: dict[str, Any] = {}
    if link.kinds.trace > 0:
        files["traces"] = _traces(link.traces) or "auto"
    if link.kinds.conditions > 0:
        files["conditions"] = [str(find(name)) for name in link.conditions]
    if link.kinds.adversarial > 0:
        files["adversarial"] = [str(path) for path in _attacks(link)]
    env = config.env.model_copy(update={"link": link.model_copy(update=files)})
    return config.model_copy(update={"env": env}) if files else config


def _traces(names: str | list[str]) -> list[str]:
    if not isinstance(names, str):
        return [str(_trace(name)) for name in names]
    return [str(path) for name, path in sorted(available().items()) if free([name])]


def _trace(name: str) -> Path:
    try:
        return find(name)
    except TraceError as error:
        raise ConfigError(f"env.link.traces: {error}") from error
