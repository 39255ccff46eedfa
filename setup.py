"""Builds the native extension into the package; everything else is in pyproject.toml."""

from setuptools import setup
from setuptools_rust import Binding, RustExtension

setup(
    rust_extensions=[
        RustExtension(
            "ccarena._core",
            path="crates/ccarena-py/Cargo.toml",
            binding=Binding.PyO3,
            args=["--profile", "extension"],
            py_limited_api=True,
            debug=False,
        )
    ],
    # One wheel for every Python from 3.10 on, as PyO3's feature abi3-py310 promises.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
