"""Finds of an attack: counterexamples as scenarios that anybody can run, and the list of them that is replayed.

The list is `finds.yaml`: for each find the harm, its threshold and value, the share of seeds on which it holds, the
kind of link, and the case. A replay needs nothing else, so that the list is a regression suite.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from ccarena import __version__
from ccarena.attacks.case import ATTACKED, Case, scenario
from ccarena.attacks.harms import HARMS, chosen
from ccarena.attacks.space import number_of, read_case
from ccarena.core.files import write_atomically
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, excerpt
from ccarena.scenarios.entrants import Entrant

__all__ = ["FILE", "Find", "read_finds", "write_finds"]

FILE = "finds.yaml"
"""List of the finds in the folder of an attack."""
NUMBERS = {"number": (0, 10**6), "value": (0, 1e9), "threshold": (1e-9, 1e9), "share": (0, 1), "seeds": (0, 10**6)}
"""Least and greatest value of each number of a find."""
WORDS = {int: "a whole number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class Find:
    """Counterexample."""

    number: int
    harm: str
    value: float
    """Median of the harm's values over the seeds of the replay."""
    threshold: float
    kind: str
    """Kind of link."""
    share: float
    """Share of these seeds on which the harm reaches its threshold."""
    seeds: int
    """Number of these seeds."""
    case: Case
    error: str = ""
    """Failure of the controller, of a crash."""
    simplified: bool = True

    @property
    def file(self) -> str:
        """Returns the name of its scenario's file."""
        return f"{self.number:02}-{self.harm}.yaml"

    @property
    def severity(self) -> float:
        """Returns the value over the threshold."""
        return self.value / self.threshold

    @property
    def holds(self) -> bool:
        """Returns whether the value reaches the threshold."""
        return self.value >= self.threshold

    def describe(self) -> str:
        """Returns the find in one line."""
        return f"{HARMS[self.harm].title}: {self.value:.3g} on {self.case.describe()}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {**asdict(self), "case": self.case.as_dict(), "scenario": self.file}


def write_finds(folder: Path, entrant: Entrant, finds: Sequence[Find]) -> None:
    """Writes the list and a scenario per find, and deletes the scenarios of the list that was there."""
    with suppress(ConfigError):  # a list that cannot be read names none
        for old in read_finds(folder)[1]:
            (folder / old.file).unlink(missing_ok=True)
    for find in finds:
        write_atomically(folder / find.file, _scenario_text(entrant, find))
    about = {"attack": 1, "ccarena": __version__, "entrant": entrant.text or entrant.label}
    data = {**about, "finds": [find.as_dict() for find in finds]}
    write_atomically(folder / FILE, _dumped(data))


def read_finds(given: str | os.PathLike[str]) -> tuple[str, list[Find]]:
    """Reads the entrant's text and the finds of an attack: its folder, or the list. Raises ConfigError."""
    path = Path(given) / FILE if Path(given).is_dir() else Path(given)
    data = read_data(path, f"the folder of an attack, or its {FILE}")
    if not isinstance(data, Mapping) or data.get("attack") != 1 or not isinstance(data.get("finds"), list):
        raise ConfigError(f"{path}: is no list of finds; expected {FILE} of `ccarena attack`")
    return str(data.get("entrant", "")), [_find(f"{path}: finds[{k}]", each) for k, each in enumerate(data["finds"])]


def _find(where: str, data: Any) -> Find:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected a mapping")
    try:
        chosen([data["harm"]])
        fields = {name: data[name] for name in Find.__dataclass_fields__ if name in data}
        for name, bounds in NUMBERS.items():
            number_of(name, data[name], bounds)
        for name, kind in (("number", int), ("seeds", int), ("kind", str), ("error", str), ("simplified", bool)):
            if type(fields.get(name, kind())) is not kind:
                raise ConfigError(f"{name} = {excerpt(fields[name])}: expected {WORDS[kind]}")
        return Find(**{**fields, "case": read_case(data["case"])})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{where}: is damaged: {type(error).__name__} {error}; attack again") from error


def _scenario_text(entrant: Entrant, find: Find) -> str:
    """Returns the scenario of a find as YAML, with comments on what it shows."""
    document = scenario(find.case, entrant)
    # The entrant's own text, which finds the entrant again, in place of what was made of it.
    text = entrant.text or entrant.label
    made = set(entrant.flow) - {"scheme"}
    flows = []
    for flow in document["flows"]:
        own = flow["name"] == ATTACKED or find.case.competition == "itself"
        kept = {key: value for key, value in flow.items() if not own or key not in made}
        flows.append({**kept, "scheme": text if own else flow["scheme"]})
    harm = HARMS[find.harm]
    head = [
        f"{harm.title}: {find.value:.3g}, from {find.threshold:g} on a counterexample ({harm.definition}).",
        f"Link: {find.case.describe()}.",
        f"Holds on {round(find.share * find.seeds)} of {find.seeds} seeds." if find.seeds else "Not replayed.",
        f"Run it in this folder: ccarena eval --scenario {find.file}",
    ]
    return "".join(f"# {line}\n" for line in head) + _dumped({**document, "flows": flows})


def _dumped(data: Any) -> str:
    plain = json.loads(json.dumps(data))
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
