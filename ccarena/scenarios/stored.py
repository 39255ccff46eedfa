"""Scenarios in a results folder, with their files and what ran them, so that a copy of the folder repeats the runs."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ccarena import __version__
from ccarena.controllers.classes import is_class
from ccarena.core.files import digest, write_atomically
from ccarena.core.learned_schemes import shipped_policies
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.scenario import flows_of
from ccarena.traces.manifest import manifest
from ccarena.traces.recorded import find_trace

__all__ = ["RUN", "SCENARIO", "SCENARIOS", "again", "portable", "store"]

RUN, SCENARIO, SCENARIOS = "run.json", "scenario.yaml", "scenarios.json"
"""Names of files: facts of the run, the scenario as it ran, and several scenarios by name."""
FILES = "files"
"""Folder of the files that the scenarios name."""
MOST_BYTES = 16_000_000
"""Largest file that is copied; a larger one keeps its path."""


def portable(node: Any, digests: dict[str, str], folder: Path | None = None) -> Any:
    """Returns a scenario, or a part of it, whose files have no path of this machine; adds their SHA-256 to `digests`.

    A shipped policy, and a recording that `ccarena traces fetch` gets, go by name. Other files are copied to `folder`,
    if given, and go by their path in it; else by their name alone.
    """
    if isinstance(node, Mapping):
        return {
            key: _named(key, value, digests, folder)
            if key in ("policy", "rules", "file", "integer", "module", "scheme")
            else portable(value, digests, folder)
            for key, value in node.items()
        }
    if isinstance(node, (list, tuple)):
        return [portable(value, digests, folder) for value in node]
    return f"{node.__module__}:{node.__qualname__}" if isinstance(node, type) else node


def _named(key: str, value: Any, digests: dict[str, str], folder: Path | None) -> Any:
    if not isinstance(value, str):
        return portable(value, digests, folder)
    text, colon, name = value.rpartition(":") if key == "scheme" and is_class(value) else (value, "", "")
    path = Path(text)
    is_name = key == "scheme" and not path.suffix  # which a file beside it may have, too
    if is_name or not path.is_file():
        return value
    for shipped, file in shipped_policies().items():
        if path == file:
            digests[shipped] = digest(path.read_bytes())
            return shipped
    if path.stat().st_size > MOST_BYTES:
        return value
    data = path.read_bytes()
    recordings = {entry.sha256: entry.name for entry in manifest()}
    if (recording := recordings.get(hashlib.sha256(data).hexdigest())) and find_trace(recording) is not None:
        digests[recording] = digest(data)
        return recording
    stored = f"{digest(data)[:8]}-{path.name}" if folder is not None else path.name
    if folder is not None:
        write_atomically(folder / FILES / stored, data)
        stored = f"{FILES}/{stored}"
    digests[stored] = digest(data)
    return stored + colon + name


def store(
    folder: Path, runs: Sequence[Run], documents: Mapping[str, Mapping[str, Any]], repeat: Sequence[str]
) -> list[Path]:
    """Writes the scenarios and `run.json` to `folder`, and returns their paths. `repeat` are the lines that ran this.

    `documents` are the scenarios as they were given, by name; those of the first runs if empty.
    """
    digests: dict[str, str] = {}
    found = documents or {run.scenario: run.document for run in reversed(runs)}
    kept = {name: json.loads(json.dumps(portable(each, digests, folder))) for name, each in found.items()}
    written = []
    if len(kept) == 1:
        text = yaml.safe_dump(next(iter(kept.values())), sort_keys=False, default_flow_style=None, width=110)
        written.append((folder / SCENARIO, f"# The scenario of this folder, as ccarena {__version__} ran it.\n{text}"))
    elif kept:
        written.append((folder / SCENARIOS, json.dumps(kept, indent=1) + "\n"))
    backend = runs[0].backend if runs else SIM
    about = {
        "ccarena": __version__,
        "commands": list(repeat),
        "backend": backend,
        "seeds": sorted({run.seed for run in runs}),
        "digests": digests,
    }
    written.append((folder / RUN, json.dumps(about, indent=1) + "\n"))
    for path, content in written:
        write_atomically(path, content)
    return [path for path, _ in written]


def again(runs: Sequence[Run], documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the lines that repeat the runs from a copy of their folder; none without their `documents`, or if one is
    of a Python class in memory.
    """
    flows = [flow for each in documents.values() for flow in flows_of(each)]
    if not runs or not documents or any(isinstance(flow.get("scheme"), type) for flow in flows):
        return []
    seeds, backend = sorted({run.seed for run in runs}), runs[0].backend
    own = int(next(iter(documents.values())).get("seed", 1))
    if len(documents) == 1 and seeds == list(range(own, own + len(seeds))):
        words = ["ccarena", "eval", "--scenario", SCENARIO]
        words += ["--seeds", str(len(seeds))] if len(seeds) > 1 else []
        words += ["--backend", backend] if backend != SIM else []
        line = shlex.join([*words, "--out", "again"])
    else:
        source = f"list(json.load(open('{SCENARIOS}')).items())" if len(documents) > 1 else f"[('it', '{SCENARIO}')]"
        options = f"seeds={seeds}, backend='{backend}', out='again'"
        code = f"import ccarena, json; n, s = zip(*{source}); ccarena.run(s, names=n, {options})"
        line = f'python -c "{code}"'
    return ["# In this folder, or in a copy of it:", line]
