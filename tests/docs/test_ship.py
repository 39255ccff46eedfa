"""The page on WebAssembly modules: its commands run, its example builds, its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ccarena.cli import main
from ccarena.controllers.build import build
from ccarena.controllers.modules import LARGEST_BYTES
from ccarena.controllers.new import HEADER
from ccarena.scenarios.entrants import parse
from tests.controllers.made import needs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ship-a-controller.md").read_text("utf-8")
BOUNDS = ("ccarena-cc/src/bounded.rs", "ccarena-wasm/src/limits.rs")
LIMITS = "".join((ROOT / "crates" / name).read_text("utf-8") for name in BOUNDS)


@needs("C")
def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    block = re.search(r"^```sh\n(.*?)^```$", PAGE, flags=re.S | re.M)
    assert block is not None
    ran = []
    for line in block[1].splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "cd":
            monkeypatch.chdir(words[0])
            continue
        less = ["--duration-s", "1", "--seeds", "1"] if words[0] == "compete" else []
        assert main([*words, *less]) == 0, line
        ran.append(words[0])
    assert ran == ["new", "build", "check", "compete"]
    assert "FAULT" not in capsys.readouterr().out


@needs("C")
def test_its_example_is_a_module_with_a_parameter(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```c\n(.*?)^```$", PAGE, flags=re.S | re.M)
    (tmp_path / "constant.c").write_text(code)
    module = build(tmp_path / "constant.c").module
    assert parse(f"{module}@packets=50").flow["params"] == {"packets": 50}


def test_its_tables_have_every_function_field_and_flag() -> None:
    header = HEADER.read_text("utf-8")
    functions = set(re.findall(r'CC_EXPORT\("(\w+)"\)', header)) | {"cc_random"}
    fields = re.findall(r"^  (?:u?int\d+_t|double) (\w+)(?:\[\d+\])?;", header, flags=re.M)
    flags = re.findall(r"^#define (CC_\w+) \d+u ", header, flags=re.M) + re.findall(
        r"^  (CC_\w+) = \d", header, flags=re.M
    )
    assert len(functions) >= 13 and len(fields) >= 40 and len(flags) >= 12
    told = set(re.findall(r"\b\w+\b", PAGE))
    names = {*functions, *fields, *flags} - {"CC_ABI", "CC_PARAMS_MOST", "CC_SCRATCH_BYTES"}
    assert names - told - {"reserved", "abi", "initial", "least", "most"} == set()


def test_its_bounds_are_the_engines() -> None:
    assert (
        "MODULE_BYTES: u64 = 1 << 20" in LIMITS and LARGEST_BYTES == 1 << 20 and "| size of the file | 1 MiB |" in PAGE
    )
    assert "MEMORY_BYTES: usize = 16 << 20" in LIMITS and "| memory of a flow | 16 MiB |" in PAGE
    event, create = (re.search(rf"{name}_FUEL: u64 = ([\d_]+);", LIMITS) for name in ("EVENT", "CREATE"))
    assert event is not None and create is not None
    assert f"| instructions of one event | {int(event[1]):,} |" in PAGE
    assert f"| instructions of `cc_create` and of `cc_describe` | {int(create[1]):,} |" in PAGE
