"""The integer form of a policy: the same bits in NumPy, Rust and C, near the float32 one, and refused where unsound."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from ccarena.errors import PolicyError
from ccarena.policies import c_runtime, c_source, modules
from ccarena.policies import networks as networks_of_our_own
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph
from ccarena.policies.graph import OBSERVATION as GIVEN
from ccarena.policies.graph import Graph, Node
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.interface import Interface, Normalisation
from ccarena.scenarios.entrants import load_policy
from tests.policies import made
from tests.policies.acct import SPEC, network, to_artifact
from tests.policies.random_graphs import OBSERVATION, Network, Stateful, networks
from tests.policies.test_graph import interface as unbounded

core = pytest.importorskip(
    "ccarena._core", reason="NATIVE EXTENSION NOT BUILT: integer inference not tested (run make)"
)

WITHOUT = {"exp", "softmax", "embedding", "div"}
"""Blocks of the random networks that have no integer form."""
compiled = pytest.mark.skipif(c_runtime.compiler() is None, reason="NO C COMPILER: the C of a policy is not tested")


def interface(observation_len: int, outputs: int) -> Interface:
    """One whose observation is held to ±8; one output is a continuous action."""
    eights, made_up = np.full(observation_len, 8, np.float32), unbounded(observation_len, outputs)
    zeros, ones = np.zeros(observation_len, np.float32), np.ones(observation_len, np.float32)
    bounds = None if made_up.bounds is None else ((-1000.0, 1000.0),)
    return dataclasses.replace(made_up, normalisation=Normalisation(zeros, ones, -eights, eights), bounds=bounds)


def observations(rows: int, width: int, seed: int) -> np.ndarray:
    """Ordinary ones, then far too large ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (rows, width))
    x[rows // 2 :] *= 10 ** rng.uniform(-6, 30, (rows - rows // 2, width))
    return x.astype(np.float32)


def same_bits(policy: Artifact, c: bool, rounds: int = 3) -> None:
    """Asserts that all runtimes agree over several decisions of 64 flows."""
    integer, native = IntegerPolicy.of(policy), core.IntegerPolicy(policy.encode())
    states = [np.zeros((64, integer.state), np.int32) for _ in range(3)]
    compiled_c = c_runtime.CRuntime(policy, observations(2, policy.interface.observation_len, 0)) if c else None
    for step in range(rounds):
        x = observations(64, policy.interface.observation_len, step)
        expected = integer.outputs(integer.raw(x), states[0])
        best, found = native.act(x, states[1])
        assert np.array_equal(found, expected) and np.array_equal(states[1], states[0])
        assert np.array_equal(best, expected.argmax(axis=1))
        if compiled_c is not None:
            answers, found = compiled_c(integer.raw(x), states[2])
            assert np.array_equal(found, expected) and np.array_equal(states[2], states[0])
            assert np.array_equal(answers, expected.argmax(axis=1) if integer.bounds is None else expected[:, 0])


def of_random(drawn: tuple[Stateful, dict[str, tuple[int, ...]], int]) -> Artifact:
    network, state, outputs = drawn
    return Artifact.of(to_graph(network, OBSERVATION, state=state), interface(OBSERVATION, outputs))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=networks(WITHOUT))
def test_random_networks_have_the_same_bits_in_numpy_and_rust_and_stay_near_float32(drawn: Any) -> None:
    policy = of_random(drawn)
    same_bits(policy, c=False)
    integer = IntegerPolicy.of(policy)
    memory, state = np.zeros((64, policy.graph.state_len), np.float32), np.zeros((64, integer.state), np.int32)
    for step in range(3):
        x = np.random.default_rng(step).normal(0, 1, (64, OBSERVATION)).astype(np.float32)
        expected = policy.outputs(x, memory)
        found = integer.outputs(integer.raw(x), state) / 2.0**integer.output_bits
        # Norms over two numbers that are nearly equal, and deep gates, enlarge what rounding leaves.
        off = np.abs(found - expected) / max(1.0, float(np.abs(expected).max()))
        assert np.median(off) < 2e-3, off.max()


@compiled
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=networks(WITHOUT))
def test_random_networks_have_the_same_bits_in_c(drawn: Any) -> None:
    same_bits(of_random(drawn), c=True)


@pytest.mark.parametrize("kind", sorted(set("relu leaky_relu elu silu gelu gelu_tanh sigmoid tanh softplus".split())))
def test_functions_are_near_their_own(kind: str) -> None:
    torch.manual_seed(1)
    module = Stateful(Network([("linear", 8), (kind, 1)], [], 4))
    policy = Artifact.of(to_graph(module, OBSERVATION), interface(OBSERVATION, 4))
    x = np.random.default_rng(0).normal(0, 2, (4096, OBSERVATION)).astype(np.float32)
    integer = IntegerPolicy.of(policy)
    found = integer.outputs(integer.raw(x)) / 2.0**integer.output_bits
    np.testing.assert_allclose(found, policy.outputs(x), atol=6e-4)


@compiled
@pytest.mark.parametrize("scheme", ["acct", "hyvar", "orca", "aurora"])
def test_networks_of_the_shipped_schemes(scheme: str) -> None:
    if scheme == "acct":
        torch.manual_seed(4)
        actor_critic = network()
        torch.nn.init.orthogonal_(actor_critic.actor.out.weight, gain=2.0)
        policy = to_artifact(actor_critic, {}, 0)
    else:
        policy = made.continuous(scheme, 0.3)
    same_bits(policy, c=True)
    x = (10 ** np.random.default_rng(7).uniform(-3, 2, (4096, policy.interface.observation_len))).astype(np.float32)
    expected, found = policy.act(x), IntegerPolicy.of(policy).act(x)
    if policy.interface.bounds is None:
        assert np.mean(expected == found) >= 0.995
    else:
        [(low, high)] = policy.interface.bounds
        assert np.abs(expected - found).max() < 0.001 * (high - low)


def linear(weight: float, bias: float = 0.0, layers: int = 1, width: int = OBSERVATION) -> Artifact:
    """`layers` layers of equal weights."""
    tensors = {"w": np.full((width, OBSERVATION), weight, np.float32), "b": np.full(width, bias, np.float32)}
    tensors |= {"deep": np.full((width, width), weight, np.float32), "last": np.full((1, width), weight, np.float32)}
    nodes = [Node("fc0", "linear", (GIVEN,), {"weight": "w", "bias": "b"})]
    for k in range(1, layers):
        nodes.append(Node(f"fc{k}", "linear", (f"fc{k - 1}",), {"weight": "deep"}))
    nodes.append(Node("out", "linear", (f"fc{layers - 1}",), {"weight": "last"}))
    used = {n.attributes[k] for n in nodes for k in ("weight", "bias") if k in n.attributes}
    tensors = {name: tensor for name, tensor in tensors.items() if name in used}
    return Artifact.of(Graph(OBSERVATION, tuple(nodes), "out", tensors), interface(OBSERVATION, 1))


def test_what_cannot_be_shown_to_fit_is_refused_with_its_layer() -> None:
    IntegerPolicy.of(linear(30.0, layers=2))
    with pytest.raises(PolicyError, match=r'graph node "fc\d": .*could reach .* for an admitted observation'):
        IntegerPolicy.of(linear(30.0, layers=6))
    with pytest.raises(PolicyError, match=r'graph node "fc0": weights up to 1.000e5 .*expected weights up to 32767'):
        IntegerPolicy.of(linear(1e5))
    with pytest.raises(PolicyError, match=r'graph node "fc0": weights .* a bias of 1.000e30'):
        IntegerPolicy.of(linear(1.0, 1e30))
    with pytest.raises(PolicyError, match=r"graph node .*weights so far; expected at most 1048576"):
        IntegerPolicy.of(linear(0.001, layers=3, width=1000))


@pytest.mark.parametrize("kind", sorted(WITHOUT))
def test_an_operation_without_an_integer_form_is_refused_by_name(kind: str) -> None:
    policy = Artifact.of(to_graph(Stateful(Network([(kind, 3)], [], 3)), OBSERVATION), interface(OBSERVATION, 3))
    with pytest.raises(PolicyError, match=f"operation {kind}; expected one that has an integer form"):
        IntegerPolicy.of(policy)


def test_bounds_of_the_observation_that_do_not_fit_are_refused_by_entry() -> None:
    policy = linear(0.1)
    normalisation = policy.interface.normalisation
    scale = normalisation.scale.copy()
    scale[3] = 1e9
    changed = dataclasses.replace(normalisation, scale=scale)
    other = dataclasses.replace(policy.interface, normalisation=changed)
    with pytest.raises(PolicyError, match="observation's entry 3: a scale of 1000000000"):
        IntegerPolicy.of(dataclasses.replace(policy, interface=other))


def test_a_state_that_grows_is_held() -> None:
    """An LSTM's cell whose gates are open counts up without end in float32; in integers it is held to 128."""
    torch.manual_seed(0)
    module = Stateful(Network([], [("lstm", 3)], 2))
    cell = module.network.cells[0]
    with torch.no_grad():
        cell.bias_ih[:] = 20.0
    policy = Artifact.of(to_graph(module, OBSERVATION, state=module.network.state), interface(OBSERVATION, 2))
    integer = IntegerPolicy.of(policy)
    state = np.zeros((1, integer.state), np.int32)
    for _ in range(200):
        integer.outputs(integer.raw(np.zeros((1, OBSERVATION))), state)
    scale = [int(np.abs(state[0, k : k + 3]).max()) for k in (0, 3)]
    assert max(scale) == 128 << 18


SELF_TEST = """#include "mine.h"
#include "mine_vectors.h"
int main(void)
{
	ccarena_s32 state[MINE_STATE + 1] = {0}, values[MINE_VALUES];
	int k, i, answers = 0, outputs = 0;

	for (k = 0; k < MINE_VECTORS; k++) {
		answers += mine_decide(mine_observations[k], state, values) != mine_answers[k];
		for (i = 0; i < MINE_OUTPUTS; i++)
			outputs += values[MINE_OUTPUT + i] != mine_outputs[k][i];
	}
	return (answers > 0) + 2 * (outputs > 0);
}
"""


def self_test(folder: Path) -> int:
    """The bits of what differs: 1 of the answers, 2 of the outputs."""
    (folder / "main.c").write_text(SELF_TEST)
    command = [str(c_runtime.compiler()), "-O1", "-Wall", "-Wno-unused", "-Werror", "mine.c", "main.c", "-o", "main"]
    c_runtime.compile_c(command, folder)
    return subprocess.run([folder / "main"], check=False).returncode


def remembering() -> Artifact:
    """A policy of ACCT with a GRU."""
    torch.manual_seed(3)
    module = networks_of_our_own.Gru(SPEC, SPEC.outputs)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return modules.to_artifact(module, SPEC.interface, state=module.state)


SELF_TESTED = {
    "discrete": lambda: load_policy("acct"),
    "continuous": lambda: made.continuous("hyvar", 0.3),
    "recurrent": remembering,
}


@compiled
@pytest.mark.parametrize("kind", SELF_TESTED)
def test_a_build_of_another_policy_fails_the_exported_test(kind: str, tmp_path: Path) -> None:
    policy = SELF_TESTED[kind]()
    vectors = c_source.vectors(policy)
    answers = IntegerPolicy.of(policy).act(vectors, np.zeros((len(vectors), policy.graph.state_len), np.int32))
    assert len(np.unique(answers)) >= 3, "the answers hardly vary"
    assert len(np.unique(vectors, axis=0)) >= 48, "observations are repeated"
    c_source.write(policy, vectors, tmp_path, "mine")
    assert self_test(tmp_path) == 0
    source = (tmp_path / "mine.c").read_text()

    def mutated(change: Callable[[str], str]) -> int:
        (tmp_path / "mine.c").write_text(change(source))
        return self_test(tmp_path)

    body = re.compile(r"(mine_decide\(.*\)\n\{\n).*\}\n", re.DOTALL)
    header = (tmp_path / "mine_vectors.h").read_text()
    given = re.findall(r"-?\d+", header[header.index("_answers[") :].split("{")[1].split("}")[0])
    for answer in sorted(set(given)):
        assert mutated(lambda c: body.sub(rf"\1\treturn {answer};\n}}\n", c)) & 1, f"always {answer} passes"  # noqa: B023
    start, rest = source.split("weights[", 1)
    head, numbers = rest.split("{", 1)
    listed, tail = numbers.split("}", 1)
    weights = listed.split(", ")
    found = 0
    for place in np.random.default_rng(1).choice(len(weights), 8, replace=False):
        other = list(weights)
        other[place] = re.sub(r"\d+", lambda n: str((int(n[0]) + 20000) % 65536), other[place], count=1)
        found += mutated(lambda _: f"{start}weights[{head}{{{', '.join(other)}}}{tail}") != 0  # noqa: B023
    assert found >= 4, "weights that matter are changed without notice"
    if policy.graph.state_len:
        forgets = mutated(lambda c: re.sub(r"(values\[\d+ \+ i\] = )state\[i\]", r"\g<1>0", c))
        assert forgets, "what it remembers is not tested"


@pytest.mark.skipif(shutil.which("clang") is None, reason="NO CLANG: the header is not compiled for BPF")
def test_the_header_compiles_for_bpf(tmp_path: Path) -> None:
    """Arrays of a map's size, indices held to them, and no signed division or sign-extending load that BPF has not."""
    (tmp_path / "ccarena_policy.h").write_text(core.POLICY_HEADER)
    (tmp_path / "policy.bpf.c").write_text(
        """#define CCARENA_AT(i, length) ((i) & ((length) - 1))
#define CCARENA_IN_TURN(sum) asm volatile("" : "+r"(sum)::"memory")
#define CCARENA_STEPS 64
#define CCARENA_VALUES 1024
#define CCARENA_WEIGHTS 16384
#define CCARENA_CONSTANTS 4096
#include "ccarena_policy.h"
struct {
	struct ccarena_step steps[CCARENA_STEPS];
	ccarena_u16 weights[CCARENA_WEIGHTS];
	ccarena_s64 constants[CCARENA_CONSTANTS];
	ccarena_s32 values[CCARENA_VALUES];
	ccarena_s64 raw[64];
	ccarena_u32 steps_length, observation;
} data;
__attribute__((section("syscall"), used)) int decide(void *context)
{
	struct ccarena_policy policy = { data.steps, data.weights, data.constants, data.steps_length };
	ccarena_u32 i;

	for (i = 0; i < data.observation; i++)
		data.values[CCARENA_AT(i, CCARENA_VALUES)] = ccarena_normalise(&policy, i, data.raw[i & 63]);
	ccarena_policy_run(&policy, data.values);
	return (int)ccarena_argmax(data.values, 16);
}
"""
    )
    flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    c_runtime.compile_c(["clang", *flags, "-c", "policy.bpf.c", "-o", "policy.bpf.o"], tmp_path)
