"""The C ABI from C, C++ and Go: examples compile without a warning, run under sanitizers and fill their link."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ccarena import __version__
from ccarena.controllers import library as in_package
from ccarena.controllers.library import PACKAGED
from ccarena.errors import MachineError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/library"
HEADERS = ROOT / "ccarena/controllers"
PAGE = (ROOT / "docs/library.md").read_text()
POLICY = ROOT / "ccarena/hyvar/policies/hyvar.safetensors"
FLAGS = ["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SYSTEM = ["-lpthread", "-ldl", "-lm"]


@pytest.fixture(scope="module")
def library() -> Path:
    """Returns the folder of libccarena: cargo builds it for the tests of the crate, too."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "checked/deps"
    if not all((folder / name).exists() for name in ("libccarena.a", "libccarena.so")):
        pytest.skip("libccarena is not built; cargo test -p ccarena-ffi --profile checked --no-run builds it")
    return folder


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(command: list[str | Path], **environment: str) -> str:
    """Runs `command`, and returns what it printed."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


OPERATED = ("in the shadow of cubic", "guarded by cubic")


def check(said: str, *names: str) -> None:
    """Checks that each flow has filled the link of 20 Mbit/s, and who moved its window."""
    names = (*names, *OPERATED)
    roles = dict(re.findall(r"^(.*): .*, role (-?\d)$", said, flags=re.M))
    assert roles == dict.fromkeys(names, "-1") | {"in the shadow of cubic": "1", "guarded by cubic": "0"}
    rates = dict(re.findall(r"^(.*): ([\d.]+) Mbit/s, ", said, flags=re.M))
    assert list(rates) == list(names)
    for name, mbps in rates.items():
        assert 16.0 < float(mbps) <= 20.0, f"{name}: {mbps} Mbit/s"


def test_c_by_the_static_library(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "host"
    linked = [library / "libccarena.a", *SYSTEM]
    run([compiler("cc"), "-std=c99", *FLAGS, "-I", HEADERS, EXAMPLES / "host.c", *linked, "-o", program])
    check(run([program, POLICY]), "cubic", "cubic, no HyStart", str(POLICY))
    wrong = subprocess.run([program, HEADERS / "ccarena.h"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "artifact: " in wrong.stdout


def test_cpp_by_the_shared_library(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "host"
    linked = ["-L", library, "-lccarena", f"-Wl,-rpath,{library}"]
    run([compiler("c++"), "-std=c++17", *FLAGS, "-I", HEADERS, EXAMPLES / "host.cpp", *linked, "-o", program])
    check(run([program, POLICY]), "bbr", str(POLICY))


def test_go_by_cgo(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "host"
    # The static library has a name of its own in a folder of its own, else the linker takes the shared one.
    (tmp_path / "libccarena.a").symlink_to(library / "libccarena.a")
    run(
        [compiler("go"), "build", "-C", EXAMPLES / "go", "-o", program],
        CGO_ENABLED="1",
        CGO_CFLAGS=f"-I{HEADERS} -I{EXAMPLES}",
        CGO_LDFLAGS=" ".join([f"-L{tmp_path}", "-lccarena", *SYSTEM]),
        GOFLAGS="-mod=mod",
    )
    check(run([program, POLICY]), "cubic", str(POLICY))


def test_the_pages_c_compiles_and_runs(library: Path, tmp_path: Path) -> None:
    code, operated = re.findall(r"^```c\n(.*?)^```$", PAGE, flags=re.S | re.M)
    source, program = tmp_path / "host.c", tmp_path / "host"
    given = "const ccarena_policy *policy, ccarena_facts facts"
    # The page's second piece stands in a host that has a policy and its facts.
    function = f"void operate({given}) {{\nccarena_flow *flow;\nchar why[300];\n{operated}}}\n"
    source.write_text(f"{code}\nvoid operate({given});\n{function}")
    linked = [library / "libccarena.a", *SYSTEM]
    run([compiler("cc"), "-std=c99", *FLAGS, "-I", HEADERS, source, *linked, "-o", program])
    assert run([program]) == "window 15928 bytes\n"


def test_c_by_the_library_of_the_package(tmp_path: Path) -> None:
    if not PACKAGED.is_dir():
        pytest.skip("THE LIBRARY OF THE WHEEL IS NOT TESTED: make library (or make wheel) puts it into the package")
    # The files find each other wherever they are.
    moved = tmp_path / "elsewhere"
    shutil.copytree(PACKAGED, moved)
    program, where = tmp_path / "host", {"PKG_CONFIG_PATH": str(moved / "lib/pkgconfig")}
    flags = run([compiler("pkg-config"), "--cflags", "--libs", "ccarena"], **where).split()
    run([compiler("cc"), "-Wall", "-Wextra", "-Werror", EXAMPLES / "host.c", *flags, "-o", program])
    check(run([program, POLICY]), "cubic", "cubic, no HyStart", str(POLICY))
    assert run([compiler("pkg-config"), "--modversion", "ccarena"], **where).strip() == __version__


def test_a_package_without_the_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_package, "PACKAGED", tmp_path)
    with pytest.raises(MachineError, match=f"libccarena is not at {tmp_path}; `make library` builds it"):
        in_package.pkg_config_path()
    pkgconfig = tmp_path / "lib" / "pkgconfig"
    pkgconfig.mkdir(parents=True)
    (pkgconfig / "ccarena.pc").touch()
    assert in_package.pkg_config_path() == pkgconfig


def test_without_policies_the_crate_depends_on_three_small_ones() -> None:
    command = [compiler("cargo"), "tree", "-p", "ccarena-cc", "--no-default-features", "-e", "normal", "--offline"]
    said = run([*command, "--depth", "1", "--prefix", "none", "--format", "{p}"])
    assert [line.split()[0] for line in said.splitlines()] == ["ccarena-cc", "libm", "strsim", "thiserror"]
