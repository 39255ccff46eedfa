"""Checkpoints survive damage, full disks and each other."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from ccarena.agents.checkpoint import NAME, PREVIOUS, Checkpoint, load, save
from ccarena.errors import CheckpointError, WriteError
from ccarena.policies import tensorfile


def state(number: int) -> Checkpoint:
    arrays = {
        "learner.weights": np.full(5, number, np.float32),
        "executor.0.environment": np.frombuffer(b"abc", np.uint8),
    }
    return Checkpoint(arrays, {"number": number, "rng": {"state": 2**127 + number}, "sum": 0.1 + 0.2})


def test_round_trip(tmp_path: Path) -> None:
    save(tmp_path, state(3))
    back = load(tmp_path)
    assert back.rest == state(3).rest
    assert back.part("learner")["weights"].tolist() == [3] * 5
    assert back.part("executor")["0.environment"].tobytes() == b"abc"


def test_a_damaged_last_one_falls_back_to_the_previous(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(tmp_path, state(number))
    (tmp_path / NAME).write_bytes((tmp_path / NAME).read_bytes()[:-1])
    assert load(tmp_path).rest["number"] == 2
    (tmp_path / PREVIOUS).unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: .*previous\.safetensors: not there"):
        load(tmp_path)


def test_a_full_disk_keeps_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, state(1))

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(WriteError, match="No space left on device"):
            save(tmp_path, state(2))
    assert load(tmp_path).rest["number"] == 1
    save(tmp_path, state(3))
    assert load(tmp_path).rest["number"] == 3


def test_other_files_are_refused(tmp_path: Path) -> None:
    tensorfile.write(tmp_path / NAME, {"a": np.zeros(1)}, {"ccarena_checkpoint": "1", "state": "{}"})
    with pytest.raises(CheckpointError, match='format "1", expected "2"'):
        load(tmp_path)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    """The format itself has no checksum: without the digest, weights would be wrong by one bit."""
    for number in (1, 2):
        save(tmp_path, state(number))
    data = bytearray((tmp_path / NAME).read_bytes())
    data[-1] ^= 1
    (tmp_path / NAME).write_bytes(data)
    assert load(tmp_path).rest["number"] == 1


def test_after_a_fallback_the_only_good_one_stays_until_there_are_two(tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path, state(number))
    (tmp_path / NAME).write_bytes(b"damaged")
    assert load(tmp_path).rest["number"] == 1
    save(tmp_path, state(3))
    # What was damaged has not become the previous one.
    (tmp_path / NAME).unlink()
    assert load(tmp_path).rest["number"] == 1
    save(tmp_path, state(4))
    save(tmp_path, state(5))
    (tmp_path / NAME).unlink()
    assert load(tmp_path).rest["number"] == 4


def test_older_ones_are_kept_as_many_as_are_asked_for(tmp_path: Path) -> None:
    for number in range(1, 8):
        save(tmp_path, state(number), keep=2, decisions=100 * number)
    kept = sorted(path.stem.lstrip("0") for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["400", "500", "600", "700"]
    for name in (NAME, PREVIOUS):
        (tmp_path / name).unlink()
    (tmp_path / "checkpoints" / f"{700:015d}.safetensors").write_bytes(b"damaged")
    assert load(tmp_path).rest["number"] == 6


def test_what_the_disk_garbles_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        save(tmp_path, state(number))
    write = tensorfile.write_bytes
    with monkeypatch.context() as patch:
        patch.setattr(tensorfile, "write_bytes", lambda path, data: write(path, data[:-8] + bytes(8)))
        with pytest.raises(WriteError, match="other bytes"):
            save(tmp_path, state(3))
    assert load(tmp_path).rest["number"] == 2
    (tmp_path / NAME).unlink()
    assert load(tmp_path).rest["number"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {PREVIOUS}


def test_a_full_disk_says_whether_there_is_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for kept in ("there is none yet", "the last one is kept"):
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(WriteError, match=kept):
                save(tmp_path, state(2))
        save(tmp_path, state(1))
