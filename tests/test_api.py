"""`import ccarena`: light, complete, and what the page on it promises."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: ccarena's interface not tested (run make)")

import ccarena


def test_importing_loads_nothing_heavy() -> None:
    heavy = {"ccarena._core", "matplotlib", "pandas", "plotly", "polars", "ray", "rich", "stable_baselines3", "torch"}
    code = f"import ccarena, sys; dir(ccarena); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_is_there_documented_and_typed() -> None:
    assert dir(ccarena) == sorted(ccarena.__all__) and {"run", "train", "evaluate", "compete"} <= set(dir(ccarena))
    for name in set(ccarena.__all__) - {"__version__"}:
        value = getattr(ccarena, name)
        assert inspect.getdoc(value), name
        if inspect.isfunction(value):
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty, name
            assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values()), name
    with pytest.raises(AttributeError, match="has no attribute 'rum'"):
        ccarena.rum  # noqa: B018
