"""The artifact comes back as it was saved, and nothing else is taken for one."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena.acct import spec
from ccarena.errors import PolicyError
from ccarena.policies import tensorfile
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.networks import ActorCritic, Architecture


@pytest.fixture
def artifact() -> Artifact:
    torch.manual_seed(0)
    return Artifact.of(ActorCritic(), training={"gamma": 0.99}, seed=7, evaluation={"reward": 90.5})


@pytest.fixture
def saved(artifact: Artifact, tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    artifact.save(path)
    return path


def test_round_trip(artifact: Artifact, saved: Path) -> None:
    back = load(saved)
    assert (back.training, back.seed, back.evaluation) == ({"gamma": 0.99}, 7, {"reward": 90.5})
    assert back.versions["torch"]
    raw = torch.rand(16, spec.OBSERVATION_SIZE)
    for a, b in zip(artifact.network()(raw), back.network()(raw), strict=True):
        assert torch.equal(a, b)


def test_other_sizes(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    Artifact.of(ActorCritic(Architecture(filters=128, hidden=64)), {}, 0).save(path)
    assert (load(path).filters, load(path).hidden) == (128, 64)


def test_same_content_same_bytes(artifact: Artifact, saved: Path) -> None:
    again = saved.with_name("again.safetensors")
    load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()


def corrupt(change: Callable[[dict, dict], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        tensors, metadata = tensorfile.read(path)
        change(tensors, metadata)
        tensorfile.write(path, tensors, metadata)

    return apply


def set_nan(tensors: dict, metadata: dict) -> None:
    tensors["actor.hidden.weight"] = np.where(np.eye(128, 34) > 0, np.nan, 0).astype(np.float32)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


CORRUPTIONS = {
    "truncated": (truncate, "truncated"),
    "empty": (lambda path: path.write_bytes(b""), "not a policy"),
    "text": (lambda path: path.write_text("actions: [1, 2, 3]\n"), "not a policy"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "pickle"),
    "torch.save": (lambda path: torch.save({"a": torch.zeros(1)}, path), "pickle"),
    "missing": (lambda path: path.unlink(), "No such file"),
    "directory": (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    "other safetensors": (lambda path: tensorfile.write(path, {"a": np.zeros(3)}, {}), "not a policy"),
    "version": (corrupt(lambda t, m: m.update(ccarena_format="2")), 'format version "2", expected "1"'),
    "observation": (corrupt(lambda t, m: m.update(observation="acct-9")), 'expected "acct-1"'),
    "actions": (corrupt(lambda t, m: m.update(actions="[1, 2]")), "actions"),
    "architecture": (corrupt(lambda t, m: m.update(architecture="{")), "architecture"),
    "size": (corrupt(lambda t, m: m.update(architecture='{"kind":"acct-conv","filters":8,"hidden":1e9}')), "hidden"),
    "kind": (corrupt(lambda t, m: m.update(architecture='{"kind":"lstm"}')), "lstm"),
    "nan": (corrupt(set_nan), "not finite"),
    "shape": (corrupt(lambda t, m: t.update({"actor.out.bias": np.zeros(14, np.float32)})), r"\[14\], expected \[15\]"),
    "dtype": (corrupt(lambda t, m: t.update({"actor.out.bias": np.zeros(15)})), "float64, expected float32"),
    "range": (corrupt(lambda t, m: t.update({"normalisation.high": t["normalisation.low"] - 1})), "empty range"),
    "lacks a tensor": (corrupt(lambda t, m: t.pop("critic.out.bias")), '"critic.out.bias" is missing'),
    "extra tensor": (corrupt(lambda t, m: t.update({"x": np.zeros(1, np.float32)})), 'unknown tensor "x"'),
    "seed": (corrupt(lambda t, m: m.update(seed="x")), "seed"),
    "training": (corrupt(lambda t, m: m.pop("training")), "training"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruptions_are_refused(name: str, saved: Path) -> None:
    damage, message = CORRUPTIONS[name]
    damage(saved)
    with pytest.raises(PolicyError, match=message) as caught:
        load(saved)
    assert str(saved) in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(where=st.integers(0, 3000), value=st.integers(0, 255))
def test_any_damaged_header_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, where: int, value: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.safetensors"
    Artifact.of(ActorCritic(Architecture(1, 1)), {}, 0).save(path)
    data = bytearray(path.read_bytes())
    data[where % len(data)] = value
    path.write_bytes(data)
    try:
        load(path)
    except PolicyError as error:
        assert str(path) in str(error)


def test_not_finite_is_not_saved(artifact: Artifact, tmp_path: Path) -> None:
    artifact.tensors["critic.out.bias"][0] = np.inf
    with pytest.raises(PolicyError, match="not finite"):
        artifact.save(tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


def test_disk_full_keeps_the_old_file(artifact: Artifact, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PolicyError, match="No space left"):
        replace(artifact, seed=8).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_header_as_long_as_a_pickle_s_first_byte_is_no_pickle(tmp_path: Path) -> None:
    path = tmp_path / "tensors"
    for size in range(300):
        tensorfile.write(path, {"x": np.zeros(2, np.float32)}, {"pad": "x" * size})
        if path.read_bytes()[0] == 0x80:
            break
    assert path.read_bytes()[:1] == b"\x80"
    tensors, metadata = tensorfile.read(path)
    assert tensors["x"].shape == (2,) and len(metadata["pad"]) == size
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(tensorfile.TensorFileError, match="truncated"):
        tensorfile.read(path)
