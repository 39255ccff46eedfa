"""What runs a scenario."""

from __future__ import annotations

import sys

import pytest

from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.scenarios import backends


def test_without_the_simulator_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccarena._core", None)
    with pytest.raises(MissingDependencyError, match="native extension"):
        backends.simulate({})


def test_what_is_recorded_of_a_backend() -> None:
    assert backends.about("sim") == {"backend": "sim"}
    assert backends.about("kernel")["kernel"] and backends.about("quic")["kernel"]
    with pytest.raises(ConfigError, match='did you mean "kernel"'):
        backends.about("kernle")
    assert backends.validity({}) == {}
