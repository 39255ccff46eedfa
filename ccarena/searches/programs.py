"""Programs: what a candidate of a search is, and the entrant that each kind becomes."""

from __future__ import annotations

import ast
import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.controllers.classes import flow_of_file
from ccarena.core.files import digest, write_atomically
from ccarena.errors import ConfigError, did_you_mean
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.spec import Spec
from ccarena.scenarios.entrants import Entrant, parse, with_params
from ccarena.searches import expressions
from ccarena.searches.expressions import Tree

__all__ = ["LANGUAGES", "Program", "Programs", "inputs_of"]

PROGRAMS = "programs"
"""Folder of the candidates' files."""
MOST_BYTES = 1_000_000
"""Longest text of a program."""
LARGEST = 1e6
"""Bound of products and quotients in a rule, so that no decision is without a number."""
LANGUAGES: Mapping[str, str] = {"entrant": "", "rule": ".safetensors", "python": ".py", "wasm": ".wasm"}
"""Kinds of programs, with the suffix of their files."""


@dataclass(frozen=True)
class Program:
    """Candidate as text."""

    lang: str
    """One of `LANGUAGES`: an entrant's text, an expression over signals, a Python file, or a module in base64."""
    text: str
    params: Mapping[str, float] = field(default_factory=dict)
    """Parameters of the entrant or arguments of the class."""
    about: str = field(default="", compare=False)
    """Difference from the template in one line; empty for the whole text."""

    @property
    def id(self) -> str:
        """Returns the digest by which programs are told apart."""
        return digest(json.dumps([self.lang, self.text, dict(self.params)], sort_keys=True).encode())

    @property
    def said(self) -> str:
        """Returns the program in one line."""
        if self.about or self.lang in ("python", "wasm"):
            return self.about or f"{self.lang} program {self.id}"
        return with_params(parse(self.text), self.params) if self.params else self.text

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {"lang": self.lang, "text": self.text, "params": dict(self.params), "about": self.about}


@dataclass(frozen=True)
class Programs:
    """Programs of one search, and their files in its folder."""

    folder: Path
    template: Entrant
    spec: Spec | None = None
    """Spec of rules; None if the template has none."""

    def entrant(self, program: Program, label: str = "") -> Entrant:
        """Returns the entrant of a program, whose file is written if it is missing.

        Reads no user's code. Raises ConfigError or PolicyError for a program that is none.
        """
        if program.lang == "entrant":
            found = parse(with_params(parse(program.text), program.params) if program.params else program.text)
            return Entrant(label or found.label, found.flow, found.text, theirs=found.theirs)
        path = self.file(program)
        if program.lang == "rule":
            spec = self._spec()
            tree = expressions.parse(program.text, inputs_of(spec), "rule")
            self._write(path, Artifact.of(graph_of(tree, spec), spec.interface).encode())
            params = {**self.template.flow.get("params", {}), **program.params}
            scheme = self.template.flow["scheme"]
            return Entrant(label, {"scheme": scheme, "policy": str(path.resolve()), "params": params}, str(path))
        if program.lang == "python":
            name = _class_in(program.text)
            self._write(path, program.text.encode())
            params = {"params": dict(program.params)} if program.params else {}
            return Entrant(label, {**flow_of_file(path, name), **params}, f"{path}:{name}")
        if program.lang != "wasm":
            raise ConfigError(f'unknown lang "{program.lang}"{did_you_mean(program.lang, LANGUAGES)}')
        self._write(path, _decoded(program.text))
        return parse(f'"{path}"' if set("=@,") & set(str(path)) else str(path))

    def file(self, program: Program) -> Path:
        """Returns the place of a program's file."""
        return self.folder / PROGRAMS / f"{program.id}{LANGUAGES[program.lang]}"

    def _spec(self) -> Spec:
        if self.spec is None:
            raise ConfigError(
                'lang "rule": the template is no spec with an action, such as examples/search/window.yaml=0'
            )
        return self.spec

    def _write(self, path: Path, data: bytes) -> None:
        if not path.exists():
            write_atomically(path, data)


def _class_in(source: str) -> str:
    """Returns the only class with a method `on_ack`, or the last of those that another one derives from."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ConfigError(f"no Python{line}: {getattr(error, 'msg', None) or error}") from error
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    bases = {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}
    found = [node.name for node in classes if node.name not in bases and not node.name.startswith("_")]
    with_method = [
        n.name for n in classes if any(isinstance(f, ast.FunctionDef) and f.name == "on_ack" for f in n.body)
    ]
    chosen = [name for name in found if name in with_method] or found
    if len(chosen) != 1:
        many = f"{len(chosen)} classes ({', '.join(chosen)})" if chosen else "no class"
        raise ConfigError(f"{many}; expected one with a method on_ack(self, ack)")
    return chosen[0]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"no base64: {error}; give a module as base64, or the path of its file") from error


def inputs_of(spec: Spec) -> dict[str, int]:
    """Returns the names that rules of a spec are made of, and where each is in an observation: the newest value of
    every signal.
    """
    places: dict[str, int] = {}
    end = 0
    for entry in spec.observation:
        end += entry.length
        places[entry.name] = end - 1
    return places


def graph_of(tree: Tree, spec: Spec) -> Graph:
    """Returns a rule as the network of a policy (docs/artifact.md), over the normalised observation."""
    places, nodes = inputs_of(spec), list[Node]()

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(Node(f"v{len(nodes)}", op, inputs, attributes))
        return nodes[-1].name

    def bounded(name: str) -> str:
        return add("clip", name, low=-LARGEST, high=LARGEST)

    def value(part: Tree) -> str:
        if isinstance(part, str):
            return add("slice", OBSERVATION, axis=0, start=places[part], stop=places[part] + 1)
        if isinstance(part, float):
            return add("affine", add("slice", OBSERVATION, axis=0, start=0, stop=1), scale=0.0, shift=part)
        operation, left, right = part[0], value(part[1]), value(part[2])
        if operation == "+":
            return bounded(add("add", left, right))
        if operation in ("*", "/"):
            return bounded(add({"*": "mul", "/": "div"}[operation], left, right))
        less = add("add", left, add("affine", right, scale=-1.0))
        if operation == "-":
            return bounded(less)
        above = add("relu", less)
        # min(a, b) = a - max(a - b, 0), and max(a, b) = b + max(a - b, 0)
        if operation == "min":
            return add("add", left, add("affine", above, scale=-1.0))
        return add("add", right, above)

    output = value(tree)
    return Graph(spec.size, tuple(nodes), output, dict[str, np.ndarray]())
