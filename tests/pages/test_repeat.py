""" "How to repeat this": the command of every kind of page runs anywhere, and gives the same results."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: pages' commands not run (run make)")

from ccarena.cli import main

SMALL = (
    "--env.worlds 4 --algorithm.workers 1 --network.filters 1 --network.hidden 4 --env.link.kinds.trace 0 "
    "--total-decisions 600"
)
JUDGED = "--eval.link_sets [slides] --eval.seeds 1 --eval.duration_s 1 --baselines [cubic] --rules.links 0"


def write_scenario(folder: Path) -> None:
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "loss": 0.01}
    (folder / "my scenario.yaml").write_text(
        json.dumps({"duration_s": 1, "links": [link], "flows": [{"scheme": "reno"}]})
    )


def write_cases(folder: Path) -> None:
    (folder / "up").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    result = {"first_data_ms": 20, "throughput_mbps": 11.9, "qdelay_ms": {"mean": 10.0, "p95": 20}}
    case = {"up": "up", "down": "up", "owd_ms": 10, "queue": "droptail", "queue_args": "packets=20", "seconds": 2}
    (folder / "cases.json").write_text(json.dumps([{**case, "cc": "reno", "result": result}]))


def write_space(folder: Path) -> None:
    (folder / "space.yaml").write_text("algorithm.gamma: {grid: [0.5]}")


@dataclass(frozen=True)
class Kind:
    """A kind of page: the command that makes it, the page, and a file of results that another run gives again."""

    commands: tuple[str, ...]
    page: str
    result: str
    prepare: Callable[[Path], None] = lambda folder: None


KINDS = {
    "eval": Kind(
        ("eval cubic --link-sets slides --seeds 1 --duration-s 1 --out 'o ut'",), "o ut/page.html", "o ut/rows.csv"
    ),
    "eval --scenario": Kind(
        ("eval --scenario 'my scenario.yaml' --seeds 2",),
        "runs/scenario/my scenario/page.html",
        "runs/scenario/my scenario/flows.csv",
        write_scenario,
    ),
    "compete": Kind(
        ("compete cubic reno --link 12mbps --duration-s 1 --stagger-s 0 --seeds 1 --out out",),
        "out/compete.html",
        "out/rows.csv",
    ),
    "leaderboard": Kind(
        (
            "leaderboard run --store 'a store.db' --traces lte-bus --schemes cubic --policies --buffers 100 "
            "--duration-s 1 --seeds 1 --meeting-seeds 0",
            "leaderboard page 'o ut' --store 'a store.db'",
        ),
        "o ut/index.html",
        "o ut/data/cells.js",
    ),
    "reproduce": Kind(
        ("reproduce wcc/stability --quick --out out",), "out/wcc/stability/page.html", "out/wcc/stability/claims.md"
    ),
    "fidelity": Kind(("fidelity cases.json --offsets 1 --jobs 1 --plot f.html",), "f.html", "f.html", write_cases),
    "train": Kind(
        (f"train --config acct --validation.kinds [] {JUDGED} {SMALL} --out run",),
        "run/page.html",
        "run/results.json",
    ),
    "tune": Kind(
        (f"tune --space space.yaml --samples 1 --seeds 1 --validations 1 --scheduler none --out out {SMALL}",),
        "out/page.html",
        "out/trials.csv",
        write_space,
    ),
}


def lines(page: Path) -> list[str]:
    """The commands that a page shows."""
    text = page.read_text("utf-8")
    shown = re.search(r"How to repeat this</summary>.*?<pre>(.*?)</pre>", text, flags=re.S)
    assert shown is not None, "the page does not say how to repeat it"
    return html.unescape(shown[1]).splitlines()


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "tune" else ()) for n in KINDS])
def test_the_command_on_a_page_gives_it_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ("train", "tune"):
        pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: trainings' pages not made (ccarena[train])")
    if name == "tune":
        pytest.importorskip("ray.tune", exc_type=ImportError, reason="RAY TUNE IS NOT INSTALLED (ccarena[tune])")
    kind = KINDS[name]
    results = []
    commands = list(kind.commands)
    for place in ("first", "again"):
        folder = tmp_path / place
        folder.mkdir()
        kind.prepare(folder)
        monkeypatch.chdir(folder)
        for command in commands:
            assert main(shlex.split(command)) == 0, command
        results.append((folder / kind.result).read_bytes())
        usual, in_a_copy = [], []
        for line in lines(folder / kind.page):
            (in_a_copy if in_a_copy or line.startswith("#") else usual).append(line)
        assert [shlex.split(line) for line in usual] == [
            ["ccarena", *shlex.split(command)] for command in kind.commands
        ]
        commands = [line.removeprefix("ccarena ") for line in usual]
    assert results[0] == results[1]
    if in_a_copy:
        copy = tmp_path / "copy"
        shutil.copytree((folder / kind.page).parent, copy)
        monkeypatch.chdir(copy)
        assert main(shlex.split(in_a_copy[1])[1:]) == 0
        again = (copy / "again" / Path(kind.result).name).read_bytes()
        assert again == results[0].replace(b"my scenario", b"scenario"), "but for the file's name"


def test_a_password_is_on_no_page() -> None:
    from argparse import Namespace

    from ccarena.core.terminal import command_line

    words = ["leaderboard", "run", "--store", "postgresql://me:secret@host/db", "a b"]
    assert command_line(Namespace(words=words)) == "ccarena leaderboard run --store postgresql://me@host/db 'a b'"


def test_a_run_that_went_on_names_both_commands(tmp_path: Path) -> None:
    from ccarena.runs.run_folder import read_commands, write_commands

    for line in ("ccarena train --x 'a\nb'", "ccarena train --out r --resume", "ccarena train --out r --resume"):
        write_commands(tmp_path, [*read_commands(tmp_path), line])
    assert read_commands(tmp_path) == ["ccarena train --x 'a\nb'", "ccarena train --out r --resume"]
