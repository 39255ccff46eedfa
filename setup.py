"""Builds the native parts into the package; everything else is in pyproject.toml."""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools_rust import Binding, RustExtension, Strip

PROGRAMS = ("ccarena-link", "ccarena-quic", "ccarena-kernel")


def programs() -> list[RustExtension]:
    """Returns the PROGRAMS that can be built here; without the others, the rest is whole."""
    can_be_built, packages = ask("programs").split(), ask("kernel")
    for name in PROGRAMS:
        if name not in can_be_built:
            why = f"packages are missing: {packages}" if packages else "it needs Linux"
            print(f"The program {name} is not built, because {why}")
    return [executable(name) for name in can_be_built]


def ask(what: str) -> str:
    """Returns the answer of ccarena/prerequisites.sh about this machine."""
    script = Path(__file__).with_name("ccarena") / "prerequisites.sh"
    return subprocess.run(["sh", script, what], check=True, capture_output=True, text=True).stdout.strip()


def executable(name: str) -> RustExtension:
    """The program `name` of the crate of that name, as ccarena/_bin/NAME."""
    return RustExtension(
        {name: f"ccarena._bin.{name}"},
        path=f"crates/{name}/Cargo.toml",
        binding=Binding.Exec,
        args=["--profile", "extension"],
        strip=Strip.All,
        debug=False,
    )


setup(
    rust_extensions=[
        RustExtension(
            "ccarena._core",
            path="crates/ccarena-py/Cargo.toml",
            binding=Binding.PyO3,
            args=["--profile", "extension"],
            py_limited_api=True,
            debug=False,
        ),
        *programs(),
    ],
    # One wheel for every Python from 3.10 on, as PyO3's feature abi3-py310 promises.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
