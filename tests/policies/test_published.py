"""Published learned controllers: their checkpoints become artifacts, whose networks answer as the authors' graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ccarena import _core
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.c_runtime import CRuntime, compiler
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.interface import FloatArray, Normalisation
from ccarena.policies.published import CONTROLLERS, import_checkpoint
from ccarena.policies.tensor_bundle import DATA, INDEX
from ccarena.scenarios.backends import simulate
from tests.published import needs, path, write_bundle

NAMES = list(CONTROLLERS)
TOLERANCE = 1e-5
"""TensorFlow's own answers move by half of this with the size of a batch."""
HISTORY = {"orca": 10, "astraea": 5}
Run = Callable[[FloatArray, FloatArray], FloatArray]


def weights(name: str, seed: int = 1) -> dict[str, FloatArray]:
    """Random weights in the shapes of a controller's network, by the names of a safetensors file."""
    rng = np.random.default_rng(seed)
    return {each.name: rng.uniform(0.1, 1, each.shape).astype(np.float32) for each in CONTROLLERS[name].wanted}


def in_tensorflow(name: str, tensors: dict[str, FloatArray]) -> dict[str, NDArray]:
    """The same by the names of a TensorFlow checkpoint, with other tensors beside them."""
    named = {each.in_tensorflow: np.ascontiguousarray(tensors[each.name].T) for each in CONTROLLERS[name].wanted}
    return {**named, "global_step": np.array(7, np.int64), "critic/fc1/bias": np.zeros(3, np.float32)}


def plain(policy: Artifact) -> Artifact:
    """The policy whose observations are those of the network."""
    one = np.ones(policy.interface.observation_len, np.float32)
    normalisation = Normalisation.of(0 * one, one, -np.inf * one, np.inf * one)
    return replace(policy, interface=replace(policy.interface, normalisation=normalisation))


def runtimes(policy: Artifact) -> dict[str, Run]:
    """The network in float32 in each runtime that has it."""
    policy = plain(policy)
    native = _core.Policy.of(policy.encode())
    return {"numpy": policy.outputs, "rust": lambda x, state: native.act(x, state)[1]}


# Checkpoints that a test writes.


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_becomes_the_same_artifact_from_either_format(name: str, tmp_path: Path) -> None:
    tensors = weights(name)
    save_file(tensors, tmp_path / "weights.safetensors")
    write_bundle(tmp_path / "model-1", in_tensorflow(name, tensors))
    first = import_checkpoint(name, tmp_path / "weights.safetensors")
    for file in ("model-1", f"model-1{INDEX}", f"model-1{DATA}"):
        policy = import_checkpoint(name, tmp_path / file)
        assert {key: value.tobytes() for key, value in policy.graph.tensors.items()} == {
            key: value.tobytes() for key, value in first.graph.tensors.items()
        }
    assert set(policy.training["files"]) == {f"model-1{INDEX}", f"model-1{DATA}"}
    policy.save(tmp_path / "policy.safetensors")
    again = load(tmp_path / "policy.safetensors")
    assert (again.training, again.interface.digest) == (policy.training, policy.interface.digest)
    x = np.random.default_rng(2).uniform(0, 1, (5, policy.interface.observation_len)).astype(np.float32)
    ours, rust = runtimes(again).values()
    shape = (5, policy.graph.state_len)
    np.testing.assert_allclose(ours(x, np.zeros(shape, np.float32)), rust(x, np.zeros(shape, np.float32)), atol=1e-5)


@pytest.mark.parametrize("form", ["safetensors", "tensorflow"])
def test_a_checkpoint_of_another_network_is_refused_by_the_tensor(form: str, tmp_path: Path) -> None:
    names = {each.name: each.in_tensorflow for each in CONTROLLERS["indigo"].wanted}
    right: dict[str, NDArray] = dict(weights("indigo"))
    if form == "tensorflow":
        right = {names[name]: tensor.T.copy() for name, tensor in right.items()}
    name = "out.weight" if form == "safetensors" else names["out.weight"]
    shape = list(right[name].shape)

    def refused(tensors: dict[str, NDArray]) -> str:
        file = tmp_path / ("a.safetensors" if form == "safetensors" else "a")
        if form == "safetensors":
            save_file(tensors, file)
        else:
            write_bundle(file, tensors)
        with pytest.raises(PolicyError) as error:
            import_checkpoint("indigo", file)
        return str(error.value)

    assert f'the tensor "{name}" is missing' in refused({key: value for key, value in right.items() if key != name})
    assert f'"{name}" is float32 of shape {shape[::-1]}; expected float32 of shape {shape}, as in the' in refused(
        {**right, name: right[name].T.copy()}
    )
    assert f'"{name}" is float64 of shape {shape}; expected' in refused({**right, name: right[name].astype(np.float64)})
    assert "has values that are not finite" in refused({**right, name: np.full_like(right[name], np.nan)})


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    prefix = tmp_path / "model"
    index, data = (prefix.with_name(prefix.name + suffix) for suffix in (INDEX, DATA))

    def refused(change: Callable[[], object], path: Path = prefix) -> str:
        write_bundle(prefix, in_tensorflow("indigo", weights("indigo")))
        change()
        with pytest.raises(PolicyError) as error:
            import_checkpoint("indigo", path)
        return str(error.value)

    def flip(file: Path, at: int) -> Callable[[], object]:
        def change() -> None:
            found = bytearray(file.read_bytes())
            found[at] ^= 0x55
            file.write_bytes(found)

        return change

    assert "is truncated; copy it anew" in refused(lambda: data.write_bytes(data.read_bytes()[:-9]))
    assert "cannot read the checkpoint: No such file" in refused(data.unlink)
    assert "it is truncated, or another file" in refused(lambda: index.write_bytes(index.read_bytes()[:-1]))
    assert "it is truncated, or another file" in refused(lambda: index.write_bytes(b""))
    assert "checksum of the block at byte 0 differs" in refused(flip(index, 3))
    assert '"global/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel" is damaged' in refused(flip(data, -9))
    assert "blocks are compressed" in refused(lambda: write_bundle(prefix, {}, compressed=True))
    assert "2 data files or big-endian; expected one" in refused(lambda: write_bundle(prefix, {}, shards=2))
    assert "no checkpoint: expected the prefix of" in refused(index.unlink)
    torch_file = tmp_path / "torch.safetensors"
    assert "a pickle or a zip archive" in refused(lambda: torch_file.write_bytes(b"PK\3\4" + bytes(50)), torch_file)
    assert "truncated or no safetensors file" in refused(lambda: torch_file.write_bytes(b"{}"), torch_file)


def test_any_damage_of_an_index_is_an_error_of_ours(tmp_path: Path) -> None:
    prefix = tmp_path / "model"
    write_bundle(prefix, in_tensorflow("indigo", weights("indigo")))
    index = prefix.with_name(prefix.name + INDEX)
    whole, rng = index.read_bytes(), np.random.default_rng(3)
    for at in range(0, len(whole), 5):
        changed = bytearray(whole)
        changed[at] ^= int(rng.integers(1, 256))
        # Half of them with bytes cut out.
        index.write_bytes(changed if at % 2 else changed[: at // 2] + changed[at:])
        try:
            import_checkpoint("indigo", prefix)
        except PolicyError:
            continue


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_runs_an_imported_controller(name: str, tmp_path: Path) -> None:
    save_file(weights(name), tmp_path / "weights.safetensors")
    file = tmp_path / "policy.safetensors"
    policy = import_checkpoint(name, tmp_path / "weights.safetensors")
    policy.save(file)
    link = {"service": {"type": "constant", "rate_mbps": 10}, "delay_ms": 10}
    scenario = {"duration_s": 1, "links": [link], "flows": [{"scheme": policy.spec, "policy": str(file)}]}
    flow = simulate(scenario)["flows"][0]
    assert flow["decisions"] > 10 and flow["delivered_bytes"] > 0


# The authors' own weights, and what their graphs answered.


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(f"{name}/weights.safetensors")) for name in HISTORY])
def test_an_actor_answers_as_the_authors_graph(name: str) -> None:
    policy = import_checkpoint(name, path(f"{name}/weights.safetensors"))
    vectors = load_file(path(f"{name}/vectors.safetensors"))
    for inputs, answers in (("history", "action"), ("random_history", "random_action")):
        # Theirs is one state after the other, ours one signal after the other.
        x = vectors[inputs].reshape(len(vectors[inputs]), HISTORY[name], -1).transpose(0, 2, 1)
        x = np.ascontiguousarray(x.reshape(len(x), -1))
        for runtime, run in runtimes(policy).items():
            worst = np.abs(run(x, np.zeros((len(x), 0), np.float32))[:, 0] - vectors[answers]).max()
            assert worst <= TOLERANCE, (runtime, inputs)


@needs("indigo/weights.safetensors")
def test_indigo_answers_as_the_authors_graph_over_whole_flows() -> None:
    policy = import_checkpoint("indigo", path("indigo/weights.safetensors"))
    vectors = load_file(path("indigo/vectors.safetensors"))
    for runtime, run in runtimes(policy).items():
        worst, different = 0.0, 0
        for flow in np.unique(vectors["dec.flow"]):
            # Before its first decision a flow has taken none: here it is 0, and the network counts it as a doubling.
            state, taken = np.zeros((1, policy.graph.state_len), np.float32), 0
            for i in np.flatnonzero(vectors["dec.flow"] == flow):
                scores = run(np.array([[*vectors["dec.input"][i, :4], taken]], np.float32), state)
                worst = max(worst, float(np.abs(_softmax(scores) - vectors["dec.probs"][i]).max()))
                taken = int(vectors["dec.action"][i])
                different += int(scores.argmax()) != taken
        assert (different, worst <= TOLERANCE) == (0, True), (runtime, worst)


@needs("indigo/weights.safetensors")
def test_indigo_answers_as_the_authors_graph_on_random_sequences() -> None:
    policy = import_checkpoint("indigo", path("indigo/weights.safetensors"))
    v = load_file(path("indigo/vectors.safetensors"))
    for runtime, run in runtimes(policy).items():
        began = np.ones((len(v["rand.h_in"]), 1), np.float32)
        state = np.concatenate([v["rand.h_in"], v["rand.c_in"], began], axis=1)
        for step in range(v["rand.input"].shape[1]):
            x = v["rand.input"][:, step]
            observed = np.concatenate([x[:, :4], x[:, 4:].argmax(axis=1)[:, None]], axis=1).astype(np.float32)
            worst = np.abs(_softmax(run(observed, state)) - v["rand.probs"][:, step]).max()
            assert worst <= TOLERANCE, (runtime, step)


@needs("indigo/weights.safetensors")
@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_the_integer_form_is_the_same_in_c_and_near_the_authors_answers() -> None:
    """C runs 16-bit weights: same bits as NumPy's integers, and answers within their precision."""
    for name in NAMES:
        policy = import_checkpoint(name, path(f"{name}/weights.safetensors"))
        vectors = load_file(path(f"{name}/vectors.safetensors"))
        if name == "indigo":
            x = np.concatenate([vectors["dec.input"][:, :4], vectors["dec.prev_action"][:, None]], axis=1)
            x = (x / [1 / 200, 1 / 200, 1 / 200, 1 / 5000, 1]).astype(np.float32)
        else:
            x = vectors["history"].reshape(400, HISTORY[name], -1).transpose(0, 2, 1).reshape(400, -1)
            x = (x / policy.interface.normalisation.scale).astype(np.float32)
        integer = IntegerPolicy.of(policy)
        raw = integer.raw(x)
        states = [np.zeros((len(x), integer.state), np.int32) for _ in range(2)]
        outputs = integer.outputs(raw, states[0])
        assert np.array_equal(outputs, CRuntime(policy, x[:48])(raw, states[1])[1])
        assert np.array_equal(states[0], states[1])
        if name in HISTORY:
            off = np.abs(outputs[:, 0] / 2.0**integer.output_bits - vectors["action"])
            assert off.max() < 0.01, name


def _softmax(scores: FloatArray) -> NDArray[np.float64]:
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    found: NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return found
