"""Outside Linux all but the real-time backends works; those say in a sentence that they need Linux.

Python runs here as on macOS (`sitecustomize.py`). The crates of the extension are checked for macOS by the compiler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ccarena.commands.doctor import TINY_SCENARIO

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: nothing tested as on macOS (run make)")

ROOT = Path(__file__).parents[2]
SENTENCE = "needs Linux, and this is macOS; use a Linux machine or a virtual one (the simulator, environments, training"
COMPILED = "torch stable_baselines3 sb3_contrib ray"
"""Packages that look for their own libraries by the platform's name when they are imported."""


def python(*words: str, loaded: str = "") -> subprocess.CompletedProcess[str]:
    """Runs Python as on macOS; `loaded` are packages that it has imported before."""
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "ELSEWHERE_LOADED": loaded, "OMP_NUM_THREADS": "1"}
    environment.pop("CCARENA_BIN_DIR", None)
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def ccarena(*words: str, loaded: str = "") -> subprocess.CompletedProcess[str]:
    return python("-m", "ccarena_command", *words, loaded=loaded)


IMPORT_ALL = """
import importlib, os, pkgutil, sys
import ccarena
assert sys.platform == "darwin" and not hasattr(os, "sched_getaffinity") and not os.path.exists("/proc")
names = [each.name for each in pkgutil.walk_packages(ccarena.__path__, "ccarena.") if "migrations" not in each.name]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_every_module_is_imported() -> None:
    done = python("-c", IMPORT_ALL, loaded=COMPILED)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150


@pytest.mark.parametrize(
    "words",
    [
        "link up.trace down.trace",
        "delay 20",
        "emulate scenario.yaml",
        "kernel status",
        "quic get 127.0.0.1:4433",
        "eval cubic --backend kernel",
        "eval cubic --backend quic",
        "reproduce acct/fairness --backend kernel",
        "fidelity --live",
    ],
)
def test_the_real_time_backends_say_that_they_need_linux(words: str, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")] if words.startswith(("eval", "reproduce")) else []
    done = ccarena(*words.split(), *out)
    assert done.returncode == 4
    assert done.stdout == "" and SENTENCE in done.stderr.splitlines()[-1]


def test_the_doctor_finds_the_simulator_and_says_the_same_of_the_rest() -> None:
    done = ccarena("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {each["capability"]: each for each in json.loads(done.stdout)}
    assert found["simulator"]["state"] == "ok"
    for name in ("kernel bridge", "emulator"):
        assert found[name]["state"] == "missing"
        assert found[name]["found"].endswith("needs Linux, and this is macOS")
        assert found[name]["advice"].startswith("use a Linux machine")
    assert found["cores"]["found"].startswith(f"{os.cpu_count()} of {os.cpu_count()} cores")


def test_a_scenario_has_the_same_bytes_as_on_linux(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps({**TINY_SCENARIO, "flows": [{"scheme": "acct"}]}))
    script = f"import ccarena; print(ccarena.run({str(tmp_path / 'scenario.json')!r}).columns('flows'))"
    there = python("-c", script)
    here = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout and "acct" in there.stdout


def test_a_training_ends_in_a_policy_and_a_page(tmp_path: Path) -> None:
    small = "--total-decisions 1000 --env.worlds 16 --env.episode_s [1,2] --algorithm.workers 2"
    small_eval = "--eval.link_sets [constant] --eval.duration_s 1 --eval.seeds 1 --baselines [reno]"
    words = ["train", *small.split(), *small_eval.split(), "--out", str(tmp_path / "run")]
    done = ccarena(*words, loaded=COMPILED)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "policy.safetensors").is_file() and (tmp_path / "run" / "page.html").is_file()
