"""Files of runs over a real path: a NumPy archive each, with everything that a run has."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import write_atomically
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.scenarios.backends import REMOTE
from ccarena.scenarios.one_run import Run, checked
from ccarena.scenarios.scenario import flows_of

__all__ = ["load", "load_folder", "save"]

FORMAT = 1
LARGEST_BYTES = 2 << 30
"""Largest archive that is read, unpacked."""
MOST_ARRAYS = 10_000
LONGEST_S = 86_400.0
"""Longest run that is read: readers count its packets in windows of time."""
SLACK_S = 60.0
"""Time after a run's end within which its last packets come."""


def save(path: Path, run: Run, given: Mapping[str, Any]) -> None:
    """Writes a run, and its document before defaults were filled in (`given`). Raises ConfigError if it cannot."""
    arrays: dict[str, NDArray[Any]] = {}

    def put(value: Any, where: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[where] = value
            return {"$array": where}
        if isinstance(value, Mapping):
            return {key: put(item, f"{where}.{key}") for key, item in value.items()}
        return [put(item, f"{where}.{i}") for i, item in enumerate(value)] if isinstance(value, list) else value

    about = {"format": FORMAT, "scenario": run.scenario, "axes": dict(run.axes), "given": given}
    about |= {"document": run.document, "result": put(run.result, "result")}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> tuple[Run, dict[str, Any]]:
    """Returns a run and its document as given. Raises ConfigError for anything but a file that `save` wrote."""
    try:
        arrays = _arrays(path)
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']!r}, not {FORMAT}")
        document, given = about["document"], dict(about["given"])
        result = _placed(about["result"], arrays)
        checked(given)
        run = Run(str(about["scenario"]), int(document["seed"]), REMOTE.name, document, result, dict(about["axes"]))
        _check(run)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, CcarenaError) as error:
        raise ConfigError(f"{path}: not a run that `ccarena remote run` wrote: {error}") from error
    return run, given


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an archive. Raises OSError, or ValueError if it is damaged or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ARRAYS or sum(entry.file_size for entry in entries) > LARGEST_BYTES:
                raise ValueError(f"more than {MOST_ARRAYS:,} arrays or {LARGEST_BYTES >> 20} MB")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError):
        raise
    except Exception as error:  # the readers of archives and arrays raise many kinds
        raise ValueError(str(error) or type(error).__name__) from error


def _placed(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Returns a result with its arrays in their places. Raises KeyError if one is missing."""
    if isinstance(value, list):
        return [_placed(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    return {key: _placed(item, arrays) for key, item in value.items()}


def _check(run: Run) -> None:
    """Raises what indexing does if the run lacks what its readers take for granted."""
    [link] = run.result["links"]
    log = PacketLog.from_arrays(link["log"])
    flows = len(flows_of(run.document))
    sizes = {len(getattr(log, name)) for name in PacketLog.__dataclass_fields__}
    if len(sizes) != 1 or len(run.result["flows"]) != flows or (len(log) and int(log.flow.max()) >= flows):
        raise ValueError("its packets are not of its flows")
    if len(link["losses"]["time_ns"]) != len(link["losses"]["flow"]):
        raise ValueError("its losses are not of its flows")
    float(run.result["path"]["one_way_ms"])
    duration_s = max(float(run.result["duration_s"]), float(run.document["duration_s"]))
    if not 0 <= duration_s <= LONGEST_S:
        raise ValueError(f"its duration is {duration_s:g} s, expected up to {LONGEST_S:g} s")
    for times_ns in (log.arrival_ns, log.departure_ns, np.asarray(link["losses"]["time_ns"])):
        if times_ns.size and not (0 <= times_ns.min() and times_ns.max() <= 1e9 * (duration_s + SLACK_S)):
            raise ValueError("a packet's time is not within the run")


def load_folder(folder: Path) -> list[tuple[Run, dict[str, Any]]]:
    """Returns the runs in a folder that `ccarena remote run --out` wrote, in their order. Raises ConfigError."""
    paths = sorted(Path(folder, "runs").glob("*.npz"))
    if not paths:
        raise ConfigError(f"{folder}: has no runs; expected a folder that `ccarena remote run --out DIR` wrote")
    found = [load(path) for path in paths]
    for path, (run, _) in zip(paths, found, strict=True):
        if _scenario(run) != _scenario(found[0][0]):
            raise ConfigError(
                f"{path}: a run of another scenario or direction than {paths[0].name}; keep these in other folders"
            )
    return found


def _scenario(run: Run) -> tuple[Any, ...]:
    """Returns what runs of one scenario have in common, whichever entrants and seeds they have."""
    return run.scenario, run.axes.get("direction"), run.document["duration_s"], len(flows_of(run.document))
