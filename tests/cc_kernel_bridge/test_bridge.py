"""`ccarena kernel` and `cc_kernel_bridge.bridge`: what is asked of the program, and what its answers become."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_frames import Program

from ccarena import cli
from ccarena.cc_kernel_bridge import bridge
from ccarena.errors import ConfigError, MachineError, PolicyError, RunnerError

ATTACHED = {
    "attached": True,
    "names": ["ccarena", "wcc_ai"],
    "age_s": 2.5,
    "option": True,
    "sockets": 7,
    "driven": 5,
    "unreported": 3,
    "pins": "/run/x",
}
LOADED = {
    "name": "acct",
    "scheme": "acct",
    "spec": "d1",
    "policy": "runs/mine",
    "sha256": "5" * 64,
    "generation": 2,
    "before": None,
    "option": False,
    "fallback": "cubic",
    "shadow": False,
    "share": 1.0,
    "cgroup": 0,
    "to": None,
    "guard": 32,
    "age_s": 9.0,
    "sockets": 4,
    "periods": 70,
    "decisions": 60,
    "ns": 6000,
    "ns_most": 300,
    "beyond": 1,
    "outside": 3,
    "held": 2,
    "missed": 0,
    "handed_back": 0,
    "compared": 0,
    "agreed": 0,
    "cases": {},
    "zones": {},
}
SAYS = "heard.write(' '.join(sys.argv[1:]).encode() + b'\\n')\n"


def test_what_is_attached_is_told(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    heard = program(f"{SAYS}print({json.dumps(ATTACHED)!r})")
    found = bridge.Status(("ccarena", "wcc_ai"), 2.5, True, 7, 5, 3, Path("/run/x"))
    assert bridge.attach() == bridge.status() == found
    assert heard.read_text() == "status\n"
    assert (
        cli.main(["kernel", "attach", "--option", "/sys/x", "--no-wcc", "--unrestricted", "--sockets-per-user", "9"])
        == 0
    )
    assert heard.read_text() == "attach --option /sys/x --no-wcc --unrestricted --sockets-per-user 9\n"
    out = capsys.readouterr().out
    assert "ccarena, wcc_ai" in out and "option: on" in out
    with bridge.attached() as inside:
        assert inside == found and heard.read_text() == "attach\n"
    assert heard.read_text() == "detach\n"


@pytest.mark.parametrize("attached", [ATTACHED, {"attached": False}])
@pytest.mark.parametrize("loaded", [[], [LOADED]])
def test_the_status_is_of_congestion_controls_and_policies(
    program: Program, capsys: pytest.CaptureFixture[str], attached: dict[str, object], loaded: list[dict[str, object]]
) -> None:
    program(f"print({json.dumps(attached)!r} if sys.argv[1] == 'status' else {json.dumps(loaded)!r})")
    assert (bridge.status() is None) == (not attached["attached"])
    assert cli.main(["kernel", "status"]) == 0
    out = capsys.readouterr().out
    assert ("nothing" in out) == (not attached["attached"])
    assert ("ccarena, wcc_ai" in out) == bool(attached["attached"])
    assert ("no policy is loaded" in out) == (not attached["attached"] and not loaded)
    line = "acct: policy runs/mine, number 2, 555555555555; all connections; loaded for 9 s; 4 sockets, 60 decisions"
    assert (line in out) == bool(loaded)
    assert cli.main(["kernel", "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [policy["name"] for policy in told.pop("policies")] == [policy["name"] for policy in loaded]
    assert told == attached


def test_the_context_detaches_when_its_block_fails(program: Program) -> None:
    heard = program(f"{SAYS}print({json.dumps(ATTACHED)!r})")
    with pytest.raises(ZeroDivisionError), bridge.attached():
        _ = 1 / 0
    assert heard.read_text() == "detach\n"


def test_weights_are_of_a_socket_a_mark_a_cgroup_or_all(program: Program, tmp_path: Path) -> None:
    heard = program(SAYS)
    bridge.set_weight(2.5)
    assert heard.read_text() == "weight 2.5\n"
    bridge.set_weight(None, mark=7)
    assert heard.read_text() == "weight none --mark 7\n"
    (tmp_path / "cgroup.controllers").touch()
    bridge.set_weight(1, cgroup=tmp_path)
    assert heard.read_text() == f"weight 1.0 --cgroup {tmp_path.stat().st_ino}\n"
    with socket.socket() as one, socket.socket() as other:
        bridge.set_weight(1, of=one)
        first = heard.read_text()
        bridge.set_weight(1, of=other)
        assert first.startswith("weight 1.0 --cookie ") and first != heard.read_text()
        with pytest.raises(ConfigError, match="at most one"):
            bridge.set_weight(1, of=one, mark=3)
    for weight in (0.0, -1.0, 1000.1, float("nan")):
        with pytest.raises(ConfigError, match="above 0"):
            bridge.set_weight(weight)
    for none in (tmp_path / "absent", tmp_path / "cgroup.controllers", tmp_path.parent):
        with pytest.raises(ConfigError, match="is no folder of a cgroup2 file system"):
            bridge.set_weight(1, cgroup=none)
    assert cli.main(["kernel", "weight", "none", "--mark", "9"]) == 0
    assert heard.read_text() == "weight none --mark 9\n"
    assert cli.main(["kernel", "weight", "heavy"]) == ConfigError.exit_code


def test_loading_and_detaching_say_so(
    program: Program, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(f"import time; time.sleep(1.3); print(json.dumps({LOADED!r}))")
    monkeypatch.setattr("ccarena.core.terminal.EVERY_S", 0.5)
    assert cli.main(["kernel", "load", "acct"]) == 0
    assert capsys.readouterr().err.startswith("the kernel verifies the program, 1 s")
    assert cli.main(["kernel", "detach"]) == 0
    assert capsys.readouterr().out.startswith("detached: ")


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (
            "sys.exit('ccarena-kernel: loading takes root; run it with sudo\\nverifier log')",
            MachineError,
            "^loading takes root; run it with sudo$",
        ),
        ("sys.exit(9)", MachineError, "code 9"),
        ("print('ccarena-kernel: what?', file=sys.stderr); sys.exit(2)", ConfigError, "what"),
        ("print('attached')", RunnerError, "not understood: 'attached"),
        ("print('{\"attached\": true}')", RunnerError, "not understood"),
        ("print('[]')", RunnerError, "not understood"),
    ],
)
def test_what_goes_wrong_is_said_in_a_line(program: Program, code: str, error: type[Exception], message: str) -> None:
    program(code)
    with pytest.raises(error, match=message):
        bridge.attach()


def test_attaching_nothing_is_no_success(program: Program) -> None:
    program("print('{\"attached\": false}')")
    with pytest.raises(RunnerError, match="attached nothing"):
        bridge.attach()


def test_the_bridge_daemon_takes_the_command_s_place(program: Program, tmp_path: Path) -> None:
    pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the daemon's command was not tested")
    heard = program(f"{SAYS}sys.exit(7)")
    words = ["kernel", "daemon", "acct", "--action", "3", "--param", "budget_ms=4", "--desired-mbps", "20"]
    done = subprocess.run([sys.executable, "-m", "ccarena.cli", *words], check=False)
    assert done.returncode == 7
    assert heard.read_text() == "daemon --scheme acct --param budget_ms=4 --action 3.0 --desired-mbps 20.0\n"
    golden = Path(__file__).parents[2] / "crates" / "ccarena-cc" / "tests" / "data" / "golden.safetensors"
    subprocess.run([sys.executable, "-m", "ccarena.cli", "kernel", "daemon", str(golden)], check=False)
    assert heard.read_text().startswith(f"daemon --policy {golden}")


def test_a_bridge_daemon_of_an_unknown_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the daemon's command was not tested")
    assert cli.main(["kernel", "daemon", "cubik"]) == PolicyError.exit_code
    assert 'did you mean "cubic"' in capsys.readouterr().err
