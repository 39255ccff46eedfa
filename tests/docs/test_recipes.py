"""The recipes of docs/recipes.md run as written, in short form."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the recipes were not run (run make)")

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
SHORT = {
    "cleanrl_ppo.py": ("torch", ["--steps", "4096"], r"^4096 steps, mean return of \d+ episodes -?\d+\.\d$"),
    "recurrent_ppo.py": ("sb3_contrib", ["--steps", "1024"], r"^1024 steps, \d+ episodes, mean return -?\d+\.\d$"),
    "rllib_ppo.py": ("tree", ["--iterations", "2", "--batch", "400"], r"^2: \d{3,} steps, return -?\d+\.\d+$"),
}


def test_each_recipe_is_run() -> None:
    assert sorted(SHORT) == sorted(path.name for path in RECIPES.glob("*.py"))


# That of RLlib starts a cluster.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.alone if "rllib" in name else ()) for name in sorted(SHORT)]
)
def test_it_trains(name: str, tmp_path: Path) -> None:
    needed, options, last_line = SHORT[name]
    pytest.importorskip(needed, reason=f"{needed.upper()} NOT INSTALLED: {name} was not run")
    command = [sys.executable, str(RECIPES / name), *options]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert re.search(last_line, ended.stdout.strip().splitlines()[-1]), ended.stdout
