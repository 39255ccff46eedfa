"""Folders of new controllers: they build and run at once, in each language the same."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ccarena.cli import main
from ccarena.controllers.build import build
from ccarena.controllers.new import HEADER, LANGUAGES, TEMPLATES, new_controller
from ccarena.errors import ConfigError
from ccarena.eval.soundness.check import CASES
from ccarena.scenarios.backends import simulate
from ccarena.scenarios.entrants import parse
from tests.controllers.made import LACKS, needs

LESS = {"compete": ("--seeds", "1", "--duration-s", "1")}
"""What a command is given besides, so that it takes little time."""
BY_LANGUAGE = [
    pytest.param("python"),
    pytest.param("c", marks=needs("C")),
    pytest.param("rust", marks=needs("Rust")),
]


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_the_commands_that_are_named_run(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    assert main(["new", "controller", "My-Own", "--lang", language]) == 0
    said = capsys.readouterr().out
    first, *commands = [line.strip() for line in said.splitlines()[1:]]
    assert first == "cd My-Own"
    assert len(commands) == 3
    assert commands == re.findall("^ccarena .*", Path("My-Own", "README.md").read_text(), flags=re.M)
    monkeypatch.chdir(tmp_path / "My-Own")
    for command in commands:
        words = shlex.split(command)[1:]
        assert main([*words, *LESS.get(words[0], ())]) == 0, command
    assert main(["eval", "--scenario", "scenario.yaml"]) == 0
    assert "FAULT" not in capsys.readouterr().out


@needs("C")
@needs("Rust")
def test_the_same_controller_in_each_language_sends_the_same_packets(tmp_path: Path) -> None:
    flows = {}
    for language in LANGUAGES:
        made = new_controller("my-own", language, tmp_path / language)
        if language == "python":
            flows[language] = parse(f"{made.folder}/my_own.py:MyOwn@target_ms=7").flow
        else:
            flows[language] = parse(f"{build(made.folder).module}@target_ms=7").flow

    def packets(case: str, flow: dict[str, Any]) -> dict[str, Any]:
        first, *others = CASES[case]["flows"]
        document = {**CASES[case], "flows": [{**flow, **first}, *others], "record": {"transmissions": True}}
        return {name: values.tolist() for name, values in simulate(document)["flows"][0]["transmissions"].items()}

    for case in CASES:
        python, *others = (packets(case, flow) for flow in flows.values())
        assert all(len(values) > 100 for values in python.values())
        assert others == [python, python], case


def test_it_keeps_a_short_queue_and_its_share() -> None:
    """What the templates say of themselves."""
    template = f"{TEMPLATES}/python/my_cc.py:MyCc"
    link = {
        "service": {"type": "constant", "rate_mbps": 24},
        "delay_ms": 20,
        "queue": {"type": "droptail", "packets": 400},
    }
    alone = simulate({"duration_s": 20, "links": [link], "flows": [parse(f"{template}@target_ms=10").flow]})["flows"][0]
    assert alone["delivered_bytes"] * 8 / 20e6 > 0.85 * 24
    assert 40 < alone["rtt_mean_ms"] < 60


@pytest.mark.parametrize("name", ["", "9a", "a b", "a/b", "x" * 41, "é"])
def test_what_cannot_be_a_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 40 letters, digits"):
        new_controller(name, "rust", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_names_that_mean_something_in_the_language_are_refused(tmp_path: Path) -> None:
    for language, names in {"rust": ("std", "Self", "ack", "fn"), "python": ("true", "None", "class")}.items():
        for name in names:
            with pytest.raises(ConfigError, match=f"means something else in {language}"):
                new_controller(name, language, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert new_controller("std", "python", tmp_path / "new").files


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").write_text("mine")
    assert main(["new", "controller", "mine", "--into", str(tmp_path)]) == 2
    assert "is there already, and nothing was written; name another folder with --into" in capsys.readouterr().err
    assert main(["new", "controller", "mine", "--into", str(tmp_path / "kept")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    with pytest.raises(ConfigError, match='unknown language "zig"'):
        new_controller("mine", "zig", tmp_path / "new")


def test_a_new_controller_in_c_has_the_header(tmp_path: Path) -> None:
    made = new_controller("mine", "c", tmp_path / "mine")
    assert (made.folder / "ccarena.h").read_bytes() == HEADER.read_bytes()


# The interface in Rust against the header.


def structs() -> dict[str, list[str]]:
    """Fields of each struct of the header."""
    found = {}
    for body, name in re.findall(r"^typedef struct \{(.*?)^\} cc_(\w+);", HEADER.read_text(), flags=re.S | re.M):
        plain = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        found[name] = re.findall(r"(\w+)(?:\[\d+\])?;", plain)
    return found


@pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("rustc")), reason="NO COMPILERS: the interface was not compared"
)
def test_the_interface_in_rust_is_the_headers(tmp_path: Path) -> None:
    assert set(structs()) == {"param", "about", "config", "ack", "loss", "sent", "control"}
    constants = re.findall(r"^#define CC_([A-Z_]+) [\w+]+", HEADER.read_text(), flags=re.M)
    constants = [name for name in constants if name not in ("EXPORT", "PARAMS_MOST", "SCRATCH_BYTES")]
    constants += re.findall(r"^  CC_([A-Z]+) = \d", HEADER.read_text(), flags=re.M)
    assert {"ABI", "NEVER", "OPEN", "LOSS", "MARKED", "WINDOW_LIMITED"} <= set(constants)
    in_c = ['#include "ccarena.h"', "#include <stdio.h>", "#include <stddef.h>", "int main(void) {"]
    in_rust = [(TEMPLATES / "rust/src/ccarena.rs").read_text(), "use std::mem::{offset_of, size_of};", "fn main() {"]
    for name, fields in structs().items():
        in_c.append(f'printf("{name} %zu\\n", sizeof(cc_{name}));')
        in_rust.append(f'println!("{name} {{}}", size_of::<{name.capitalize()}>());')
        for field in fields:
            in_c.append(f'printf("{name}.{field} %zu\\n", offsetof(cc_{name}, {field}));')
            in_rust.append(f'println!("{name}.{field} {{}}", offset_of!({name.capitalize()}, {field}));')
    for name in constants:
        in_c.append(f'printf("{name} %llu\\n", (unsigned long long)CC_{name});')
        in_rust.append(f'println!("{name} {{}}", {name} as u64);')
    (tmp_path / "c.c").write_text("\n".join([*in_c, "}"]))
    # The host's function is not there, and not called.
    (tmp_path / "rust.rs").write_text(
        re.sub(r"//!.*", "", "\n".join([*in_rust, "}"])).replace("#![allow(dead_code)]", "")
    )

    def said(compiler: list[str], program: str) -> list[str]:
        subprocess.run([*compiler, "-o", program], cwd=tmp_path, check=True, capture_output=True)
        return subprocess.run([f"./{program}"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split(
            "\n"
        )

    c = said(["cc", "-I", str(HEADER.parent), "c.c"], "in_c")
    assert len(c) > 70
    assert said(["rustc", "--edition", "2021", "-A", "warnings", "-C", "opt-level=1", "rust.rs"], "in_rust") == c


@pytest.mark.skipif(not shutil.which("rustfmt"), reason="NO RUSTFMT: the template in Rust was not compared")
def test_the_template_in_rust_is_formatted(tmp_path: Path) -> None:
    made = new_controller("mine", "rust", tmp_path / "mine")
    done = subprocess.run(
        ["rustfmt", "--edition", "2021", "--check", "src/lib.rs"], cwd=made.folder, capture_output=True
    )
    assert done.stdout.decode() == ""
    assert done.returncode == 0


def test_no_language_is_left_out() -> None:
    assert sorted(path.name for path in TEMPLATES.iterdir() if path.name != "__pycache__") == sorted(LANGUAGES)
    assert set(LACKS) == {"C", "Rust"}
