"""The tutorials as a reader follows them: files are saved, commands run, in a folder of their own and in short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the tutorials were not run (run make)")
pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: the tutorials were not run")

from ccarena.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("tutorial-*.md"))
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", flags=re.S | re.M)
LINKS = "--eval.link_sets [slides] --eval.seeds 1 --eval.duration_s 1 --baselines [cubic]".split()
UNJUDGED = "--validation.kinds [] --rules.links 0".split()
LESS = {
    "train": ["--total-decisions", "1200", "--env.worlds", "4", *LINKS, *UNJUDGED],
    "resumed": ["--total-decisions", "1800"],
}
"""What a command is given besides, so that a page takes seconds."""


def steps(page: Path) -> list[tuple[str, str]]:
    """What a reader does, in order: `("save NAME", text)` and `("run", line)`."""
    found = []
    page_text, end = page.read_text("utf-8"), 0
    for block in BLOCK.finditer(page_text):
        before, end = page_text[end : block.start()], block.end()
        if re.search(r"<!-- not run: .+? -->\s*$", before):
            continue
        named = re.findall(r"[Ss]ave (?:this|it) as `([\w.-]+)`", before)
        if named:
            found.append((f"save {named[-1]}", block["text"]))
        elif block["language"] == "sh":
            found += [("run", line) for line in block["text"].splitlines() if line and not line.startswith("#")]
    return found


def pages() -> list[object]:
    """Each page by its name; that of the cluster starts one, which `make test-cluster` does."""
    slow = (pytest.mark.slow, pytest.mark.alone)
    return [pytest.param(page, id=page.stem, marks=slow if page.stem == "tutorial-cluster" else ()) for page in PAGES]


@pytest.mark.parametrize("page", pages())
def test_it_can_be_followed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ran = 0
    for what, text in steps(page):
        if what.startswith("save "):
            Path(what.removeprefix("save ")).write_text(text, "utf-8")
            continue
        words = shlex.split(text, comments=True)
        assert words[0] == "ccarena", text
        if words[1] == "train":
            words += LESS["resumed" if "--resume" in words else "train"]
            words += ["--algorithm.workers", "1"] if "ray" in words else []
        assert main(words[1:]) == 0, text
        ran += 1
    assert ran >= 1, "no command of this page was run"


def test_files_and_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Save this as `a.yaml`:\n\n```yaml\nx: 1\n```\n\nThen\n\n```sh\nccarena doctor   # look\n```\n\n"
        "<!-- not run: needs root -->\n```sh\nsudo reboot\n```\n"
    )
    assert steps(page) == [("save a.yaml", "x: 1\n"), ("run", "ccarena doctor   # look")]
