"""One policy in all of its runtimes, and what says so when it is not one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ccarena.cli import main
from ccarena.commands import parity as command
from ccarena.commands.parity import parity
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.machine import is_linux
from ccarena.errors import PolicyError
from ccarena.eval.parity.runtimes import RUNTIMES, agreement, compare
from ccarena.eval.parity.scenarios import returns
from ccarena.policies import artifact, c_runtime
from ccarena.policies.card import card
from ccarena.policies.recording import record
from ccarena.runs import run_folder
from docs.generate.policies import LARGEST, further, ship
from tests.policies import made

SHIPPED_POLICIES = sorted(shipped_policies())
EVALUATION = {
    "verdict": {
        "line": "verdict: not learned",
        "expectations": [{"group": "step", "measured": "3", "target": "5", "state": "differs"}],
    },
    "means": {"step": {"hyvar": {"throughput_mbps": 12.3456}, "cubic": {"throughput_mbps": 9.0}}},
    "meta": {"link_sets": ["step"], "seeds": 2},
}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.safetensors"
    made.continuous("hyvar", 0.2, training={"name": "tried"}, seed=7, evaluation=EVALUATION).save(file)
    return file


def test_recorded_observations_are_those_of_the_policys_own_flows(policy: Path) -> None:
    trained = artifact.load(policy)
    first, again = record(trained, 64, seed=3), record(trained, 64, seed=3)
    assert first.rows.shape == (64, trained.interface.observation_len)
    assert np.array_equal(first.observations, again.observations)
    assert not np.array_equal(first.observations, record(trained, 64, seed=4).observations)
    assert first.starts[0].all() and not first.starts[1:].all()


def test_every_home_is_the_same_policy(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "parity.json"
    words = [
        "parity",
        str(policy),
        "--decisions",
        "256",
        "--link-sets",
        "steps",
        "--duration-s",
        "2",
        "--json",
        str(out),
    ]
    assert main(words) == 0
    assert "rust-integer" in capsys.readouterr().out
    figures = json.loads(out.read_text())
    # Without a compiler, or without root and a kernel that can, the others remain.
    here = {"c": c_runtime.compiler() is not None, "bpf": "bpf" not in figures["missing"], "quic": is_linux()}
    expected = [name for name in RUNTIMES if here.get(name, True)]
    assert [runtime["runtime"] for runtime in figures["runtimes"]] == expected
    assert all(runtime["agreement"] >= 0.995 and runtime["ns_per_decision"] > 0 for runtime in figures["runtimes"])
    assert [runtime["same_bits"] for runtime in figures["runtimes"]][:4] == [None, None, True, True]
    assert figures["scenarios"]["scenarios"] > 0 and abs(figures["scenarios"]["lost"]) < 0.01
    assert figures["problems"] == []


def test_actions_agree_within_a_hundredth_of_the_range() -> None:
    continuous = made.continuous("hyvar", 0.2)  # from -2 to 2
    assert agreement(continuous, np.zeros(4), np.array([0.0, 0.039, -0.039, 0.041])) == 0.75


def test_a_home_that_decides_otherwise_is_a_problem(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what, integer, make = RUNTIMES["numpy-integer"]

    def wrong(*args):  # type: ignore[no-untyped-def]
        runtime = make(*args)
        return runtime._replace(decide=lambda x, memory: runtime.decide(x, memory) + 50_000)

    monkeypatch.setitem(RUNTIMES, "numpy-integer", (what, integer, wrong))
    problems = parity(policy, 64, link_sets=[])["problems"]
    assert any(problem.startswith("numpy-integer takes another action than rust in 100.00 %") for problem in problems)
    assert any(problem.startswith("rust-integer gives other bits") for problem in problems)


def test_a_policy_without_an_integer_form_is_said_to_have_none(policy: Path) -> None:
    trained = artifact.load(policy)
    for tensor in trained.graph.tensors.values():
        tensor *= np.float32(1e6)
    runtimes, missing = compare(trained, record(trained, 32))
    assert [runtime.runtime for runtime in runtimes] == ["rust", "python", *(["quic"] if is_linux() else [])]
    assert "weights up to" in missing["rust-integer"]


def test_a_reward_of_the_users_own_has_no_return(policy: Path) -> None:
    trained = artifact.load(policy)
    trained.training["reward"] = {"name": "mine.py:reward"}
    trained.save(policy)
    assert returns(policy, ["steps"], 2.0) is None


@pytest.mark.skipif(c_runtime.compiler() is None, reason="NO C COMPILER: the export is not compiled")
def test_export_writes_c_and_says_what_it_costs(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "export",
        str(policy),
        "--to",
        "c",
        "--out",
        str(tmp_path / "c"),
        "--decisions",
        "128",
        "--duration-s",
        "1",
    ]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(Path(file).name for file in told["files"]) == [
        "ccarena_policy.h",
        "hyvar.c",
        "hyvar.h",
        "hyvar_vectors.h",
    ]
    assert told["agreement"] >= 0.995 and told["problems"] == []
    command = [str(c_runtime.compiler()), "-std=c99", "-Wall", "-Werror", "-c", "hyvar.c", "-o", "hyvar.o"]
    c_runtime.compile_c(command, tmp_path / "c")
    assert "throughput_ratio" in (tmp_path / "c" / "hyvar.h").read_text()


@pytest.mark.parametrize("user", [0, 1000])
def test_as_root_parity_says_that_it_loads_the_policy_into_the_kernel(
    user: int, policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)

    def refuse(*_: object) -> None:
        raise PolicyError("before anything runs")

    monkeypatch.setattr(command, "parity", refuse)
    assert main(["parity", str(policy)]) != 0
    assert ("into this machine's running kernel" in capsys.readouterr().err) == (user == 0)


def test_export_refuses_what_it_cannot_write(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(policy), "--to", "c", "--name", "2 x"]) == 2
    assert "expected up to 100 letters, digits" in capsys.readouterr().err
    assert main(["export", str(policy), "--to", "c", "--out", str(policy)]) == 2
    assert main(["export", str(policy), "--to", "kernl"]) == 2
    damaged = policy.with_name("damaged.safetensors")
    damaged.write_bytes(policy.read_bytes()[:-5])
    assert main(["export", str(damaged), "--to", "c"]) == 3
    assert "truncated" in capsys.readouterr().err


def test_a_policy_is_shipped_with_its_card(policy: Path, tmp_path: Path) -> None:
    trained = artifact.load(policy)
    replace(trained, training={**trained.training, "out": str(tmp_path / "somewhere")}).save(policy)
    target = ship("tried", str(policy), tmp_path / "shipped")
    assert str(tmp_path).encode() not in target.read_bytes(), "it says nothing of the machine that it was trained on"
    text = target.with_suffix(".md").read_text()
    assert text == card(artifact.load(target), "tried")
    assert "| step | **hyvar** | 12.35 |" in text and "| seed | 7 |" in text
    assert "- Expectation (differs): step: 3; expected 5." in text
    unjudged = tmp_path / "unjudged.safetensors"
    made.continuous("hyvar", 0.2).save(unjudged)
    with pytest.raises(PolicyError, match="not evaluated"):
        ship("tried", str(unjudged), tmp_path / "shipped")
    judged = tmp_path / "eval" / run_folder.EVALUATION
    judged.parent.mkdir()
    judged.write_text(json.dumps({"means": {"b": {"hyvar": {}}, "a": {"reno": {}, "hyvar": {}}}}))
    target = ship("tried", str(unjudged), tmp_path / "shipped")
    assert target.with_suffix(".md").read_text() == card(artifact.load(target), "tried"), (
        "in whichever order it is held"
    )


def test_the_shipped_policies_are_there() -> None:
    assert "acct" in SHIPPED_POLICIES


@pytest.mark.parametrize("name", SHIPPED_POLICIES)
def test_shipped_policies_are_the_same_in_all_homes_and_have_their_card(name: str) -> None:
    file = shipped_policies()[name]
    assert file.with_suffix(".md").read_text() == card(artifact.load(file), name, further(name))
    figures = parity(file, 1024, duration_s=3.0)
    assert figures["problems"] == []


def test_shipped_policies_are_small() -> None:
    assert sum(path.stat().st_size for path in shipped_policies().values()) <= LARGEST
