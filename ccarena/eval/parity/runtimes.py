"""Runtimes of a policy: each decides on the same recorded observations, and is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.errors import CcarenaError
from ccarena.policies.artifact import Artifact
from ccarena.policies.bpf_runtime import BpfRuntime
from ccarena.policies.c_runtime import CRuntime
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.interface import continuous
from ccarena.policies.recording import Recording
from ccarena.quic.decide import decide

__all__ = ["AGREEMENT", "REFERENCE", "RUNTIMES", "Runtime", "agreement", "compare"]

AGREEMENT = 0.995
"""Least share of decisions that have to equal the reference's."""
TOLERANCE = 0.01
"""Largest difference of equal continuous actions, as a share of the action's range."""
ROUNDS = 3
"""Repetitions of the timing; the quickest counts."""


class Maker(NamedTuple):
    """Decision function of a runtime."""

    decide: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    """Function from the result of `prepare` and the state `[N, numbers]`, updated in place, to actions `[N]`; in
    integers, to outputs.
    """
    state_len: int
    kind: Any
    """Type of the state's numbers."""
    prepare: Callable[[NDArray[np.float32]], NDArray[Any]] = lambda observations: observations
    """Function that converts observations `[N, length]` to the runtime's form; this is not timed."""
    spent_ns: Callable[[], int] | None = None
    """Time of the last `decide`, ns, for a runtime that times itself."""


class Elsewhere(NamedTuple):
    """Runtime in a program of its own, which times itself."""

    replay: Callable[[], tuple[NDArray[Any], float]]
    """Function that returns actions `[N]` and ns per decision."""


@dataclass(frozen=True)
class Runtime:
    """Agreement and speed of one runtime."""

    runtime: str
    what: str
    agreement: float
    """Agreement with `REFERENCE`."""
    ns_per_decision: float
    """CPU time per decision in a batch."""
    same_bits: bool | None
    """Outputs have the same bits as those of NumPy in integers; None for a runtime that computes in float32."""


def _python(policy: Artifact, _: Recording) -> Maker:
    return Maker(policy.act, policy.graph.state_len, np.float32)


def _rust(policy: Artifact, _: Recording) -> Maker:
    native = _core.Policy.of(policy.encode())

    def decide(x: NDArray[np.float32], state: NDArray[Any]) -> NDArray[Any]:
        best, outputs = native.act(x, state)
        return best if policy.interface.actions else continuous(outputs)

    return Maker(decide, native.state_len, np.float32)


def _numpy_integer(policy: Artifact, _: Recording) -> Maker:
    integer = IntegerPolicy.of(policy)
    return Maker(integer.outputs, integer.state, np.int32, integer.raw)


def _rust_integer(policy: Artifact, _: Recording) -> Maker:
    native, integer = _core.IntegerPolicy(policy.encode()), IntegerPolicy.of(policy)
    return Maker(lambda x, state: native.act(x, state)[1], integer.state, np.int32)


def _c(policy: Artifact, recording: Recording) -> Maker:
    compiled, integer = CRuntime(policy, recording.rows[:1]), IntegerPolicy.of(policy)
    return Maker(lambda raw, state: compiled(raw, state)[1], integer.state, np.int32, integer.raw)


def _bpf(policy: Artifact, _: Recording) -> Maker:
    runtime, integer = BpfRuntime(policy), IntegerPolicy.of(policy)
    return Maker(runtime, integer.state, np.int32, integer.raw, lambda: runtime.spent_ns)


def _quic(policy: Artifact, recording: Recording) -> Elsewhere:
    return Elsewhere(lambda: decide(policy.encode(), recording.observations, recording.starts))


RUNTIMES: dict[str, tuple[str, bool, Callable[[Artifact, Recording], Maker | Elsewhere]]] = {
    "rust": ("Rust, float32: simulator and kernel bridge", False, _rust),
    "python": ("NumPy, float32: the reference of the graph", False, _python),
    "numpy-integer": ("NumPy, integers: the reference of the integer form", True, _numpy_integer),
    "rust-integer": ("Rust, integers: simulator with {integer: FILE}", True, _rust_integer),
    "c": ("C, integers: the exported files, compiled here", True, _c),
    "bpf": ("BPF, integers: a test run in this kernel", True, _bpf),
    "quic": ("Rust, float32: QUIC's datapath, one decision after the other", False, _quic),
}
"""Runtimes by name: a description, whether they compute in integers (and return outputs), and their constructor."""
REFERENCE = "rust"


def compare(policy: Artifact, recording: Recording) -> tuple[list[Runtime], dict[str, str]]:
    """Runs every runtime that this machine and this policy have; also returns the reasons why others are missing."""
    found: list[Runtime] = []
    missing: dict[str, str] = {}
    expected: NDArray[Any] | None = None
    bits: NDArray[Any] | None = None
    for name, (what, integer, make) in RUNTIMES.items():
        try:
            answers, ns = _replay(make(policy, recording), recording)
        except CcarenaError as error:
            missing[name] = str(error)
            continue
        actions, same = answers, None
        if integer:
            actions = IntegerPolicy.of(policy).actions(answers)
            bits = answers if bits is None else bits
            same = bool(np.array_equal(answers, bits))
        expected = actions if expected is None else expected
        found.append(Runtime(name, what, agreement(policy, expected, actions), ns, same))
    return found, missing


def agreement(policy: Artifact, expected: NDArray[Any], actions: NDArray[Any]) -> float:
    """Returns the share of `actions` that equal `expected`: the same index, or within `TOLERANCE` of the range."""
    if policy.interface.bounds is None:
        return float(np.mean(expected == actions))
    low, high = np.array(policy.interface.bounds).T
    apart = np.abs(np.subtract(expected, actions)).reshape(-1, len(low))
    return float(np.mean((apart <= TOLERANCE * (high - low)).all(axis=1)))


def _replay(runtime: Maker | Elsewhere, recording: Recording) -> tuple[NDArray[Any], float]:
    """Returns answers to all observations in their order, and ns per decision."""
    if isinstance(runtime, Elsewhere):
        return runtime.replay()
    x, starts = recording.observations, recording.starts
    if not runtime.state_len:  # the order does not matter: one batch
        x, starts = recording.rows[None], starts.reshape(1, -1)
    prepared = [runtime.prepare(row) for row in x]
    quickest, answers = float("inf"), np.empty(0)
    for _ in range(ROUNDS):
        state, spent, parts = np.zeros((x.shape[1], runtime.state_len), runtime.kind), 0, []
        for row, start in zip(prepared, starts, strict=True):
            state[start] = 0
            # Of this thread alone: other programs on the machine do not count.
            begun = time.thread_time_ns()
            parts.append(runtime.decide(row, state))
            spent += time.thread_time_ns() - begun if runtime.spent_ns is None else runtime.spent_ns()
        answers, quickest = np.concatenate(parts), min(quickest, spent / starts.size)
    return answers, quickest
