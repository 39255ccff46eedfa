"""What is said before anything is built, on machines that lack something. Each is this one with another PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "ccarena" / "prerequisites.sh"

# What the script itself uses, and python3.
ALWAYS = (
    "sh",
    "uname",
    "df",
    "awk",
    "head",
    "id",
    "echo",
    "cc",
    "as",
    "ld",
    "make",
    "pkg-config",
    "cargo",
    "ip",
    "iperf3",
    "nft",
)


@pytest.fixture
def machine(tmp_path: Path):
    """Runs the script with `words` where PATH has all that it needs but `without`."""

    def run(*words: str, without: tuple[str, ...] = (), **variables: str) -> subprocess.CompletedProcess[str]:
        tools = tmp_path / "bin"
        shutil.rmtree(tools, ignore_errors=True)
        tools.mkdir()
        for name in (*ALWAYS, "clang", "ar"):
            if name not in without and (path := shutil.which(name)):
                (tools / name).symlink_to(path)
        if "python3" not in without:
            (tools / "python3").symlink_to(sys.executable)
        environment = {"PATH": str(tools), "HOME": os.environ.get("HOME", "/"), **variables}
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), *words], capture_output=True, text=True, cwd=tmp_path, env=environment
        )

    return run


def test_packages_of_the_kernel_bridge_are_those_that_are_missing(machine) -> None:
    here = subprocess.run(["sh", SCRIPT, "kernel"], capture_output=True, text=True, check=True).stdout.split()
    assert machine("kernel", without=("clang",)).stdout.split() == ["clang", *(p for p in here if p != "clang")]
    missing = machine("kernel", without=("clang", "pkg-config"))
    assert missing.returncode == 0 and missing.stdout.split()[:1] + missing.stdout.split()[-1:] == [
        "clang",
        "pkg-config",
    ]


def test_a_compiler_that_knows_no_bpf_is_none(machine) -> None:
    assert machine("kernel", CLANG=shutil.which("cc") or "cc").stdout.startswith("clang")


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ("python3", 'there is no Python interpreter "python3"; Python 3.10 or newer is needed'),
        ("cc", "no C compiler (cc) on PATH"),
        ("cargo", "no Rust toolchain (cargo) on PATH"),
    ],
)
def test_without_a_tool_nothing_is_begun(machine, without: str, says: str) -> None:
    done = machine("check", without=(without,), ROOM_GB="0")
    assert done.returncode == 1 and done.stderr.startswith(f"error: {says}"), done.stderr


def test_a_wrong_python_is_refused(machine, tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 2.7.18 && exit\nexit 1\n')
    old.chmod(0o755)
    done = machine("check", PYTHON=str(old), ROOM_GB="0")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {old} is Python 2.7.18; Python 3.10 or newer is needed: name another, make PYTHON=python3.12\n"
    )


def test_an_environment_of_another_python_is_not_used(machine, tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    there = tmp_path / ".venv" / "bin" / "python"
    there.write_text("#!/bin/sh\necho 3.99\n")
    there.chmod(0o755)
    assert machine("check", ROOM_GB="0").returncode == 0
    done = machine("check", PYTHON=sys.executable, ROOM_GB="0")
    assert done.returncode == 1 and "but .venv was made with 3.99; to make it anew: rm -rf .venv" in done.stderr


def test_a_full_disk_is_noticed_before_anything_is_built(machine) -> None:
    done = machine("check", ROOM_GB="1000000")
    assert done.returncode == 1
    assert " GB of disk are free in" in done.stderr and "needs about 1000000 GB: make room" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ROOM_GB", "abc", "error: ROOM_GB=abc: expected how many GB of free disk are enough"),
        ("ROOM_GB", "1.2.3", "error: ROOM_GB=1.2.3: expected"),
        (
            "EXTRAS",
            "ray,nonsense",
            'error: EXTRAS=ray,nonsense: there is no extra "nonsense"; expected some of: frames ',
        ),
    ],
)
def test_a_variable_that_is_wrong_starts_nothing(machine, name: str, value: str, says: str) -> None:
    done = machine("check", **{"ROOM_GB": "0", name: value})
    assert done.returncode == 1 and done.stderr.startswith(says), done.stderr
    assert machine("check", ROOM_GB="0", EXTRAS="ray,onnx test-cluster").returncode == 0


def test_without_the_kernel_bridge_s_packages_the_rest_is_built_and_it_is_said(machine) -> None:
    done = machine("check", without=("clang",), ROOM_GB="0")
    assert done.returncode == 0
    assert done.stderr.startswith("note: the kernel bridge is left out (all else is built); it needs: clang")
    assert "make prerequisites" in done.stderr


def test_installing_without_apt_or_a_terminal_prints_the_command(machine) -> None:
    done = machine("install", without=("clang",))
    assert done.returncode == 0, "without them all else works"
    assert "clang" in done.stdout and "to build the kernel bridge" in done.stdout
    assert "sudo apt-get install clang" in done.stdout
    done = machine("install", without=("cc",))
    assert done.returncode == 1 and "build-essential: to build ccarena at all" in done.stdout


@pytest.fixture
def macos(tmp_path: Path) -> dict[str, str]:
    """Returns the environment of a machine whose `uname` says Darwin."""
    tools = tmp_path / "macos"
    tools.mkdir()
    (tools / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tools / "uname").chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "ROOM_GB": "0"}


def test_outside_linux_the_programs_are_left_out_and_it_is_said(macos: dict[str, str]) -> None:
    def script(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", SCRIPT, *words], capture_output=True, text=True, env=macos, check=True)

    assert script("programs").stdout == script("kernel").stdout == ""
    assert "they need Linux" in script("check").stderr
    assert "packages" in script("install", "kernel", "tests").stdout


def test_outside_linux_make_leaves_their_crates_out(macos: dict[str, str]) -> None:
    words = ["make", "--dry-run", "--always-make", "test"]
    planned = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=macos, check=True).stdout
    tests = next(line for line in planned.splitlines() if line.startswith("cargo test"))
    assert [word for word in tests.split() if word.startswith("ccarena-")] == [
        "ccarena-link",
        "ccarena-quic",
        "ccarena-kernel",
    ]


def test_what_the_simulator_for_web_pages_lacks_is_named_with_the_command(machine) -> None:
    lacking = machine("web", without=("cargo",)).stdout
    assert "Rust's library for WebAssembly: " in lacking and "rust-web-src lld" in lacking
    assert lacking.rstrip().endswith(("apt-get install nodejs npm",)), lacking
