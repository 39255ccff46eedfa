"""The package's structure: files and rooms import each other in one direction only, and no room holds most of the code.

A room is a folder of the package with its subfolders; each question in `eval` is a room of its own.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests import rust_modules

ROOT = Path(__file__).parents[1]
LARGEST_SHARE = 0.25
"""The largest part of the package's lines of Python that one room may hold."""
MOST_LOOSE = 6
"""Modules directly in `ccarena/`, `__init__` not counted."""
CONFIGURATION = re.compile(r"\bisinstance\([^)]*Config\b")
"""A question about a configuration's class."""
PARSING = {
    "ccarena/agents/api.py",
    "ccarena/configs/named.py",
    "ccarena/envs/learned.py",
    "ccarena/envs/rewards.py",
}
"""Files whose functions take a configuration, its name or its keys."""


def modules(root: Path) -> dict[str, Path]:
    """Every file of the package below `root` by its dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / "ccarena").rglob("*.py"))
    }


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules among `known` that a module imports anywhere, in functions too, except its own parents.

    A package may take names from its children, which need their parent to be imported first.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write out where it is imported from"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {other for other in found & known.keys() if other != name and not name.startswith(f"{other}.")}


def circles(uses: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other by imports."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = list(uses[start])
        while ahead:
            if (name := ahead.pop()) not in seen:
                seen.add(name)
                ahead += uses[name]
        return seen

    reach = {name: reachable(name) for name in uses}
    groups = {frozenset(a for a in uses if a in reach[b] and b in reach[a]) for b in uses if b in reach[b]}
    return sorted(sorted(group) for group in groups)


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules(ROOT)
    assert len(known) > 50, "the package was not found"
    assert circles({name: imports(name, path, known) for name, path in known.items()}) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "ccarena"
    (package / "part").mkdir(parents=True)
    texts = {
        "__init__": "",
        "a": "def f():\n    from ccarena.part import b\n",
        "part/__init__": "from ccarena.part import c\n",
        "part/b": "import ccarena.a\nimport ccarena.part\n",
        "part/c": "from ccarena.part import b\n",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    known = modules(tmp_path)
    uses = {name: imports(name, path, known) for name, path in known.items()}
    assert circles(uses) == [["ccarena.a", "ccarena.part", "ccarena.part.b", "ccarena.part.c"]]


def room(module: str) -> str:
    """The room that a module belongs to: a folder of the package, or of `ccarena.eval`; a loose module is its own."""
    return ".".join(module.split(".")[: 3 if module.startswith("ccarena.eval.") else 2])


def test_rooms_import_each_other_in_one_direction() -> None:
    known = modules(ROOT)
    uses: dict[str, set[str]] = {}
    for name, path in known.items():
        others = imports(name, path, known) - {"ccarena"}
        uses.setdefault(room(name), set()).update(room(other) for other in others)
    for name, others in uses.items():
        others.discard(name)
    assert circles(uses) == []


def listed_rooms() -> list[set[str]]:
    """The rows of CONTRIBUTING's table of rooms, each with its rooms."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?) \|", text.partition("| room of `ccarena/` |")[2].partition("\n\n")[0], flags=re.M)
    return [{"ccarena." + name.replace("/", ".") for name in re.findall(r"`([\w/]+)`", row)} for row in rows]


def test_contributing_lists_every_room_and_what_it_may_import() -> None:
    known = modules(ROOT)
    listed = listed_rooms()
    row_of = {name: row for row, names in enumerate(listed) for name in names}
    rooms = {room(name) for name in known if (path := name.split("."))[1:] and (ROOT / "/".join(path[:2])).is_dir()}
    assert set(row_of) == rooms - {"ccarena.eval"}
    upward = {
        (room(name), room(other))
        for name, path in known.items()
        for other in imports(name, path, known)
        if row_of.get(room(other), 0) > row_of.get(room(name), len(listed))
    }
    assert upward == set(), "a file that needs a room further down is in the wrong room"


def test_no_room_holds_more_than_a_quarter_of_the_code() -> None:
    lines: Counter[str] = Counter()
    for name, path in modules(ROOT).items():
        lines[room(name)] += len(path.read_text("utf-8").splitlines())
    assert not {name: n / lines.total() for name, n in lines.items() if n > LARGEST_SHARE * lines.total()}


def test_few_modules_stand_outside_of_rooms() -> None:
    loose = [path.name for path in (ROOT / "ccarena").glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= MOST_LOOSE, loose


def test_algorithms_say_what_they_need_by_attributes_of_their_configuration() -> None:
    files = [str(path.relative_to(ROOT)) for path in modules(ROOT).values() if CONFIGURATION.search(path.read_text())]
    assert set(files) == PARSING


def test_no_rust_files_use_each_other_in_a_circle() -> None:
    crates = {src.parent.name: rust_modules.uses(src) for src in (ROOT / "crates").glob("*/src")}
    assert sum(map(len, crates.values())) > 200, "the crates were not found"
    assert {name: circles(uses) for name, uses in crates.items() if circles(uses)} == {}


def test_a_circle_of_rust_files_is_found(tmp_path: Path) -> None:
    texts = {
        "lib": "pub mod a;\npub mod b;\npub mod far;\npub use a::A;\n#[cfg(test)]\nmod tests;\n",
        "a": "use crate::b::{Plain, deep::{Deep, Other as Another}};\n",
        "b/mod": "mod deep;\nmod plain;\npub use self::deep::Deep;\npub use self::plain::Plain;\n",
        "b/deep": '// use crate::far::Far;\npub struct Deep;\nfn text() -> &\'static str { "crate::far::Far" }\n',
        "b/plain": "fn f() { crate::far::f() }\n#[cfg(test)]\nmod tests { use crate::a::A; }\n",
        "far": "use super::A;\n#[cfg(test)]\nuse crate::b::Deep;\n",
        "tests": "use crate::far;\n",
    }
    for name, text in texts.items():
        path = tmp_path / f"{name}.rs"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    uses = rust_modules.uses(tmp_path)
    assert uses["a"] == {"b::deep", "b::plain"}, "a name that a parent exports is its child's"
    assert uses["far"] == {"a"}
    assert circles(uses) == [["a", "b::plain", "far"]]
