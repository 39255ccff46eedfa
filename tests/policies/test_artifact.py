"""The artifact comes back as it was saved, and nothing else is taken for one."""

from __future__ import annotations

import errno
import hashlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena.configs import load_config
from ccarena.errors import PolicyError, WriteError
from ccarena.policies import tensorfile
from ccarena.policies.artifact import CHECKSUM, Artifact, count_test, load
from ccarena.policies.export import to_graph
from ccarena.policies.spec import spec_of
from tests.policies.acct import SPEC, network, to_artifact

core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: artifacts not checked (run make)")


@pytest.fixture
def artifact() -> Artifact:
    torch.manual_seed(0)
    made = to_artifact(network(), training={"gamma": 0.99}, seed=7, evaluation={"reward": 90.5})
    curve = {"decisions": [1.0, 2.0], "reward_mean": [0.5, None]}
    on = [{"kind": "trace", "name": "lte", "digest": "0f"}]
    return replace(made, params={"budget_ms": 20.0}, trained_on=on, curve=curve)


@pytest.fixture
def saved(artifact: Artifact, tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    artifact.save(path)
    return path


def test_round_trip(artifact: Artifact, saved: Path) -> None:
    back = load(saved)
    assert (back.training, back.seed, back.evaluation) == ({"gamma": 0.99}, 7, {"reward": 90.5})
    assert (back.params, back.trained_on, back.curve) == (artifact.params, artifact.trained_on, artifact.curve)
    assert back.versions["torch"] and back.interface.digest == SPEC.digest
    raw = torch.rand(16, SPEC.size).numpy()
    assert np.array_equal(artifact.outputs(raw), back.outputs(raw))


def test_acting_needs_no_pytorch(saved: Path) -> None:
    code = (
        "import sys, numpy as np; sys.modules['torch'] = None; from ccarena.policies.artifact import Artifact; "
        f"print(Artifact.load({str(saved)!r}).act(np.ones((2, {SPEC.size}), np.float32)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("["), done.stderr


def test_other_sizes(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    to_artifact(network(128, 64), {}, 0).save(path)
    assert load(path).graph.tensors["hidden.weight"].shape == (64, 5 * 128 + 2)


def test_same_content_same_bytes(artifact: Artifact, saved: Path) -> None:
    again = saved.with_name("again.safetensors")
    load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()


def corrupt(change: Callable[[dict, dict], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        tensors, metadata = tensorfile.read(path)
        del metadata[CHECKSUM]  # which comes before all other checks of the weights
        change(tensors, metadata)
        tensorfile.write(path, tensors, metadata)

    return apply


def set_nan(tensors: dict, metadata: dict) -> None:
    tensors["hidden.weight"] = np.where(np.eye(128, 34) > 0, np.nan, 0).astype(np.float32)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edit_graph(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(tensors: dict, metadata: dict) -> None:
        graph = json.loads(metadata["graph"])
        change(graph)
        metadata["graph"] = json.dumps(graph)

    return corrupt(apply)


CORRUPTIONS = {
    "truncated": (truncate, "truncated"),
    "empty": (lambda path: path.write_bytes(b""), "not a policy"),
    "text": (lambda path: path.write_text("actions: [1, 2, 3]\n"), "not a policy"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "pickle"),
    "torch.save": (lambda path: torch.save({"a": torch.zeros(1)}, path), "pickle"),
    "missing": (lambda path: path.unlink(), "No such file"),
    "directory": (lambda path: (path.unlink(), path.mkdir()), "it is a folder; expected a file"),
    "other safetensors": (lambda path: tensorfile.write(path, {"a": np.zeros(3)}, {}), "`ccarena_format` is missing"),
    "format 1": (corrupt(lambda t, m: m.update(ccarena_format="1")), 'expected "2": train the policy again'),
    "spec": (corrupt(lambda t, m: m.update(spec="[]")), "spec"),
    "digest": (corrupt(lambda t, m: m.pop("digest")), "digest"),
    "params": (corrupt(lambda t, m: m.update(params='{"a":"b"}')), "params"),
    "actions": (corrupt(lambda t, m: m.update(actions="[1, 2]")), r"\[15\]; expected \[2\]"),
    "bounds": (corrupt(lambda t, m: m.update(actions="[]")), "bounds"),
    "graph": (corrupt(lambda t, m: m.update(graph="{")), "graph: no JSON"),
    "operation": (edit_graph(lambda g: g["nodes"][1].update(op="dense")), 'node "linear" \\(dense\\)'),
    "input": (edit_graph(lambda g: g["nodes"][1].update(inputs=["x"])), 'input "x", which is no value before it'),
    "attribute": (edit_graph(lambda g: g["nodes"][1].update(rate=1)), 'entry "rate"'),
    "length": (edit_graph(lambda g: g.update(input=67)), r'"normalisation.offset" has shape \[66\]; expected \[67\]'),
    "nan": (corrupt(set_nan), '"hidden.weight" is NaN'),
    "shape": (corrupt(lambda t, m: t.update({"out.bias": np.zeros(14, np.float32)})), r"\[14\]; expected \[15\]"),
    "dtype": (corrupt(lambda t, m: t.update({"out.bias": np.zeros(15)})), "F64; expected F32"),
    "range": (corrupt(lambda t, m: t.update({"normalisation.high": t["normalisation.low"] - 1})), "low <= high"),
    "lacks a tensor": (corrupt(lambda t, m: t.pop("out.bias")), '"out.bias" is missing'),
    "extra tensor": (corrupt(lambda t, m: t.update({"x": np.zeros(1, np.float32)})), 'unknown tensor "x"'),
    "seed": (corrupt(lambda t, m: m.update(seed="x")), "seed"),
    "training": (corrupt(lambda t, m: m.pop("training")), "training"),
    "trained on": (corrupt(lambda t, m: m.update(trained_on="{}")), "trained_on"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruptions_are_refused(name: str, saved: Path) -> None:
    damage, message = CORRUPTIONS[name]
    damage(saved)
    with pytest.raises(PolicyError, match=message) as caught:
        load(saved)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize("bit", [0, 7])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_a_flipped_bit_of_the_weights_is_found(share: float, bit: int, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    expected = hashlib.sha256(data[begin:]).hexdigest()
    assert tensorfile.read(saved)[1][CHECKSUM] == expected
    data[begin + round(share * (len(data) - 1 - begin))] ^= 1 << bit
    saved.write_bytes(data)
    found = hashlib.sha256(data[begin:]).hexdigest()
    message = f'SHA-256 "{found}"; expected "{expected}".*damaged or edited after it was saved; copy it anew'
    with pytest.raises(PolicyError, match=message) as caught:
        load(saved)
    assert str(saved) in str(caught.value)


def test_a_file_without_the_checksum_is_loaded_and_saved_with_it(artifact: Artifact, saved: Path) -> None:
    whole = saved.read_bytes()
    corrupt(lambda tensors, metadata: None)(saved)
    assert CHECKSUM not in tensorfile.read(saved)[1]
    load(saved).save(saved)
    assert saved.read_bytes() == whole


def test_other_metadata_leaves_the_checksum_as_it_is(saved: Path) -> None:
    before = tensorfile.read(saved)[1][CHECKSUM]
    count_test(saved)
    assert load(saved).tests == 1 and tensorfile.read(saved)[1][CHECKSUM] == before
    tensors, metadata = tensorfile.read(saved)
    tensorfile.write(saved, tensors, {**metadata, "seed": "8"})
    assert load(saved).seed == 8


@pytest.fixture(scope="module")
def smallest() -> bytes:
    return to_artifact(network(1, 1), {}, 0).encode()


@settings(max_examples=200, deadline=None)
@given(where=st.integers(0, 6000), value=st.integers(0, 255))
def test_any_damaged_header_is_loaded_or_refused(
    smallest: bytes, tmp_path_factory: pytest.TempPathFactory, where: int, value: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.safetensors"
    data = bytearray(smallest)
    data[where % len(data)] = value
    path.write_bytes(data)
    try:
        load(path)
    except PolicyError as error:
        assert str(path) in str(error)


def test_not_finite_is_not_saved(artifact: Artifact, tmp_path: Path) -> None:
    artifact.graph.tensors["out.bias"][0] = np.inf
    with pytest.raises(PolicyError, match=r'"out.bias" is inf at index 0'):
        artifact.save(tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


def test_disk_full_keeps_the_old_file(artifact: Artifact, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteError, match="No space left"):
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


def test_a_policy_decides_for_flows_of_its_document_alone(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    spec = spec_of(load_config("hyvar"))
    trained_for = spec.interface
    torch.manual_seed(5)
    layers = torch.nn.Sequential(torch.nn.Linear(70, 12), torch.nn.ReLU(), torch.nn.Linear(12, 1), torch.nn.Tanh())
    Artifact.of(to_graph(layers, trained_for.observation_len), trained_for).save(path)
    document: dict[str, Any] = {
        "duration_s": 2,
        "links": [{"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}],
        "flows": [{"scheme": scheme, "policy": str(path), "base_rtt_ms": 20} for scheme in ("hyvar", "hyvar")],
        "record": {"reports": True},
    }
    for flow in core.simulate(json.dumps(document))["flows"]:
        reports = np.asarray(flow["reports"])
        assert len(reports) > 10 and reports[:, spec.report.index("action")].std() > 0
    document["flows"][0]["scheme"] = "aurora"
    with pytest.raises(PolicyError, match=rf"was trained for the scheme {spec.name} .{spec.digest}.; the flow"):
        core.simulate(json.dumps(document))
