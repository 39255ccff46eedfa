"""The training run on the simulator: the same bytes on any number of threads and across an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ccarena.agents import train as training
from ccarena.policies.artifact import load
from tests.agents.test_train import configuration, stop_after

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training on it not tested (run make)")


def run(out: Path, resume: bool = False, threads: int = 2) -> dict[str, np.ndarray]:
    config = configuration(out, total_decisions=6144, threads=threads, env__worlds=16, env__episode_s=[1, 2])
    assert training.train(config, resume=resume) == 0
    return load(out / "policy.safetensors").tensors


def test_threads_and_interruptions_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, updates=37)
        config = configuration(
            tmp_path / "parts", total_decisions=6144, threads=1, env__worlds=16, env__episode_s=[1, 2]
        )
        assert training.train(config) == training.INTERRUPTED
    parts = run(tmp_path / "parts", resume=True, threads=4)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
