"""Builds the native parts into the package; everything else is in pyproject.toml."""

from setuptools import setup
from setuptools_rust import Binding, RustExtension, Strip


def executable(name: str, optional: bool = False) -> RustExtension:
    """The program `name` of the crate of that name, as ccarena/_bin/NAME."""
    return RustExtension(
        {name: f"ccarena._bin.{name}"},
        path=f"crates/{name}/Cargo.toml",
        binding=Binding.Exec,
        args=["--profile", "extension"],
        strip=Strip.All,
        debug=False,
        optional=optional,
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
        # Compiles BPF programs; without clang and libelf the rest is whole, and `ccarena doctor` says what is missing.
        executable("ccarena-kernel", optional=True),
    ],
    # One wheel for every Python from 3.10 on, as PyO3's feature abi3-py310 promises.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
