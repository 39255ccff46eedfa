"""The generated links, through the native extension. Their fit is tested beside the models, in Rust."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.traces import all_presets, describe, generate, presets

if importlib.util.find_spec("ccarena._core") is None:
    NAMES: list[str] = []
else:
    NAMES = [preset["name"] for preset in all_presets()]


@pytest.fixture
def native() -> None:
    if not NAMES:
        pytest.skip("NATIVE EXTENSION ABSENT, generated links not checked: make setup")


@pytest.mark.usefixtures("native")
def test_every_preset_repeats_and_has_its_mean() -> None:
    for name in NAMES:
        times = generate(name, 60, 7)
        assert times.dtype == np.uint32
        assert np.array_equal(times, generate(name, 60, 7))
        assert not np.array_equal(times, generate(name, 60, 8))
        long = describe(generate(name, 3000, 1), name)
        preset = next(preset for preset in all_presets() if preset["name"] == name)
        assert long.mean_mbps == pytest.approx(preset["mean_mbps"], rel=0.2)
        assert describe(generate(name, 3000, 1, 20.0), name).mean_mbps == pytest.approx(20, rel=0.2)


@pytest.mark.usefixtures("native")
def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        generate("lte-drivng", 10, 1)
    for duration_s in (0, -1, float("nan"), 1e6):
        with pytest.raises(ConfigError, match="duration_s"):
            generate("sprout", duration_s, 1)
    for seed in (-1, 2**64):
        with pytest.raises(ConfigError, match="seed"):
            generate("sprout", 10, seed)
    for mean_mbps in (0, -1, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="mean_mbps"):
            generate("sprout", 10, 1, mean_mbps)


def test_without_the_extension_the_message_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(presets.importlib, "import_module", absent)
    with pytest.raises(MissingDependencyError, match=r"native extension.*build it: (make|pip install)"):
        generate("sprout", 10, 1)
