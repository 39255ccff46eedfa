"""Dataset of trajectories: a folder with `manifest.json` and Parquet shards, checked before anything is read.

A shard has a row per decision of a flow, one flow after the other. A row has the observation at the decision, the
action that followed, and the report and privileged state of the period until the next decision. The last row of a flow
has an observation alone (`last`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, MissingDependencyError, did_you_mean
from ccarena.policies.spec import Spec

if TYPE_CHECKING:
    import torch.utils.data

__all__ = ["MANIFEST", "Dataset", "Trajectories", "transitions"]

MANIFEST, FORMAT, VERSION = "manifest.json", "ccarena trajectories", 1
Rewards = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]
"""Reward of reports `[N, report]` and privileged state `[N, privileged]`, such as `ccarena.envs.rewards.Reward`."""


@dataclass(frozen=True)
class Trajectories:
    """Trajectories in memory: R rows of E flows, one after the other."""

    observations: NDArray[np.float32]
    """Raw observations, `[R, spec.size]`."""
    actions: NDArray[np.float32]
    """Actions that followed, `[R, spec.numbers]`: an index, or continuous values."""
    rewards: NDArray[np.float32]
    """Rewards of the periods that followed, `[R]`."""
    intervals_s: NDArray[np.float32]
    """Lengths of the periods that followed, `[R]`, s."""
    starts: NDArray[np.int64]
    """First row of each flow, `[E]`."""
    stops: NDArray[np.int64]
    """Row after the last one of each flow, `[E]`. The row before it has an observation alone."""
    links: NDArray[np.int64]
    """Link of each flow, `[E]`: its number in the collection."""

    @property
    def steps(self) -> NDArray[np.int64]:
        """Returns the rows that have an action, in their order; the next observation is in the next row."""
        has_action = np.ones(len(self.observations), bool)
        has_action[self.stops - 1] = False
        return np.flatnonzero(has_action)


@dataclass(frozen=True)
class Dataset:
    """Dataset in a folder, whose manifest and shards were checked."""

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | os.PathLike[str], spec: Spec | None = None) -> Dataset:
        """Opens the dataset in `folder`; `spec` is the one that the reader learns.

        Raises ConfigError if the folder holds none, if it is not complete, if a shard is missing, truncated or changed,
        or if it was collected for another spec.
        """
        where = Path(folder)
        found = cls(where, _manifest(where))
        if spec is not None and found.manifest["digest"] != spec.digest:
            raise ConfigError(
                f"{where}: its observations are of the spec {found.manifest['spec']['name']} "
                f"({found.manifest['digest']}), and those to learn from of {spec.name} ({spec.digest}); collect it for "
                f"this one: ccarena data collect --config CONFIG --out {where}-{spec.name}"
            )
        found._check_shards()
        return found

    @property
    def digest(self) -> str:
        """Returns the digest of the manifest, which has those of the shards."""
        return hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def shards(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the shards by file name: scheme, first link, rows, flows, bytes and SHA-256."""
        return dict(self.manifest["shards"])

    def paths(self, schemes: Sequence[str] | None = None) -> list[Path]:
        """Returns the shards' files, those of `schemes` if given. Raises ConfigError for a scheme that it lacks."""
        known = list(self.manifest["schemes"])
        for scheme in schemes or ():
            if scheme not in known:
                raise ConfigError(f"{self.folder}: it has no flows of {scheme}{did_you_mean(scheme, known)}")
        return [self.folder / name for name, shard in self.shards.items() if not schemes or shard["scheme"] in schemes]

    def arrow(self, schemes: Sequence[str] | None = None) -> Any:
        """Returns the rows as a `pyarrow.dataset.Dataset`, which reads only what is asked of it."""
        _pyarrow()
        from pyarrow import dataset

        return dataset.dataset([str(path) for path in self.paths(schemes)], format="parquet")

    def load(self, reward: Rewards, schemes: Sequence[str] | None = None) -> Trajectories:
        """Reads all rows into memory and rewards them."""
        parquet, parts = _pyarrow(), []
        for path in self.paths(schemes):
            table = parquet.read_table(path)
            if table.num_rows:
                parts.append({name: _array(table[name]) for name in table.column_names if name != "scheme"})
        if not parts:
            raise ConfigError(f"{self.folder}: it has no decisions; collect longer runs")
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        stops = np.flatnonzero(rows["last"]) + 1
        rewards = np.zeros(len(rows["last"]), np.float32)
        acted = ~rows["last"]
        rewards[acted] = reward(rows["report"][acted], rows["privileged"][acted])
        step_ms = rows["privileged"][:, list(self.manifest["privileged"]).index("step_ms")]
        return Trajectories(
            rows["observation"],
            np.where(rows["last"][:, None], np.float32(0), rows["action"]),
            rewards,
            np.where(rows["last"], np.float32(0), step_ms / np.float32(1e3)),
            np.concatenate([[0], stops[:-1]]).astype(np.int64),
            stops.astype(np.int64),
            rows["link"][stops - 1].astype(np.int64),
        )

    def _check_shards(self) -> None:
        for name, shard in self.shards.items():
            path = self.folder / name
            try:
                data = path.read_bytes()
            except OSError as error:
                raise ConfigError(f"{path}: cannot read this shard: {error.strerror}; {self._again()}") from error
            if len(data) != shard["bytes"]:
                raise ConfigError(
                    f"{path}: it has {len(data):,} bytes, and its manifest says {shard['bytes']:,}: it is truncated, "
                    f"or of another dataset; {self._again()}"
                )
            if hashlib.sha256(data).hexdigest() != shard["sha256"]:
                raise ConfigError(f"{path}: its content is not what was collected (SHA-256); {self._again()}")

    def _again(self) -> str:
        return _written_anew(f"the file and {MANIFEST}")


def transitions(
    dataset: Dataset, reward: Rewards, schemes: Sequence[str] | None = None
) -> torch.utils.data.Dataset[dict[str, torch.Tensor]]:
    """Returns single decisions as a PyTorch dataset: mappings of `observation`, `action`, `reward`, `interval_s` and
    `next_observation`. Raises MissingDependencyError without PyTorch.
    """
    try:
        import torch.utils.data
    except ImportError as error:
        raise MissingDependencyError.for_extra("torch", "train", "a PyTorch dataset") from error

    class Transitions(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        """Decisions by name."""

        def __len__(self) -> int:
            return len(at)

        def __getitem__(self, index: Any) -> dict[str, torch.Tensor]:
            return {name: column[index] for name, column in tensors.items()}

    data = dataset.load(reward, schemes)
    at = data.steps
    columns = {
        "observation": data.observations[at],
        "action": data.actions[at],
        "reward": data.rewards[at],
        "interval_s": data.intervals_s[at],
        "next_observation": data.observations[at + 1],
    }
    tensors = {name: torch.from_numpy(column) for name, column in columns.items()}
    return Transitions()


def _written_anew(files: str) -> str:
    return f"delete {files}, and repeat the command that collected it: what is whole is kept"


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found = read_data(folder / MANIFEST)
    except OSError as error:
        raise ConfigError(
            f"{folder}: no dataset ({MANIFEST}: {error.strerror}); expected a folder that `ccarena data collect` has "
            "written to its end: repeat that command, and it goes on"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{error}; {_written_anew(MANIFEST)}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ConfigError(f"{folder / MANIFEST}: expected the manifest of a dataset, with format: {FORMAT}")
    if found.get("version") != VERSION:
        raise ConfigError(
            f"{folder / MANIFEST}: version {found.get('version')}; expected {VERSION}, which this one reads"
        )
    missing = {"ccarena", "digest", "links", "privileged", "report", "schemes", "seed", "shards", "spec"}
    missing -= found.keys()
    if missing:
        raise ConfigError(f"{folder / MANIFEST}: it has no {', '.join(sorted(missing))}; {_written_anew(MANIFEST)}")
    if not isinstance(found["shards"], dict):
        raise ConfigError(f"{folder / MANIFEST}: shards: expected a mapping; {_written_anew(MANIFEST)}")
    for name, shard in found["shards"].items():
        if Path(name).name != name or not isinstance(shard, dict) or not {"scheme", "bytes", "sha256"} <= shard.keys():
            raise ConfigError(
                f"{folder / MANIFEST}: shards.{name}: expected a file here, with scheme, bytes and sha256"
            )
    return found


def _array(column: Any) -> NDArray[Any]:
    """Returns a column as an array: `[rows]`, or `[rows, length]` of lists of one length."""
    from pyarrow import types

    whole = column.combine_chunks()
    if types.is_fixed_size_list(column.type):
        return np.asarray(whole.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), column.type.list_size)
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def _pyarrow() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyarrow", "parquet", "a dataset of trajectories") from error
    return parquet


def union(parts: Iterable[Trajectories]) -> Trajectories:
    """Returns the flows of several datasets, one after the other."""
    given = list(parts)
    before = np.cumsum([0, *(len(part.observations) for part in given[:-1])])

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in given])

    starts = np.concatenate([part.starts + at for part, at in zip(given, before, strict=True)])
    stops = np.concatenate([part.stops + at for part, at in zip(given, before, strict=True)])
    return Trajectories(
        joined("observations"),
        joined("actions"),
        joined("rewards"),
        joined("intervals_s"),
        starts,
        stops,
        joined("links"),
    )
