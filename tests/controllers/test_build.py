"""`ccarena build`: what it takes, what it says of a compiler's errors, and that an old module is not lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ccarena.cli import main
from ccarena.controllers.build import build, tools
from ccarena.controllers.new import new_controller
from ccarena.errors import ConfigError, ControllerError, MachineError
from ccarena.scenarios.backends import simulate
from ccarena.scenarios.entrants import parse
from tests.controllers.made import needs, on_ack, source


@needs("C")
def test_it_says_what_the_module_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "constant.c"
    path.write_text(source())
    assert main(["build", str(path)]) == 0
    said = capsys.readouterr().out
    module = tmp_path / "constant.wasm"
    assert f"wrote {module}" in said
    assert "constant: Keeps a window." in said
    assert "Window. (packets)" in said
    assert said.endswith(f"next: ccarena check {module}\n")
    assert module.read_bytes()[:4] == b"\0asm"
    assert main(["build", str(path), "--out", str(tmp_path / "new" / "other.wasm")]) == 0
    assert "next:" not in capsys.readouterr().out
    assert (tmp_path / "new" / "other.wasm").read_bytes() == module.read_bytes()
    assert main(["build", str(path), "--out", str(tmp_path / "other.txt")]) == 2
    assert "expected NAME.wasm" in capsys.readouterr().err
    assert main(["schemes", str(module)]) == 0
    assert "constant: Keeps a window." in capsys.readouterr().out


OTHER = """
#include "ccarena.h"
double *other(void);
double *other(void) { return cc_new(sizeof(double)); }
"""


@needs("C")
def test_files_of_a_folder_become_one_module_with_one_memory(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    body = "*other() = 1e9; out->window_bytes = 20 * self->mss;"
    (folder / "one.c").write_text(source(body).replace("struct cc", "double *other(void);\nstruct cc", 1))
    (folder / "other.c").write_text(OTHER)
    built = build(folder)
    assert built.module == folder / "two.wasm"
    link = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20}
    flows = (parse(str(built.module)).flow, {"scheme": "fixed", "params": {"window": 20}})
    mine, theirs = (simulate({"duration_s": 1, "links": [link], "flows": [flow]})["flows"][0] for flow in flows)
    assert mine["delivered_bytes"] == theirs["delivered_bytes"] > 0


@needs("C")
def test_a_compilers_errors_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.c"
    path.write_text(source("int unused;"))
    assert main(["build", str(path)]) == 0
    assert "warning: unused variable 'unused'" in capsys.readouterr().err
    path.write_text(source() + "void cc_on_los(cc *self) { (void)self; }")
    assert main(["build", str(path)]) == 0
    assert "no previous prototype for function 'cc_on_los'" in capsys.readouterr().err
    path.write_text(source("int wrong"))
    assert main(["build", str(path)]) == 1
    said = capsys.readouterr().err
    assert f"error: {path} does not compile:" in said
    assert "wrong.c:" in said and "expected ';'" in said
    path.write_text(source("out->window_bytes = cbrt(8);").replace("struct cc", "double cbrt(double);\nstruct cc", 1))
    with pytest.raises(
        ControllerError, match=r"undefined symbol: cbrt(?s:.*)no C library, so cbrt has to be in your sources"
    ):
        build(path)


@needs("C")
def test_a_module_that_does_not_load_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.c"
    path.write_text(source())
    old = build(path).module.read_bytes()
    path.write_text(source().replace(on_ack(""), ""))
    with pytest.raises(ControllerError, match=r"mine\.wasm: .*cc_on_ack.*; it was compiled, but not written"):
        build(path)
    assert (tmp_path / "mine.wasm").read_bytes() == old
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine.c", "mine.wasm"]


@needs("Rust")
def test_a_crate_that_is_no_module_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    made = new_controller("mine", "rust", tmp_path / "mine")
    source = made.folder / "src" / "lib.rs"
    right = source.read_text()
    source.write_text(right.replace("LEAST: f64 = 2.0", "LEAST: f64 = 2"))
    with pytest.raises(ControllerError, match=r"does not compile:(?s:.*)mismatched types(?s:.*)src/lib\.rs:"):
        build(made.folder)
    source.write_text(right)
    manifest = made.folder / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace("cdylib", "rlib"))
    with pytest.raises(ControllerError, match=r"cargo made no module; expected `crate-type = \[\"cdylib\"\]`"):
        build(manifest)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("nowhere", None, "no such file or folder; expected a C file"),
        ("mine.py", "", "a Python class needs no build; try it with: ccarena check"),
        ("mine.zig", "", "docs/ship-a-controller.md says how to use other languages"),
        ("mine.wasm", "", "expected a C file"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=said):
        build(tmp_path / name)
    with pytest.raises(ConfigError, match="expected a C file, or a folder with C files"):
        build(tmp_path)


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLANG", raising=False)

    def with_programs(**programs: str) -> dict[str, str]:
        shutil.rmtree(tmp_path / "bin", ignore_errors=True)
        (tmp_path / "bin").mkdir()
        for name, script in programs.items():
            path = tmp_path / "bin" / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return tools()

    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert with_programs() == {
        "C": "modules in C are compiled by clang, and there is no clang on PATH; apt install clang lld",
        "Rust": "modules in Rust are compiled by cargo, which is not on PATH; install Rust: https://rustup.rs",
    }
    assert "cannot compile for wasm32; apt install clang lld" in with_programs(clang="echo x86-64")["C"]
    clang = 'echo "wasm32 clang version 19.1"'
    assert with_programs(clang=clang)["C"].startswith("modules in C are linked by wasm-ld, which is not on PATH")
    for linker in ("wasm_ld", "wasm_ld_19"):
        assert with_programs(clang=clang, **{linker: ""})["C"] == ""
    assert with_programs(cargo="", rustc="echo /nowhere")["Rust"].endswith("apt install libstd-rust-dev-wasm32")
    lacks = with_programs(cargo="", rustc="echo /nowhere", rustup="")["Rust"]
    assert (
        lacks == "Rust's library for wasm32-unknown-unknown is not installed; rustup target add wasm32-unknown-unknown"
    )
    (tmp_path / "mine.c").write_text("")
    with_programs()
    with pytest.raises(MachineError, match="there is no clang on PATH"):
        build(tmp_path / "mine.c")
    assert os.listdir(tmp_path) != []
