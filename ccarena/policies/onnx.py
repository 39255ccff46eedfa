"""A policy as an ONNX model: raw observations in, logits or the continuous action out, normalisation included.

Inputs: `observation` `[N, length]` and one per recurrent state, `[N, *shape]`; outputs: `output` `[N, outputs]` and
each state as it is afterwards, `NAME_next`. The largest of the logits is the action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core.files import replacing
from ccarena.errors import MissingDependencyError, PolicyError, cannot_write
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Node

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise MissingDependencyError.for_extra("onnx", "onnx", "exporting a policy to ONNX") from error

OPSET = 20
"""First operation set of ONNX with GELU."""
IR_VERSION = 10
"""File version that runtimes of the same age as `OPSET` can read."""


def export(artifact: Artifact, path: str | Path) -> None:
    """Writes the ONNX model of `artifact`. Raises ConfigError or WriteError if the file cannot be written."""
    model = to_onnx(artifact)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(Path(path)) as file:
            file.write(model.SerializeToString())
    except OSError as error:
        raise cannot_write(path, error, what="the model") from error


def to_onnx(artifact: Artifact) -> Any:
    """Returns the `onnx.ModelProto` of `artifact`."""
    graph = artifact.graph
    writer = _Writer(graph.shapes())
    x = OBSERVATION
    normalisation = artifact.interface.normalisation
    for op, constant in (("Sub", normalisation.offset), ("Mul", normalisation.scale)):
        x = writer.add(op, [x, writer.constant(constant)])
    x = writer.add("Max", [x, writer.constant(normalisation.low)])
    x = writer.add("Min", [x, writer.constant(normalisation.high)])
    writer.names[OBSERVATION] = x
    for state in graph.state:
        writer.names[state.name] = state.name
    for name, tensor in graph.tensors.items():
        writer.tensors[name] = np.asarray(tensor)
    for node in graph.nodes:
        writer.names[node.name] = OPERATIONS[node.op](
            writer, node, [writer.names[i] for i in node.inputs], node.attributes
        )
    y = writer.names[graph.output]
    if artifact.interface.bounds is not None:
        ends = np.array(artifact.interface.bounds, np.float32).T
        if ends.shape == (2, 1):
            y = writer.add("Clip", [y, *(writer.constant(end[0]) for end in ends)])
        else:
            # `Clip` takes one pair of numbers.
            low, high = (writer.constant(end) for end in ends)
            y = writer.add("Min", [writer.add("Max", [y, low]), high])
    writer.add("Identity", [y], output="output")
    for state in graph.state:
        writer.add("Identity", [writer.names[state.next]], output=f"{state.name}_next")

    def described(name: str, shape: Sequence[int]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])

    states = [(state.name, state.shape) for state in graph.state]
    proto = helper.make_graph(
        writer.nodes,
        "policy",
        [described(OBSERVATION, (graph.input,)), *(described(*state) for state in states)],
        [
            described("output", (artifact.interface.outputs,)),
            *(described(f"{name}_next", shape) for name, shape in states),
        ],
        writer.initializers,
    )
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "ccarena"
    for key, value in (("spec", artifact.interface.spec), ("digest", artifact.interface.digest)):
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model, full_check=True)
    return model


class _Writer:
    """Writer that collects nodes, and maps the graph's names to ONNX's."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.names: dict[str, str] = {}
        self.tensors: dict[str, np.ndarray] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def add(self, op: str, inputs: Sequence[str], output: str | None = None, count: int = 1, **attributes: Any) -> str:
        """Adds a node and returns the name of its (first) output. `count` outputs are NAME.0, NAME.1 and so on."""
        name = output or f"/v{len(self.nodes)}"
        outputs = [name] if count == 1 else [f"{name}.{k}" for k in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, **attributes))
        return outputs[0]

    def constant(self, value: Any) -> str:
        """Adds an initializer."""
        name = f"/c{len(self.initializers)}"
        array = np.asarray(value)
        array = array if array.dtype == np.int64 else array.astype(np.float32)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def tensor(self, attributes: Mapping[str, Any], key: str, change: Callable[[Any], Any] = lambda t: t) -> str | None:
        """Adds the changed tensor that an attribute names as an initializer."""
        name = attributes.get(key)
        return None if name is None else self.constant(change(self.tensors[name]))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Reshapes `x` to `[N, *shape]`."""
        return self.add("Reshape", [x, self.constant(np.array([-1, *shape], np.int64))])


Operation = Callable[[_Writer, Node, Sequence[str], Mapping[str, Any]], str]


def _plain(op: str, **renamed: str) -> Operation:
    """Returns ONNX's operation of the same meaning, with its attributes by the graph's names."""

    def write(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
        return w.add(op, inputs, **{theirs: a[ours] for theirs, ours in renamed.items() if ours in a})

    return write


def _linear(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    weight, bias = w.tensor(a, "weight", np.transpose), w.tensor(a, "bias")
    y = w.add("MatMul", [inputs[0], str(weight)])
    return y if bias is None else w.add("Add", [y, bias])


def _conv1d(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    weights = [name for name in (w.tensor(a, "weight"), w.tensor(a, "bias")) if name]
    padding = a.get("padding", 0)
    sizes: dict[str, Any] = {
        "strides": [a.get("stride", 1)],
        "dilations": [a.get("dilation", 1)],
        "pads": [padding, padding],
    }
    return w.add("Conv", [inputs[0], *weights], **sizes)


def _cell(w: _Writer, node: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    lstm = node.op == "lstm"
    hidden = w.tensors[a["weight_hh"]].shape[1]
    # Gates of PyTorch's order in ONNX's: r z n as z r n, i f g o as i o f g.
    order = [0, 3, 1, 2] if lstm else [1, 0, 2]

    def gates(t: np.ndarray) -> np.ndarray:
        return np.concatenate([t[k * hidden : (k + 1) * hidden] for k in order])[None]

    shape = w.shapes[node.inputs[0]]
    steps = shape[0] if len(shape) == 2 else 1
    x = w.add("Transpose", [w.reshape(inputs[0], (steps, shape[-1]))], perm=[1, 0, 2])
    weights = [w.tensor(a, key, gates) for key in ("weight_ih", "weight_hh")]
    bias = ""
    if a.get("bias_ih"):
        both = [gates(w.tensors[a[key]]) for key in ("bias_ih", "bias_hh")]
        bias = w.constant(np.concatenate(both, axis=1))
    starts: list[str] = []
    if len(inputs) > 1:
        for k in range(2 if lstm else 1):
            limits = [w.constant(np.array([n], np.int64)) for n in (k * hidden, (k + 1) * hidden, 1)]
            part = w.add("Slice", [inputs[1], *limits])
            starts.append(w.add("Unsqueeze", [part, w.constant(np.array([0], np.int64))]))
    if not lstm:
        y = w.add("GRU", [x, *map(str, weights), bias, "", *starts], hidden_size=hidden, linear_before_reset=1)
        return w.reshape(w.add("Transpose", [y], perm=[2, 0, 1, 3]), w.shapes[node.name])
    if steps > 1:
        raise PolicyError(
            f'graph node "{node.name}" (lstm): ONNX gives the cell state of the last step alone, and the graph '
            "has that of each; export a network whose LSTM takes one step per decision, or a GRU"
        )
    name = w.add("LSTM", [x, *map(str, weights), bias, "", *starts], count=3, hidden_size=hidden)
    last = [w.reshape(f"{name[:-2]}.{k}", (hidden,)) for k in (1, 2)]
    return w.reshape(w.add("Concat", last, axis=1), w.shapes[node.name])


def _layer_norm(w: _Writer, node: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    width = w.shapes[node.name][-1]
    weight = w.tensor(a, "weight") or w.constant(np.ones(width))
    bias = [name for name in (w.tensor(a, "bias"),) if name]
    return w.add("LayerNormalization", [inputs[0], weight, *bias], axis=-1, epsilon=a.get("eps", 1e-5))


def _embedding(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    bounds = [w.constant(np.float32(n)) for n in (0, len(w.tensors[a["weight"]]) - 1)]
    index = w.add("Cast", [w.add("Clip", [inputs[0], *bounds])], to=TensorProto.INT64)
    return w.add("Gather", [str(w.tensor(a, "weight")), index])


def _slice(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    limits = [w.constant(np.array([n], np.int64)) for n in (a["start"], a["stop"], a["axis"] + 1)]
    return w.add("Slice", [inputs[0], *limits])


def _affine(w: _Writer, _: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    y = inputs[0]
    for op, key in (("Mul", "scale"), ("Add", "shift")):
        if key in a:
            value = a[key]
            y = w.add(op, [y, w.constant(w.tensors[value] if isinstance(value, str) else np.float32(value))])
    return y


def _div(w: _Writer, node: Node, inputs: Sequence[str], a: Mapping[str, Any]) -> str:
    zero = w.constant(np.float32(0))
    by_zero = w.add("Equal", [inputs[1], zero])
    divisor = w.add("Where", [by_zero, w.constant(np.float32(np.inf)), inputs[1]])
    return _pair("Div")(w, node, [inputs[0], divisor], a)


def _pair(op: str) -> Operation:
    def write(w: _Writer, node: Node, inputs: Sequence[str], _: Mapping[str, Any]) -> str:
        rank = len(w.shapes[node.name])
        padded = []
        for name, value in zip(node.inputs, inputs, strict=True):
            shape = w.shapes[name]
            padded.append(value if len(shape) == rank else w.reshape(value, (*(1,) * (rank - len(shape)), *shape)))
        return w.add(op, padded)

    return write


OPERATIONS: dict[str, Operation] = {
    "linear": _linear,
    "conv1d": _conv1d,
    "gru": _cell,
    "lstm": _cell,
    "layer_norm": _layer_norm,
    "embedding": _embedding,
    "concat": lambda w, n, x, a: w.add("Concat", x, axis=a["axis"] + 1),
    "slice": _slice,
    "reshape": lambda w, n, x, a: w.reshape(x[0], a["shape"]),
    "transpose": lambda w, n, x, a: w.add("Transpose", x, perm=[0, *(axis + 1 for axis in a["axes"])]),
    "relu": _plain("Relu"),
    "leaky_relu": lambda w, n, x, a: w.add("LeakyRelu", x, alpha=a.get("slope", 0.01)),
    "elu": lambda w, n, x, a: w.add("Elu", x, alpha=a.get("alpha", 1.0)),
    "silu": lambda w, n, x, a: w.add("Mul", [x[0], w.add("Sigmoid", x)]),
    "gelu": _plain("Gelu", approximate="approximate"),
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "softplus": _plain("Softplus"),
    "exp": lambda w, n, x, a: w.add("Exp", [w.add("Min", [x[0], w.constant(np.float32(88))])]),
    "clip": lambda w, n, x, a: w.add(
        "Clip", [x[0], *(w.constant(np.float32(a[k])) if k in a else "" for k in ("low", "high"))]
    ),
    "softmax": lambda w, n, x, a: w.add("Softmax", x, axis=a["axis"] + 1),
    "mean": lambda w, n, x, a: w.add("ReduceMean", [x[0], w.constant(np.array([a["axis"] + 1], np.int64))], keepdims=0),
    "add": _pair("Add"),
    "mul": _pair("Mul"),
    "div": _div,
    "affine": _affine,
}
"""Operations by the graph's names."""
