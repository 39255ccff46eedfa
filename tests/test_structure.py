"""The package's structure: files import each other in one direction only, and no folder holds most of the code."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST_SHARE = 0.25
"""Of the package's lines of Python in the modules that stand directly in one folder."""


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


def test_no_folder_holds_more_than_a_quarter_of_the_code() -> None:
    lines: Counter[Path] = Counter()
    for path in modules(ROOT).values():
        lines[path.parent.relative_to(ROOT)] += len(path.read_text("utf-8").splitlines())
    shares = {str(folder): count / lines.total() for folder, count in lines.items()}
    assert not {folder: share for folder, share in shares.items() if share > LARGEST_SHARE}
