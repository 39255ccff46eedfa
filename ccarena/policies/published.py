"""Learned controllers as their authors published them: an import of their checkpoints into artifacts.

The weights are not part of this package. Each controller's spec says what its network observes and moves. Where a spec
cannot say it, the observation has an input in its place, and `missing` of the artifact says what would have to be
known: flows refuse to run such an artifact.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.policies.artifact import Artifact
from ccarena.policies.checkpoint import Wanted, read, sha256
from ccarena.policies.graph import OBSERVATION, Graph, Node, State
from ccarena.policies.interface import FloatArray
from ccarena.policies.spec import Spec

__all__ = ["CONTROLLERS", "Controller", "import_checkpoint"]


@dataclass(frozen=True)
class Controller:
    """Published controller."""

    title: str
    source: str
    """Repository and commit of the checkpoint."""
    licence: str
    """Licence of the checkpoint, as far as its repository states one."""
    wanted: Sequence[Wanted]
    """Tensors of its network."""
    graph: Callable[[Mapping[str, FloatArray]], Graph]
    """Function from those tensors to the network."""
    spec: Mapping[str, Any]
    """Learned scheme: what the network observes and moves."""
    missing: Sequence[str]
    """Parts of the controller that the spec cannot say."""


def import_checkpoint(name: str, path: Path) -> Artifact:
    """Returns the artifact of the published controller `name` with the weights at `path`.

    Raises PolicyError for a checkpoint that is unreadable, damaged or of another network.
    """
    controller = CONTROLLERS[name]
    graph = controller.graph(read(path, controller.wanted, controller.title))
    training = {
        "imported": controller.title,
        "source": controller.source,
        "licence": controller.licence,
        "files": sha256(path),
    }
    spec = Spec.of(_core.learned(json.dumps(controller.spec)))
    params = dict(spec.params)
    return Artifact(spec.interface, graph, params, training, missing=list(controller.missing))


# Networks.

_BATCH_NORM_EPSILON = 1e-3
"""Epsilon of tf.layers.batch_normalization, which both actors use without gamma."""
_LEAKY_SLOPE = 0.2


def _actor(widths: Sequence[int]) -> list[Wanted]:
    """Returns the tensors of an actor with these widths, from its input to its output."""
    found = []
    last = len(widths) - 2
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        dense = "actor/dense" if layer == last else f"actor/fc{layer + 1}"
        found += [
            Wanted(f"layer{layer}.weight", f"{dense}/kernel", (outputs, inputs)),
            Wanted(f"layer{layer}.bias", f"{dense}/bias", (outputs,)),
        ]
        if layer < last:
            norm = "actor/batch_normalization" + (f"_{layer}" if layer else "")
            parts = {"beta": "beta", "mean": "moving_mean", "var": "moving_variance"}
            found += [Wanted(f"bn{layer}.{ours}", f"{norm}/{theirs}", (outputs,)) for ours, theirs in parts.items()]
    return found


def _actor_graph(tensors: Mapping[str, FloatArray], history: int) -> Graph:
    """Returns an actor: dense layers, each but the last with batch normalisation and a leaky ReLU, and tanh.

    The authors' input has one state after the other, and ours one signal after the other: the first layer's columns are
    ordered anew.
    """
    layers = [name.removesuffix(".weight") for name in tensors if name.startswith("layer") and name.endswith(".weight")]
    weights = {f"{layer}.{part}": tensors[f"{layer}.{part}"] for layer in layers for part in ("weight", "bias")}
    first = weights["layer0.weight"]
    outputs, inputs = first.shape
    weights["layer0.weight"] = first.reshape(outputs, history, -1).transpose(0, 2, 1).reshape(outputs, inputs)
    nodes: list[Node] = []

    def then(name: str, op: str, attributes: Mapping[str, Any]) -> None:
        nodes.append(Node(name, op, (nodes[-1].name if nodes else OBSERVATION,), attributes))

    for index, layer in enumerate(layers):
        then(layer, "linear", {"weight": f"{layer}.weight", "bias": f"{layer}.bias"})
        if layer == layers[-1]:
            then("action", "tanh", {})
            break
        norm = f"bn{index}"
        beta, mean, var = (np.asarray(tensors[f"{norm}.{part}"], np.float64) for part in ("beta", "mean", "var"))
        scale = 1 / np.sqrt(var + _BATCH_NORM_EPSILON)
        weights |= {
            f"{norm}.scale": scale.astype(np.float32),
            f"{norm}.shift": (beta - mean * scale).astype(np.float32),
        }
        then(norm, "affine", {"scale": f"{norm}.scale", "shift": f"{norm}.shift"})
        then(f"{layer}.active", "leaky_relu", {"slope": _LEAKY_SLOPE})
    return Graph(inputs, tuple(nodes), nodes[-1].name, weights)


_UNITS, _ACTIONS, _NUMBERS = 32, 5, 4
"""Units of Indigo's cell, its actions, and the numbers that it observes beside its last action."""
_DOUBLING = 4
"""Action that Indigo is told to have taken before its first decision (dagger/run_sender.py)."""
_FORGET_BIAS = 1.0
"""Bias of TensorFlow's basic LSTM cell that is not among its stored weights."""


def _indigo_graph(tensors: Mapping[str, FloatArray]) -> Graph:
    """Returns Indigo's network: one LSTM cell, and a linear layer to the scores of the actions.

    Its input is four numbers and the last action as a one-hot vector. The greatest score has the greatest probability,
    so that the softmax behind it is left out.
    """
    inputs, steps = _NUMBERS + _ACTIONS, (_ACTIONS, _ACTIONS + 2)
    # TensorFlow's gates are input, candidate, forget, output; ours input, forget, candidate, output.
    gates = np.concatenate([np.arange(_UNITS) + gate * _UNITS for gate in (0, 2, 1, 3)])
    kernel, bias = tensors["lstm.kernel"][gates], tensors["lstm.bias"][gates].copy()
    bias[_UNITS : 2 * _UNITS] += np.float32(_FORGET_BIAS)
    # Before the first decision the doubling counts as the last action.
    doubling = np.eye(_ACTIONS, dtype=np.float32)[_DOUBLING]
    weights = {
        "lstm.weight_ih": np.ascontiguousarray(kernel[:, :inputs]),
        "lstm.weight_hh": np.ascontiguousarray(kernel[:, inputs:]),
        "lstm.bias_ih": bias,
        "lstm.bias_hh": np.zeros_like(bias),
        "out.weight": tensors["out.weight"],
        "out.bias": tensors["out.bias"],
        # A whole number i as a one-hot vector: entry k is (i - k + 1)+ - 2 (i - k)+ + (i - k - 1)+.
        "steps.weight": np.ones((_ACTIONS + 2, 1), np.float32),
        "steps.bias": -np.arange(-1, _ACTIONS + 1, dtype=np.float32),
        "taken.weight": (np.eye(*steps) - 2 * np.eye(*steps, 1) + np.eye(*steps, 2)).astype(np.float32),
        "taken.bias": -doubling,
        "doubling": doubling,
        "one": np.ones(1, np.float32),
    }
    cell = {key: f"lstm.{key}" for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    nodes = (
        Node("numbers", "slice", (OBSERVATION,), {"axis": 0, "start": 0, "stop": _NUMBERS}),
        Node("index", "slice", (OBSERVATION,), {"axis": 0, "start": _NUMBERS, "stop": _NUMBERS + 1}),
        Node("steps", "linear", ("index",), {"weight": "steps.weight", "bias": "steps.bias"}),
        Node("passed", "relu", ("steps",)),
        Node("taken", "linear", ("passed",), {"weight": "taken.weight", "bias": "taken.bias"}),
        Node("asked", "mul", ("taken", "began")),
        Node("last", "affine", ("asked",), {"shift": "doubling"}),
        Node("input", "concat", ("numbers", "last"), {"axis": 0}),
        Node("cell", "lstm", ("input", "memory"), cell),
        Node("hidden", "slice", ("cell",), {"axis": 0, "start": 0, "stop": _UNITS}),
        Node("scores", "linear", ("hidden",), {"weight": "out.weight", "bias": "out.bias"}),
        Node("begun", "affine", ("began",), {"scale": 0.0, "shift": "one"}),
    )
    state = (State("memory", (2 * _UNITS,), "cell"), State("began", (1,), "begun"))
    return Graph(_NUMBERS + 1, nodes, "scores", weights, state)


# Specs. A signal that cannot be said is an input of its name.

_MOST = 100.0
"""Largest value of what a network observes, beyond what any of the published controllers meets."""


def _own(name: str, scale: float = 1.0) -> dict[str, Any]:
    return {"signal": name, "offset": 0.0, "scale": scale, "clip": [0.0, _MOST]}


def _unsaid(name: str) -> dict[str, Any]:
    return {"signal": "input", "name": name}


def _inputs(docs: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"default": 0.0, "min": 0.0, "max": _MOST, "doc": doc} for name, doc in docs.items()}


_BEST = "the highest mean of a period so far"
_ORCA_INPUTS = {
    "rate_mean_ratio": f"mean of the transport's delivery-rate samples of the period over {_BEST}",
    "pacing_ratio": f"pacing rate over {_BEST}, at most 10",
    "loss_ratio_5": f"5 x lost bytes per second over {_BEST}",
    "rtt_samples_ratio": "RTT samples of the period over the window in segments",
    "rtt_min_share": "smallest RTT over smoothed RTT",
    "delay_metric": "1.25 x smallest RTT over smoothed RTT, at most 1",
}
_ASTRAEA_INPUTS = {
    "rate_mean_ratio": f"mean of the transport's delivery-rate samples of the period over {_BEST}; 0.5 without one",
    "rtt_ratio_2": "mean over smallest RTT, at most 2; 2 without a sample",
    "srtt_ratio_2": "smoothed over smallest RTT, at most 2; 2 without a sample",
    "window_share": f"window x 1460 x 8 / smallest RTT in s / {_BEST} in bytes/s / 10, at most 2",
    "rate_mean_max": f"{_BEST} of the delivery-rate samples, in units of 10^7 bytes/s",
    "loss_ratio_max": f"lost bytes per second over {_BEST}",
    "packets_out_ratio": "segments sent and not cumulatively acknowledged over the window",
    "pacing_ratio": f"pacing rate over {_BEST}, at most 2",
    "retransmitted_ratio": "retransmitted segments in flight over the window",
}
_INDIGO_INPUTS = {
    "delay_ewma_ms": "RTT less the smallest one, averaged over the period's ACKs with gain 1/8, begun anew each period",
    "delivery_ewma_mbps": "delivery rate of each ACK, averaged in the same way",
    "send_ewma_mbps": "bytes sent since the acknowledged datagram left, over its RTT, averaged in the same way",
}

CONTROLLERS: dict[str, Controller] = {
    "orca": Controller(
        title="Orca",
        source="github.com/Soheil-ab/Orca, commit cafaf9a31cb63a5b8754e1f410776d35b8ce47d0",
        licence="MIT, Copyright 2020 Soheil Abbasloo and Chen-Yu Yen",
        wanted=_actor((70, 256, 256, 1)),
        graph=lambda tensors: _actor_graph(tensors, 10),
        spec={
            "learned": 1,
            "name": "orca-published",
            "summary": "Orca as its authors published it: CUBIC, and a network that scales its window",
            "source": "Abbasloo, Yen and Chao, SIGCOMM 2020; its published code",
            "departures": ["A period has 30 ms: the code waits 20 ms, and then about 10 ms for the network's answer."],
            "clock": {"kind": "fixed", "period_ms": 30},
            "observe": {
                "history": 10,
                "signals": [
                    *map(_unsaid, list(_ORCA_INPUTS)[:4]),
                    _own("interval_ms", 1e-3),
                    *map(_unsaid, list(_ORCA_INPUTS)[4:]),
                ],
            },
            "act": {"kind": "window_exp2", "bounds": [-1, 1], "max": 2, "window_limit": 1000},
            "base": {"kind": "cubic", "pacing_gain": 1},
            "inputs": _inputs(_ORCA_INPUTS),
        },
        missing=(
            "signals that are quotients of others",
            "a signal of the mean delivery-rate sample of a period, and its highest value so far",
            "a signal of the number of RTT samples in a period",
            "an action on the window in whole percent, rounded down, to 4 segments at least",
            "the start, in which the window grows by a tenth every 2 ms until it exceeds the slow-start threshold",
        ),
    ),
    "astraea": Controller(
        title="Astraea",
        source="github.com/xudongliao/astraea-open-source, commit becc7cfe11c43b56e263e284ef0a99ce95da03c8",
        licence="none stated: it must not be redistributed",
        wanted=_actor((50, 256, 128, 64, 1)),
        graph=lambda tensors: _actor_graph(tensors, 5),
        spec={
            "learned": 1,
            "name": "astraea-published",
            "summary": "Astraea as its authors published it: a network that moves the window every 30 ms",
            "source": "Liao et al., EuroSys 2024; its published Python code",
            "clock": {"kind": "timer", "period_ms": 30},
            "observe": {
                "history": 5,
                "signals": [
                    *map(_unsaid, list(_ASTRAEA_INPUTS)[:5]),
                    _own("rtt_min_ms", 2e-3),
                    *map(_unsaid, list(_ASTRAEA_INPUTS)[5:]),
                ],
            },
            "act": {"kind": "window_exp2", "bounds": [-1, 1], "max": 0.0356, "window_limit": 1000},
            "base": {"kind": "none", "pacing_gain": 1},
            "inputs": _inputs(_ASTRAEA_INPUTS),
        },
        missing=(
            "signals that are quotients of others, with a value of their own without a sample",
            "a signal of the mean delivery-rate sample of a period, and its highest value so far",
            "signals of segments not cumulatively acknowledged, and of retransmitted segments in flight",
            "an action on the window by a factor, 1 + 0.025 a rounded up or 1 / (1 - 0.025 a) rounded down, to 4 "
            "segments at least",
        ),
    ),
    "indigo": Controller(
        title="Indigo",
        source="github.com/StanfordSNR/indigo, commit 463d89b09699a57bfdfbae351646df6a60040b90",
        licence="Apache-2.0, Copyright 2018 Francis Y. Yan, Jestin Ma",
        wanted=[
            *(
                Wanted(f"lstm.{part}", f"global/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/{part}", shape)
                for part, shape in (("kernel", (4 * _UNITS, 41)), ("bias", (4 * _UNITS,)))
            ),
            Wanted("out.weight", "global/fully_connected/weights", (_ACTIONS, _UNITS)),
            Wanted("out.bias", "global/fully_connected/biases", (_ACTIONS,)),
        ],
        graph=_indigo_graph,
        spec={
            "learned": 1,
            "name": "indigo-published",
            "summary": "Indigo as its authors published it: five operations on the window, by a recurrent network",
            "source": "Yan et al., Pantheon, USENIX ATC 2018; its published code",
            "departures": [
                "A period has 11 ms: the code decides at the first ACK after more than 10 ms of a clock in whole "
                "milliseconds.",
                "The transport repairs losses, and counts segments in flight; the code repairs none, and counts from "
                "the highest acknowledged datagram.",
            ],
            "clock": {"kind": "fixed", "period_ms": 11},
            "observe": {
                "history": 1,
                "signals": [
                    *({**_unsaid(name), "scale": 1 / 200, "clip": [0.0, _MOST]} for name in _INDIGO_INPUTS),
                    _own("cwnd_packets", 1 / 5000),
                    {"signal": "last_action", "scale": 1, "clip": [0, _ACTIONS - 1]},
                ],
            },
            "act": {"kind": "window_ops", "ops": ["/2", "-10", "+0", "+10", "*2"]},
            "base": {"kind": "none", "pacing_gain": 0},
            "inputs": {name: {**each, "max": 200 * _MOST} for name, each in _inputs(_INDIGO_INPUTS).items()},
        },
        missing=(
            "signals that average the samples of a period's ACKs with a gain, begun anew each period",
            "signals of each ACK's RTT, delivery rate and sending rate, in a clock of whole milliseconds",
        ),
    ),
}
"""Published controllers by the name that `ccarena policy import` takes."""
