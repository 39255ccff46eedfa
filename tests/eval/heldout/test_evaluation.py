"""The record of an evaluation and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.errors import ConfigError
from ccarena.eval.heldout.evaluation import Evaluation


def test_an_evaluation_survives_its_file(evaluated: Evaluation, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    evaluated.save(path)
    assert vars(Evaluation.load(path)) == vars(evaluated)
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]
    path.write_text("[]")
    with pytest.raises(ConfigError, match="not an evaluation"):
        Evaluation.load(path)
    with pytest.raises(ConfigError, match="cannot read"):
        Evaluation.load(tmp_path / "absent.json")
