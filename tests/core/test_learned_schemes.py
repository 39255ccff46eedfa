"""Shipped learned schemes: a folder and a configuration are all that one needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: learned schemes not tested (run make)")

from ccarena import _core
from ccarena.configs import shipped
from ccarena.configs.named import configuration_of
from ccarena.core.learned_schemes import learned_schemes, shipped_policies, specs
from ccarena.policies import artifact
from ccarena.policies.spec import spec_of

ROOT = Path(__file__).parents[2]
REWARD = '''"""A reward of a test."""


def fresh(report, price=2.0):
    """Returns throughput without a `price` of delay.

    It has no unit.
    """
    return report.throughput_mbps - price * report.rtt_ms
'''
CONFIGURATION = "base: aurora\nname: fresh\nspec: fresh\nreward: {name: fresh, price: 3}\n"
PROGRAM = """
import json, sys
import ccarena, gymnasium
from ccarena.configs import load_config
from ccarena.envs.rewards import built_in
from ccarena.eval.reproduce import policy
from ccarena.scenarios.entrants import parse
from docs.generate import configuration, environments

env = gymnasium.make("ccarena/Fresh-v0")
env.reset(seed=1)
reward = env.step(env.action_space.sample())[1]
link = {"service": {"type": "constant", "rate_mbps": 8}}
flows = [parse("fresh=0").as_flow(), parse("fresh").as_flow()]
(run,) = ccarena.run({"duration_s": 1, "links": [link], "flows": flows}).runs
print(json.dumps({
    "reward": reward,
    "kernel": "ccarena/FreshKernel-v0" in gymnasium.registry,
    "policy": parse("shipped:fresh").label,
    "delivered": [flow["delivered_bytes"] > 0 for flow in run.result["flows"]],
    "rewards": built_in()["fresh"],
    "trained": policy.configurations("fresh"),
    "page": all(each in environments.markdown() for each in ("### `ccarena/Fresh-v0`", "`fresh` with `price` = 3")),
    "keys": "| `fresh` | `price` | `2.0` |" in configuration.markdown(),
}))
"""


def with_another(folder: Path) -> Path:
    """Makes a copy of the package, by links, that has the learned scheme `fresh`; returns where it is imported from."""
    package, own = folder / "ccarena", folder / "ccarena" / "fresh"
    (package / "configs").mkdir(parents=True)
    for place in (Path(), Path("configs")):
        for path in (ROOT / "ccarena" / place).iterdir():
            if path.name not in ("configs", "__pycache__"):
                (package / place / path.name).symlink_to(path)
    (folder / "docs").symlink_to(ROOT / "docs")
    (package / "configs" / "fresh.yaml").write_text(CONFIGURATION, "utf-8")
    (own / "policies").mkdir(parents=True)
    spec = {**json.loads(specs()["hyvar"]), "name": "fresh"}
    (own / "spec.json").write_text(json.dumps(spec), "utf-8")
    (own / "rewards.py").write_text(REWARD, "utf-8")
    trained = artifact.load(shipped_policies()["hyvar"])
    replace(trained, interface=spec_of(configuration_of(spec)).interface).save(own / "policies" / "fresh.safetensors")
    return folder


def test_a_folder_and_a_configuration_are_a_learned_scheme(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(with_another(tmp_path))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found.pop("reward"), float)
    assert found == {
        "kernel": True,
        "policy": "fresh",
        "delivered": [True, True],
        "rewards": "ccarena.fresh.rewards:fresh",
        "trained": ["fresh"],
        "page": True,
        "keys": True,
    }


def test_programs_have_the_specs_of_the_folders() -> None:
    digests = [
        {name: _core.learned(text)["digest"] for name, text in each.items()}
        for each in (specs(), _core.shipped_specs())
    ]
    assert digests[0] == digests[1], "crates/ccarena-cc/src/learned/shipped.rs names the folders"


def test_every_learned_scheme_has_its_configuration_and_every_policy_its_card() -> None:
    assert learned_schemes().keys() <= {*shipped()}
    assert shipped_policies()
    for name, file in shipped_policies().items():
        assert file.with_suffix(".md").read_text("utf-8").startswith(f"# {name}\n")
        assert artifact.load(file).spec["name"] == file.parents[1].name


def test_make_trains_what_the_folders_ship() -> None:
    text = subprocess.run(["make", "-pn", "help"], capture_output=True, text=True, cwd=ROOT).stdout
    made = {key: value.split() for key, sign, value in (line.partition(" := ") for line in text.splitlines()) if sign}
    assert sorted(made["SHIPPED"]) == sorted({*shipped_policies(), *made["OF_PAPERS"]})
    assert {*made["TRAINED"]} == {*made["SHIPPED"]} & {*shipped()}
    assert {*made["OF_PAPERS"]} <= {*shipped()}
    schemes = [name.partition("-")[0] for name in made["OF_PAPERS"]]
    assert len(schemes) == len({*schemes}) and {*schemes} <= learned_schemes().keys()


def test_a_wheel_holds_the_folders(tmp_path: Path) -> None:
    code = "import setuptools; setuptools.setup()"
    command = [sys.executable, "-c", code, "--quiet", "build_py", "--build-lib", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for scheme in learned_schemes().values():
        kept = [path for path in scheme.folder.rglob("*") if path.suffix in (".json", ".md", ".py", ".safetensors")]
        assert [path for path in kept if not (tmp_path / path.relative_to(ROOT)).is_file()] == []
