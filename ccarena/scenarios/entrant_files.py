"""Entrant files: congestion controls of others, each described by a YAML file, read into the fields of a flow.

docs/entrant-files.md has the format, and what programs get and do.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ccarena.core.files import digest
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, MachineError, did_you_mean

__all__ = ["EntrantFile", "is_entrant_file", "kernel_control", "read_entrant_file"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_TEXTS = ("title", "version", "licence", "obtain", "bound")
_LISTS = ("needs", "tools", "packages")
_ABOUT = ("name", "kind", *_TEXTS, *_LISTS)
_PROGRAMS = ("ready", "ready_within_s", "env", "memory_mb", "processes", "congestion_controls", "certificate")
CONTROL = "CCARENA_CONTROL"
"""Environment variable that names the chosen one of the file's `congestion_controls`."""
_FIELDS: dict[str, tuple[str, ...]] = {
    "kernel": ("congestion_control",),
    "bpf": ("object",),
    "command": ("sender", "receiver", "listens", *_PROGRAMS),
    "quic": ("server", "client", "direction", *_PROGRAMS),
}
_PLACEHOLDERS = ("control", "sender", "receiver", "port", "duration_s", "flow", "role", "folder", "scratch", "bytes")
_OPENSSL = r"""set -eu
printf "[req]\ndistinguished_name=dn\nx509_extensions=v3\n[dn]\n" >openssl.cnf
printf "[v3]\nsubjectAltName=DNS:stack\nbasicConstraints=CA:FALSE\n" >>openssl.cnf
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=stack \
  -config openssl.cnf -keyout key.pem -out cert.pem 2>openssl.log || { cat openssl.log; exit 1; }
exec "$@"
"""
CERTIFICATE = ["sh", "-c", _OPENSSL, "sh"]
"""Words before a command, which make its certificate for the host "stack", not yet trusted by anybody."""
_READY = ("tcp", "udp")
_UPLOAD, _DOWNLOAD = "upload", "download"


@dataclass(frozen=True)
class EntrantFile:
    """Congestion control of somebody else."""

    path: Path
    name: str
    """Name in tables."""
    kind: str
    """`kernel`, `bpf`, `command` or `quic`."""
    title: str = ""
    version: str = ""
    licence: str = ""
    obtain: str = ""
    """Sentence or command that says how to get what it needs."""
    bound: str = ""
    """Sentence that says what bounds its rate beside its congestion control."""
    needs: tuple[str, ...] = ()
    """Programs that must be on PATH, or paths relative to the file's folder."""
    congestion_controls: tuple[str, ...] = ()
    """Congestion controls that the programs offer; the first is the default."""
    tools: tuple[str, ...] = ()
    """Programs that building it needs, beside cargo, go or Python."""
    packages: tuple[str, ...] = ()
    """Debian packages that have the programs of `needs` and `tools`."""
    foreign: Mapping[str, Any] = field(default_factory=dict)
    """The flow's `foreign`."""

    @property
    def digest(self) -> str:
        """Returns a digest of all that decides its behaviour: the file and its version, and the programs, scripts and
        objects that the file names.
        """
        folder = self.path.parent
        words = [word for key in ("sender", "receiver") for word in self.foreign.get(key, ())]
        named = [word.replace("{folder}", str(folder.resolve())) for word in words]
        named += [self.foreign["file"]] if self.kind == "bpf" else []
        named += [found for program in self.needs if (found := _find(program, folder)) is not None]
        here = [Path(name) for name in dict.fromkeys(named) if "\n" not in name and os.path.isfile(name)]
        about = [self.kind, self.name, self.version, self.foreign.get("name", "")]
        own = [digest(path.read_bytes()) for path in (self.path, *here) if path.is_file()]
        return digest(json.dumps([about, own]).encode())

    @property
    def missing(self) -> list[str]:
        """Returns the programs of `needs` that are not on this machine."""
        return [program for program in self.needs if _find(program, self.path.parent) is None]

    def name_with(self, control: str) -> str:
        """Returns the name with one of its `congestion_controls`: NAME for the default, else NAME-CONTROL."""
        return self.name if control in self.congestion_controls[:1] else f"{self.name}-{control}"

    def flow(self, control: str | None = None) -> dict[str, Any]:
        """Returns the flow of a scenario with one of its `congestion_controls`, the first if `control` is None.

        Raises MachineError if a program that it needs is not here.
        """
        for program in self.missing:
            how = f"; get it so: {self.obtain}" if self.obtain else ""
            raise MachineError(f"{self.name}: the program {program} is not on this machine{how}")
        foreign = dict(self.foreign)
        if not self.congestion_controls:
            return {"scheme": self.name, "foreign": foreign}
        chosen = control or self.congestion_controls[0]
        for end in ("sender", "receiver"):
            foreign[end] = [word.replace("{control}", chosen) for word in foreign[end]]
        foreign["env"] = {**foreign.get("env", {}), CONTROL: chosen}
        return {"scheme": self.name_with(chosen), "foreign": foreign}


def is_entrant_file(path: str | Path) -> bool:
    """Returns whether the file at `path` is YAML with a `kind`, unlike the file of a spec."""
    path = Path(path)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        data = read_data(path)
    except (OSError, ConfigError):
        return False
    return isinstance(data, dict) and "kind" in data


def kernel_control(name: str) -> EntrantFile:
    """Returns the facts of the congestion control that the kernel's TCP calls `name`."""
    about: dict[str, Any] = {
        "title": f"{name} of the kernel's TCP",
        "version": platform.release(),
        "licence": "GPL-2.0",
    }
    return EntrantFile(Path(), f"kernel:{name}", "kernel", foreign={"type": "kernel", "name": name}, **about)


def read_entrant_file(path: str | Path) -> EntrantFile:
    """Reads an entrant file. Raises ConfigError, which names the file and the key at fault."""
    path = Path(path)
    data = read_data(path, "an entrant file")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping with `name` and `kind`")
    kind = data.get("kind")
    if kind not in _FIELDS:
        raise ConfigError(f"{path}: kind = {kind!r}: expected {', '.join(_FIELDS)}{did_you_mean(str(kind), _FIELDS)}")
    known = (*_ABOUT, *_FIELDS[kind])
    for key in data:
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r} for the kind {kind}{did_you_mean(str(key), known)}")
    name = data.get("name", path.stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{path}: name = {name!r}: expected up to 60 letters, digits and . _ -")
    told: dict[str, Any] = {key: _text(data, key, path) for key in _TEXTS}
    told |= {key: _list(data, key, path) for key in (*_LISTS, "congestion_controls")}
    foreign = _foreign(kind, data, path)
    if _wants_certificate(data, path):
        foreign[foreign.get("listens", "receiver")][:0] = CERTIFICATE
        told["needs"] += ("openssl",)
        told["packages"] += ("openssl",)
    if not told["congestion_controls"] and any("{control}" in word for word in _commands(foreign)):
        raise ConfigError(
            f"{path}: {{control}} is in a command; expected `congestion_controls`, the list of what it may be"
        )
    for control in told["congestion_controls"]:
        if not _NAME.fullmatch(control):
            raise ConfigError(f"{path}: congestion_controls: {control!r}: expected up to 60 letters, digits and . _ -")
    return EntrantFile(path, name, kind, foreign=foreign, **told)


def _wants_certificate(data: Mapping[str, Any], path: Path) -> bool:
    value = data.get("certificate", False)
    if not isinstance(value, bool):
        raise ConfigError(f"{path}: certificate = {value!r}: expected true or false")
    return value


def _commands(foreign: Mapping[str, Any]) -> list[str]:
    return [*foreign.get("sender", ()), *foreign.get("receiver", ())]


def _foreign(kind: str, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if kind == "kernel":
        return {"type": "kernel", "name": _required(data, "congestion_control", path)}
    if kind == "bpf":
        file = (path.parent / _required(data, "object", path)).resolve()
        if not file.is_file():
            raise ConfigError(f"{path}: object: {file} is not there; expected a BPF object, which clang builds from C")
        return {"type": "bpf", "file": str(file)}
    shared = {key: data[key] for key in ("ready_within_s", "env", "memory_mb", "processes") if key in data}
    if "ready" in data:
        shared["ready"] = _ready(data["ready"], path)
    shared |= {"type": "command", "folder": str(path.parent.resolve())}
    if kind == "command":
        shared |= {key: _words(data, key, path) for key in ("sender", "receiver")}
        return shared | ({"listens": data["listens"]} if "listens" in data else {})
    direction = data.get("direction", _UPLOAD)
    if direction not in (_UPLOAD, _DOWNLOAD):
        raise ConfigError(f"{path}: direction = {direction!r}: expected {_UPLOAD} or {_DOWNLOAD}")
    ends = {"server": _words(data, "server", path), "client": _words(data, "client", path)}
    upload = direction == _UPLOAD
    shared |= {"sender": ends["client" if upload else "server"], "receiver": ends["server" if upload else "client"]}
    return {"ready": {"type": "udp"}, **shared, "listens": "receiver" if upload else "sender"}


def _words(data: Mapping[str, Any], key: str, path: Path) -> list[str]:
    """Returns the words of a command, which is a list or one line as for a shell; programs in the file's folder by
    their path.
    """
    value = data.get(key)
    expected = "expected the words of a command, as a list or in one line"
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise ConfigError(f"{path}: {key}: {error}; {expected}") from None
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{path}: {key} = {value!r}: {expected}")
    words = [str(word) if isinstance(word, (int, float)) and not isinstance(word, bool) else word for word in value]
    if not all(isinstance(word, str) and word for word in words):
        raise ConfigError(f"{path}: {key} = {value!r}: {expected}")
    for word in words:
        for name in re.findall(r"\{(\w+)\}", word):
            if name not in _PLACEHOLDERS:
                raise ConfigError(f"{path}: {key}: unknown {{{name}}}{did_you_mean(name, _PLACEHOLDERS)}")
    found = _find(words[0], path.parent)
    return [found or words[0], *words[1:]]


def _find(program: str, folder: Path) -> str | None:
    """Returns the path of a program: in the folder of its entrant file if it has a slash, else on PATH."""
    if "{" in program:
        return program
    # Links stay: a virtual environment's Python is a link whose own path says which environment it is.
    return shutil.which(os.path.abspath(folder / program) if "/" in program else program)


def _ready(value: Any, path: Path) -> dict[str, Any]:
    if isinstance(value, str) and value in _READY:
        return {"type": value}
    if isinstance(value, dict) and len(value) == 1:
        ((key, given),) = value.items()
        if key == "output":
            return {"type": "output", "text": given}
        if key == "after_s":
            return {"type": "after", "seconds": given}
    raise ConfigError(f"{path}: ready = {value!r}: expected tcp, udp, {{output: TEXT}} or {{after_s: SECONDS}}")


def _list(data: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ConfigError(f"{path}: {key} = {value!r}: expected a list of texts")
    return tuple(value)


def _required(data: Mapping[str, Any], key: str, path: Path) -> str:
    if not isinstance(data.get(key), str) or not data[key]:
        raise ConfigError(f"{path}: {key} = {data.get(key)!r}: expected text")
    return str(data[key])


def _text(data: Mapping[str, Any], key: str, path: Path) -> str:
    value = data.get(key, "")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {key} = {value!r}: expected text")
    return value
