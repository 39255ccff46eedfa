"""Collection of trajectories: every scheme on the same links of a configuration's distribution, in the terms of its
spec.

A shard has one scheme on up to `LINKS` links. A shard that is whole is not simulated again, so a collection that ended
early goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena import __version__, _core
from ccarena.configs import load_config
from ccarena.configs.learning import MOST_LINKS
from ccarena.configs.link_distribution import distribution_json
from ccarena.configs.load import shipped
from ccarena.configs.schema import TrainConfig
from ccarena.core.files import replacing, write_atomically
from ccarena.core.reader import read_data
from ccarena.core.seeds import check_seed
from ccarena.core.terminal import Progress
from ccarena.data.dataset import FORMAT, MANIFEST, VERSION, Dataset, _pyarrow
from ccarena.errors import CcarenaError, ConfigError, ScenarioError, UnwatchableError, cannot_write
from ccarena.executors import Executor, Threads
from ccarena.policies.spec import Spec, spec_of
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.scenario import scenario_json

__all__ = ["PLAN", "check", "collect", "collect_again", "fitting"]

PLAN = "plan.json"
"""Plan of a collection, in its folder from the first shard on."""
LINKS = 16
"""Most links of a shard."""
OWN = ("scheme", "params", "policy", "ecn", "peer_ecn", "l4s", "rules", "controller", "foreign", "requirement")
"""Fields of a learner's flow that an entrant brings with it."""


@dataclass(frozen=True)
class _Piece:
    """Shard to be made: a scheme on links `first` to `first + count - 1`."""

    name: str
    scheme: str
    first: int
    count: int


def collect(
    config: TrainConfig,
    schemes: Sequence[str],
    links: int,
    out: Path,
    *,
    seed: int = 1,
    threads: int = 1,
    progress: Progress = lambda done, total: None,
    executor: Executor | None = None,
) -> Dataset:
    """Runs each of `schemes` in the place of the learner on `links` links, and writes the dataset in `out`.

    `config` gives spec, parameters and link distribution. Link k of a seed is the same for every scheme. `executor`
    runs the shards; `threads` threads of this process if None.

    Raises ConfigError if `out` holds another collection, ScenarioError or PolicyError for a scheme that cannot run or
    whose behaviour amounts to no action of the spec, before anything is simulated; MissingDependencyError without
    PyArrow.
    """
    spec = spec_of(config)
    plan = _plan(config, spec, schemes, links, seed)
    return _collect(plan, spec, out, executor or Threads(threads), progress)


def _collect(plan: Mapping[str, Any], spec: Spec, out: Path, executor: Executor, progress: Progress) -> Dataset:
    """Runs a plan."""
    schemes, links = plan["schemes"], plan["links"]
    trials = _trials(plan)
    _begin(out, plan)
    pieces = [
        _Piece(f"{_file(scheme, schemes)}-{first:05d}.parquet", scheme, first, min(LINKS, links - first))
        for scheme in schemes
        for first in range(0, links, LINKS)
    ]
    shards: dict[str, dict[str, Any]] = {}
    known = _known(out, pieces)
    waiting = [piece for piece in pieces if piece.name not in known]
    shards |= known
    progress(len(shards), len(pieces))

    def work(piece: _Piece) -> dict[str, Any]:
        return _shard(trials, plan, piece, out, spec)

    with closing(executor.run(work, waiting)) as done:
        for each in done:
            shards[waiting[each.index].name] = each.result()
            progress(len(shards), len(pieces))
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "ccarena": __version__,
        **{key: value for key, value in plan.items() if key != "distribution_json"},
        "distribution": json.loads(plan["distribution_json"]),
        "observation": [entry.name for entry in spec.observation],
        "report": list(spec.report),
        "privileged": list(spec.privileged),
        "shards": {piece.name: shards[piece.name] for piece in pieces},
    }
    write_atomically(out / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return Dataset.open(out, spec)


def collect_again(
    dataset: Dataset,
    spec: Spec,
    entrant: str,
    out: Path,
    *,
    links: int | None = None,
    threads: int = 1,
    progress: Progress = lambda done, total: None,
) -> Dataset:
    """Runs `entrant` on the links of `dataset`, the first `links` of them if given, and writes the dataset in `out`.

    `spec` is the dataset's.

    Raises what `collect` does.
    """
    manifest = dataset.manifest
    plan = {
        **{key: manifest[key] for key in ("spec", "digest", "params", "seed")},
        "schemes": [entrant],
        "links": min(links or manifest["links"], manifest["links"]),
        "distribution_json": json.dumps(manifest["distribution"]),
    }
    return _collect(plan, spec, out, Threads(threads), progress)


def check(config: TrainConfig, schemes: Sequence[str], seed: int = 1) -> None:
    """Raises what `collect` raises before it simulates."""
    _trials(_plan(config, spec_of(config), schemes, 1, seed))


def _trials(plan: Mapping[str, Any]) -> Any:
    """Returns the source of the plan's links. Raises what `collect` does for schemes that cannot be recorded."""
    _pyarrow()
    trials = _core.Trials(plan["distribution_json"], None, threads=1)
    try:
        for scheme in plan["schemes"]:
            _scenario(trials, plan, scheme, 0)
    except UnwatchableError as error:
        able = ", ".join(fitting(plan["schemes"])) or "none"
        raise ScenarioError(
            f"{scheme} takes no actions of the spec {plan['spec']['name']}: {error.why}; expected a spec that moves a "
            f"window or a rate over the base none; of the shipped configurations, these collect it (--config): {able}"
        ) from error
    return trials


def fitting(schemes: Sequence[str]) -> list[str]:
    """Returns the shipped configurations for which all of `schemes` can be collected."""
    able = []
    for name in shipped():
        config = load_config(name)
        plan = _plan(config, spec_of(config), schemes, 1, config.seed)
        trials = _core.Trials(plan["distribution_json"], None, threads=1)
        with suppress(ScenarioError):
            for scheme in schemes:
                _scenario(trials, plan, scheme, 0)
            able.append(name)
    return able


def _plan(config: TrainConfig, spec: Spec, schemes: Sequence[str], links: int, seed: int) -> dict[str, Any]:
    check_seed(seed)
    if not schemes:
        raise ConfigError("a collection takes one scheme at least")
    if not 1 <= links <= MOST_LINKS:
        raise ConfigError(f"links = {links}: expected a whole number, 1 to {MOST_LINKS:,}")
    if len(set(schemes)) < len(schemes):
        raise ConfigError(f"schemes = {', '.join(schemes)}: one is given twice")
    return {
        "spec": json.loads(spec.canonical),
        "digest": spec.digest,
        "params": dict(config.params),
        "schemes": list(schemes),
        "links": links,
        "seed": seed,
        "distribution_json": distribution_json(config),
    }


def _begin(out: Path, plan: Mapping[str, Any]) -> None:
    """Writes the plan, or raises ConfigError if the folder has another one."""
    path = out / PLAN
    whole = {"ccarena": __version__, **plan}
    if path.exists():
        was = read_data(path)
        differs = [key for key, value in whole.items() if not isinstance(was, dict) or was.get(key) != value]
        if differs:
            raise ConfigError(
                f"{out}: it holds a collection that differs in {', '.join(differs)}; give another folder with --out, "
                "or repeat the command as it was"
            )
        return
    if out.is_dir() and any(out.iterdir()):
        raise ConfigError(f"{out}: it holds files, and no collection; give another folder with --out")
    write_atomically(path, json.dumps(whole, indent=1) + "\n")


def _known(out: Path, pieces: Sequence[_Piece]) -> dict[str, dict[str, Any]]:
    """Returns the shards that are whole, by name. A shard replaces its temporary file when it is whole."""
    found = {}
    for piece in pieces:
        path = out / piece.name
        if path.is_file():
            try:
                rows = _pyarrow().ParquetFile(path).metadata.metadata
                found[piece.name] = _about(path, piece, int(rows[b"rows"]), int(rows[b"flows"]))
            except (OSError, ValueError, KeyError, TypeError):
                path.unlink()
    return found


def _file(scheme: str, schemes: Sequence[str]) -> str:
    """Returns a file name for a scheme: its text, with its place among `schemes` where that is no name."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in scheme)[:40]
    return plain if plain == scheme else f"{plain}-{list(schemes).index(scheme)}"


def _scenario(trials: Any, plan: Mapping[str, Any], scheme: str, link: int) -> dict[str, Any]:
    """Returns the scenario of a link with `scheme` in the learners' place."""
    document = json.loads(trials.scenario(plan["seed"], link))
    learners = []
    for flow in document["flows"]:
        if flow["name"].startswith("learner"):
            learners.append(flow["name"])
            for key in OWN:
                flow.pop(key, None)
            flow["scheme"] = scheme
    document["record"] = {"trajectories": {"spec": plan["spec"], "params": plan["params"], "flows": learners}}
    try:
        return checked(enter(document))
    except UnwatchableError:
        raise
    except CcarenaError as error:
        raise type(error)(f"{scheme}: {error}") from error


def _shard(trials: Any, plan: Mapping[str, Any], piece: _Piece, out: Path, spec: Spec) -> dict[str, Any]:
    """Simulates a shard and writes it; returns its entry of the manifest."""
    import pyarrow as pa

    tables = []
    for link in range(piece.first, piece.first + piece.count):
        document = _scenario(trials, plan, piece.scheme, link)
        for flow in _core.simulate(scenario_json(document))["flows"]:
            if (rows := flow.get("trajectory")) is not None and len(rows) > 1:
                tables.append(_table(np.asarray(rows), spec, piece.scheme, link, flow["name"]))
    table = pa.concat_tables(tables) if tables else _table(_nothing(spec), spec, piece.scheme, 0, "").slice(0, 0)
    about = {"rows": str(table.num_rows), "flows": str(len(tables))}
    path = out / piece.name
    try:
        with replacing(path) as file:
            _pyarrow().write_table(table.replace_schema_metadata(about), file, compression="zstd")
    except OSError as error:
        raise cannot_write(path, error, "free some space and repeat the command") from error
    return _about(path, piece, table.num_rows, len(tables))


def _about(path: Path, piece: _Piece, rows: int, flows: int) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "scheme": piece.scheme,
        "first_link": piece.first,
        "links": piece.count,
        "flows": flows,
        "rows": rows,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _nothing(spec: Spec) -> NDArray[np.float32]:
    width = 1 + spec.numbers + spec.size + len(spec.report) + len(spec.privileged)
    return np.zeros((2, width), np.float32)


def _table(rows: NDArray[np.float32], spec: Spec, scheme: str, link: int, flow: str) -> Any:
    """Returns the rows of a flow as a shard has them.

    A recorded row has the action, report and privileged state of the period that ends with it; a stored one those of
    the period that begins with it.
    """
    import pyarrow as pa

    count = len(rows)
    widths = (1, spec.numbers, spec.size, len(spec.report), len(spec.privileged))
    time_s, action, observation, report, privileged = np.split(rows, np.cumsum(widths)[:-1], axis=1)

    def following(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.concatenate([values[1:], np.full_like(values[:1], np.nan)])

    def listed(values: NDArray[np.float32]) -> Any:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])

    codes = pa.array(np.zeros(count, np.int32))
    return pa.table(
        {
            "scheme": pa.DictionaryArray.from_arrays(codes, pa.array([scheme])),
            "link": pa.array(np.full(count, link, np.int32)),
            "flow": pa.DictionaryArray.from_arrays(codes, pa.array([flow])),
            "step": pa.array(np.arange(count, dtype=np.int32)),
            "last": pa.array(np.arange(count) == count - 1),
            "time_s": pa.array(time_s[:, 0]),
            "observation": listed(observation),
            "action": listed(following(action)),
            "report": listed(following(report)),
            "privileged": listed(following(privileged)),
        }
    )
