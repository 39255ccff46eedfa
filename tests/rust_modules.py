"""The modules of a Rust crate, and which of them use each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Name = tuple[str, ...]
"""A path below the crate, as of a module or an item: `("learned", "clocks")`; of the crate itself empty."""

TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.|[^'\\])'""", re.DOTALL
)
"""Comments and literals."""
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?(?:mod (?P<module>\w+)\s*[;{]|use [^;]+;)")
USE = re.compile(r"\b(?P<public>pub(?:\([^)]*\))? )?use (?P<tree>[^;]+);")
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")


@dataclass
class Module:
    """The names that a file uses, and those of its children that it exports as its own."""

    uses: set[Name] = field(default_factory=set)
    exports: dict[str, Name] = field(default_factory=dict)


def uses(src: Path) -> dict[str, set[str]]:
    """The modules of the crate in `src`, each with the others that it uses, except its own parents.

    As in Python, a child may take names from its parents. A name that a parent exports counts as that of the child
    which defines it. Modules for tests alone are left out.
    """
    texts, tests = sources(src)
    texts = {name: text for name, text in texts.items() if not any(name[: len(test)] == test for test in tests)}
    modules = {name: read(name, text, texts.keys()) for name, text in texts.items()}

    def definer(name: Name) -> Name:
        at = next(name[:k] for k in range(len(name), -1, -1) if name[:k] in modules)
        item = name[len(at) : len(at) + 1]
        exported = modules[at].exports.get(item[0]) if item else None
        return definer(exported + name[len(at) + 1 :]) if exported else at

    return {
        "::".join(name): {"::".join(other) for other in map(definer, module.uses) if name[: len(other)] != other}
        for name, module in modules.items()
    }


def sources(src: Path) -> tuple[dict[Name, str], set[Name]]:
    """The code of every module without comments, literals and tests, and the modules that are tests."""
    texts: dict[Name, str] = {}
    tests: set[Name] = set()
    for path in sorted(src.rglob("*.rs")):
        parts = path.relative_to(src).with_suffix("").parts
        name = parts[:-1] if parts[-1] in {"mod", "lib", "main"} else parts
        if name == () and () in texts:
            continue  # `main.rs` beside `lib.rs`, whose modules nobody else uses
        texts[name], children = without_tests(TEXT.sub(" ", path.read_text("utf-8")))
        tests |= {(*name, child) for child in children}
    return texts, tests


def without_tests(code: str) -> tuple[str, set[str]]:
    """The code without what only tests compile, and the names of test modules in files of their own."""
    files = set()
    while found := TESTS.search(code):
        end = found.end()
        if found[0].endswith("{"):
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
        elif found["module"]:
            files.add(found["module"])
        code = code[: found.start()] + code[end:]
    return code, files


def read(at: Name, code: str, modules: set[Name]) -> Module:
    """The uses and exports of module `at`: by `use`, and by paths written out elsewhere."""
    module = Module()
    for public, tree in USE.findall(code):
        for path, name in leaves(tree):
            if (used := absolute(at, path, modules)) is not None:
                module.uses.add(used)
                if public and used[: len(at)] == at:
                    module.exports[name] = used
    rest = USE.sub("", code)
    children = [name[-1] for name in modules if name and name[:-1] == at]
    written = PATH.findall(rest) + [m for child in children for m in re.findall(rf"(?<![\w:]){child}(?:::\w+)+", rest)]
    for path in written:
        if (used := absolute(at, tuple(path.split("::")), modules)) is not None:
            module.uses.add(used)
    return module


def leaves(tree: str) -> Iterator[tuple[Name, str]]:
    """Every path of a `use` tree with the name that it gets: `a::{b, c as d}` has `a::b` as b and `a::c` as d."""
    head, brace, rest = tree.partition("{")
    prefix = tuple(part.strip() for part in head.split("::") if part.strip())
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        yield parts, alias.strip() or parts[-1]
        return
    depth, start, inner = 0, 0, rest[: rest.rindex("}")] + ","
    for k, character in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if part := inner[start:k].strip():
                for path, name in leaves(part):
                    yield (prefix, prefix[-1]) if path == ("self",) else (prefix + path, name)
            start = k + 1


def absolute(at: Name, path: Name, modules: set[Name]) -> Name | None:
    """The path below the crate that module `at` writes as `path`; none if it leads to another crate."""
    if path[0] == "crate":
        return path[1:]
    supers = next((k for k, part in enumerate(path) if part != "super"), len(path))
    if supers:
        return at[: len(at) - supers] + path[supers:]
    if path[0] == "self":
        return at + path[1:]
    return at + path if at + path[:1] in modules else None
