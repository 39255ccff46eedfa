"""Scenario files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.errors import ScenarioError
from ccarena.scenario import read_scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"links: [", r"one\.yaml:\d+: not YAML"),
        (b"", r"found nothing"),
        (b"- 1\n", r"found list"),
        (b"\xff\xfe\x00", r"not a text file"),
    ],
)
def test_a_broken_scenario_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_bytes(text)
    with pytest.raises(ScenarioError, match=message):
        read_scenario(path)
    with pytest.raises(ScenarioError, match="cannot read"):
        read_scenario(tmp_path / "absent.yaml")
