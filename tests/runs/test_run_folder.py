"""The files of a training run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.errors import ConfigError
from ccarena.runs.run_folder import read_progress


def test_progress_leaves_out_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert read_progress(path) == []
    path.write_text('{"decisions": 1}\n{"decisions": 2}\n{"deci')
    assert [line["decisions"] for line in read_progress(path)] == [1, 2]
    path.write_text('{"decisions": 1}\nnot json\n{"decisions": 2}\n')
    with pytest.raises(ConfigError, match=r"progress\.jsonl:2"):
        read_progress(path)
