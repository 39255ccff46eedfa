"""The doctor is right about this machine, also when something is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.commands import doctor
from ccarena.extras import how_to_add


def by_name() -> dict[str, doctor.Finding]:
    return {f.capability: f for f in doctor.examine()}


def with_core(monkeypatch: pytest.MonkeyPatch, simulate) -> None:
    core = types.ModuleType("ccarena._core")
    core.simulate = simulate
    monkeypatch.setitem(sys.modules, "ccarena._core", core)


def test_exit_code_is_the_simulator_s(monkeypatch, capsys) -> None:
    with_core(
        monkeypatch, lambda scenario: {"flows": [{"delivered_bytes": json.loads(scenario)["duration_s"] * 10**6}]}
    )
    assert cli.main(["doctor"]) == 0
    assert "delivered 1.00 MB" in capsys.readouterr().out


def test_a_broken_simulator_is_reported_not_raised(monkeypatch, capsys) -> None:
    def fails(scenario: str) -> None:
        raise RuntimeError("worn out")

    with_core(monkeypatch, fails)
    assert cli.main(["doctor", "--json"]) == 1
    first = json.loads(capsys.readouterr().out)[0]
    assert first["state"] == "missing"
    assert "worn out" in first["found"]
    assert how_to_add() in first["advice"]


def test_no_native_extension(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ccarena._core", None)  # makes its import fail
    finding = doctor.simulator()
    assert finding.state == "missing"
    assert "does not load" in finding.found


def test_json_and_table_have_every_capability(capsys) -> None:
    cli.main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    cli.main(["doctor"])
    table = capsys.readouterr().out
    assert len(findings) == 15
    for finding in findings:
        assert set(finding) == {"capability", "state", "found", "advice"}
        assert finding["state"] in ("ok", "limited", "missing")
        assert finding["capability"] in table
        assert finding["advice"] or finding["state"] != "missing", "what is missing comes with a way to get it"


def kernel_says(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> doctor.Finding:
    """What the doctor finds where `ccarena-kernel` is this program."""
    program = folder / "ccarena-kernel"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("CCARENA_BIN_DIR", str(folder))
    return doctor.kernel_bridge()


@pytest.mark.linux
def test_quic_stacks_and_pages_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ccarena-quic"
    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    monkeypatch.setenv("CCARENA_STACKS_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.quic().state == "missing" and "make" in doctor.quic().advice
    for code, state in (("exit 0", "ok"), ("exit 3", "missing")):
        program.write_text(f"#!/bin/sh\n{code}\n")
        program.chmod(0o755)
        assert doctor.quic().state == state
    assert "ccarena stacks get" in doctor.stacks().advice and doctor.stacks().found.startswith("0 of ")
    monkeypatch.setattr("ccarena.play.page.PAGE", "none.html")
    assert doctor.browser_simulator().state == "missing" and "make web" in doctor.browser_simulator().advice


@pytest.mark.linux
def test_what_the_kernel_bridge_lacks_is_what_its_program_says(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_no_tun", lambda: [])
    fine = {"name": "BTF", "ok": True, "problem": None}
    old = {"name": "version", "ok": False, "problem": "kernel 5.15 is too old; boot 6.10 or newer"}
    finding = kernel_says(tmp_path, monkeypatch, f"print({json.dumps([fine, old])!r})")
    assert (finding.state, finding.found, finding.advice) == (
        "missing",
        "kernel 5.15 is too old",
        "boot 6.10 or newer",
    )
    assert kernel_says(tmp_path, monkeypatch, f"print({json.dumps([fine])!r})").state == "ok"
    for broken in ("print('{')", "print('[1]')", "import sys; sys.exit(1)"):
        finding = kernel_says(tmp_path, monkeypatch, broken)
        assert finding.state == "missing" and "ccarena-kernel fails" in finding.found and "make setup" in finding.advice


@pytest.mark.linux
def test_a_machine_without_programs_or_tun(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    monkeypatch.setattr(doctor, "_no_tun", lambda: [("no /dev/net/tun", "modprobe tun")])
    monkeypatch.setattr(doctor, "_capable", lambda name: False)
    monkeypatch.setattr(doctor, "_user_namespaces", lambda: False)
    findings = by_name()
    for name, program in (("kernel bridge", "ccarena-kernel"), ("emulator", "ccarena-link")):
        assert findings[name].state == "missing" and program in findings[name].found
        assert "make setup" in findings[name].advice
    assert "no /dev/net/tun" in findings["emulator"].found and "root" in findings["emulator"].advice


@pytest.mark.linux
def test_advice_for_a_kernel_bridge_that_is_not_built(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    monkeypatch.setattr(doctor, "_no_tun", lambda: [])
    monkeypatch.setattr(doctor.programs, "lacking_packages", lambda: "clang libelf-dev")
    finding = doctor.kernel_bridge()
    assert (finding.state, finding.advice) == ("missing", "apt install clang libelf-dev, then `make setup` builds it")
    assert "clang" not in doctor.emulator().advice, "which is built without them"
    monkeypatch.setattr(doctor.programs, "lacking_packages", lambda: "")
    assert doctor.kernel_bridge().advice == "`make setup` builds it"


def test_missing_packages_say_which_extra(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None)
    findings = by_name()
    assert findings["training"].state == "missing"
    assert findings["training"].advice == findings["GPU"].advice == how_to_add("train")
    assert findings["Ray"].advice == how_to_add("ray")
    assert findings["GPU"].state == "missing"


def test_packages_without_bytecode_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0")
    finding = doctor.training()
    assert finding.state == "limited" and f"compileall -q -j0 {tmp_path}" in finding.advice
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert doctor.training().state == "ok"


def test_what_keeps_every_process_of_ray_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0")
    assert doctor.ray().state == "limited" and "uninstall rfc3987-syntax" in doctor.ray().advice
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == "ray" else None)
    assert doctor.ray().state == "ok"


def test_traces_are_counted(monkeypatch, tmp_path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "good.down").write_text("1\n2\n")
    (tmp_path / "set" / "README").write_text("not a trace\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    finding = doctor.public_traces()
    assert (finding.state, finding.found.split()[0]) == ("ok", "1")
    monkeypatch.delenv("CCARENA_TRACE_DIR")
    assert doctor.public_traces().state == "missing"
    assert "ccarena traces fetch" in doctor.public_traces().advice


def test_advice_with_brackets_is_printed_as_it_is(monkeypatch, capsys) -> None:
    doctor._print([doctor.Finding("x", "missing", "[bold]", 'pip install -e ".[train]"')])
    out = capsys.readouterr().out
    assert '".[train]"' in out
    assert "[bold]" in out


ROOT = Path(__file__).parents[2]
PREREQUISITES = (ROOT / "ccarena" / "prerequisites.sh").read_text("utf-8")
DEBIAN = set(" ".join(re.findall(r'missing="\$missing ([a-z0-9 .-]+)"', PREREQUISITES)).split())
"""Debian packages that `make prerequisites` installs, so that they are known to exist."""
PYTHON = {"rfc3987-syntax", *re.findall(r'"([a-z][a-z0-9-]*)[^"]*>=', (ROOT / "pyproject.toml").read_text("utf-8"))}
"""Python packages that ccarena is installed with, and the one that the doctor wants away."""


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that lacks all that can be missing."""
    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    monkeypatch.setattr(doctor, "_capable", lambda name: False)
    monkeypatch.setattr(doctor, "_user_namespaces", lambda: False)
    monkeypatch.setattr(doctor, "_no_tun", lambda: [("no /dev/net/tun", "modprobe tun")])
    monkeypatch.setattr(doctor.programs, "lacking_packages", lambda: "clang libelf-dev zlib1g-dev make pkg-config")
    monkeypatch.setattr("ccarena.pages.browser.find_browser", lambda: None)


def advised(findings: list[doctor.Finding], tool: str) -> set[str]:
    """The packages that the advice names for a tool."""
    text = "\n".join(finding.advice for finding in findings)
    return {
        word
        for words in re.findall(rf"{tool} (?:un)?install ([a-z0-9 .-]+)", text)
        for word in words.split()
        if not word.startswith("-")
    }


@pytest.mark.linux
def test_only_packages_that_exist_are_advised(bare_machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = doctor.examine()
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0+cpu")
    monkeypatch.setattr(doctor, "_gpus", lambda: ["a GPU"])
    findings += doctor.examine()
    assert {"clang", "chromium"} <= advised(findings, "apt") <= DEBIAN
    assert {"torch", "rfc3987-syntax"} <= advised(findings, "pip") <= PYTHON


def test_a_bare_machine_gets_a_page_of_80_columns_and_a_next_step(bare_machine: None, capsys) -> None:
    cli.main(["doctor"])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "".join(f"next: {how_to_add('train')}".split()) in "".join(out.split())


def test_what_hangs_does_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(doctor, "DEADLINE_S", 2.0)
    monkeypatch.setitem(doctor.CHECKS, "mahimahi", lambda: over.wait(60) and doctor.mahimahi())
    begun_s = time.monotonic()
    findings = by_name()
    over.set()
    assert time.monotonic() - begun_s < 20
    assert (findings["mahimahi"].state, findings["mahimahi"].found) == ("limited", "not known after 2 s")
    assert list(findings) == list(doctor.CHECKS) and findings["cores"].state == "ok"


def test_torch_is_not_imported() -> None:
    script = (
        "import sys; from ccarena.commands import doctor; doctor.gpu(); doctor.training(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
