"""Builds the native parts into the package; everything else is in pyproject.toml."""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools_rust import Binding, RustExtension, Strip


def kernel_bridge() -> list[RustExtension]:
    """The program ccarena-kernel; without the packages that it is built with, the rest is whole."""
    probe = Path(__file__).with_name("ccarena") / "prerequisites.sh"
    lacking = subprocess.run(["sh", probe, "kernel"], check=True, capture_output=True, text=True).stdout.strip()
    if not lacking:
        return [executable("ccarena-kernel")]
    print(f"The kernel bridge is not built, because packages are missing: {lacking}")
    return []


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
        executable("ccarena-link"),
        executable("ccarena-quic"),
        *kernel_bridge(),
    ],
    # One wheel for every Python from 3.10 on, as PyO3's feature abi3-py310 promises.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
