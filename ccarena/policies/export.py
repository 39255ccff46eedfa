"""Export of a PyTorch module as an artifact's graph, by tracing (torch.fx).

The module takes observations `[N, length]`. A recurrent module also takes each of its states as an argument, `[N,
*shape]`. It returns its output `[N, actions]`, followed by each new state in the same order.

The user's own modules are traced through. PyTorch's operations are listed at the end of this file. An unsupported
operation is refused with the line that calls it.
"""

from __future__ import annotations

import copy
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from ccarena.errors import MissingDependencyError, PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, OPERATIONS, FloatArray, Graph, Node, State, run
from ccarena.policies.interface import Interface

try:
    import torch
    from torch import Tensor, fx, nn
except ImportError as error:
    raise MissingDependencyError.for_extra("torch", "train", "exporting a policy") from error

_TORCH = os.path.dirname(torch.__file__) + os.sep
BATCH = object()
"""Size of the batch while tracing; no result may depend on it."""


def to_graph(module: nn.Module, observation_len: int, *, state: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """Returns the graph of `module`, from the normalised observation to its output, without parts that only training
    uses.

    `state` names the recurrent states, in the order of the arguments, with their shapes without the batch axis.

    Raises PolicyError, with the line if it is known, for an operation that the graph lacks or computes otherwise.
    """
    module = copy.deepcopy(module).cpu().float().eval()
    module.requires_grad_(False)
    states = {name: tuple(shape) for name, shape in (state or {}).items()}
    graph = _Exporter(module, observation_len, states).graph
    _compare(module, graph)
    return graph


def check(module: nn.Module, interface: Interface, *, state: Mapping[str, Sequence[int]] | None = None) -> None:
    """Raises PolicyError unless `module` can be a policy for `interface`; call it before training starts."""
    Artifact.of(to_graph(module, interface.observation_len, state=state), interface).encode()


def _compare(module: nn.Module, graph: Graph) -> None:
    """Raises PolicyError if the module computes something else than its graph."""
    generator = np.random.default_rng(0)
    # Within 0..1, as most of what is normalised, and no index of an embedding that is out of range.
    x = generator.random((8, graph.input), dtype=np.float32)
    given = generator.random((8, graph.state_len), dtype=np.float32)
    parts, start = [], 0
    for each in graph.state:
        parts.append(torch.from_numpy(given[:, start : start + each.size].copy()).reshape(8, *each.shape))
        start += each.size
    with torch.no_grad():
        found = _flat(module(torch.from_numpy(x), *parts))
    expected = run(graph, x, given)
    results = [found[0], torch.cat([v.reshape(8, -1) for v in found[1:]], dim=1)] if parts else [found[0]]
    for ours, result in zip(expected, results, strict=False):
        theirs = result.numpy().reshape(ours.shape)
        scale = max(1.0, float(np.abs(theirs).max(initial=0)))
        if not np.allclose(ours, theirs, rtol=0, atol=1e-4 * scale):
            raise PolicyError(
                f"{type(module).__name__}: the exported graph gives {ours.ravel()[:3]} where the module gives "
                f"{theirs.ravel()[:3]}; does it depend on the batch, or on something that is random?"
            )


def _flat(results: Any) -> list[Tensor]:
    return [t for each in results for t in _flat(each)] if isinstance(results, (tuple, list)) else [results]


@dataclass(frozen=True)
class _Value:
    """Value of the graph, and the tensor that it represents."""

    name: str
    shape: tuple[int, ...]
    """Shape of the value, without the batch axis."""
    batch: int = 0
    """Index of the tensor's batch axis."""
    integer: bool = False

    @property
    def rank(self) -> int:
        """Returns the number of the tensor's axes."""
        return len(self.shape) + 1


class _Unsupported(Exception):
    """Operation that the graph lacks; the message names the operation, not the place."""


class _Tracer(fx.Tracer):
    """Tracer that notes the source line of each operation; the stack traces of fx would load PyTorch's compiler
    first.
    """

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Returns a node with its `place` in `meta`: file and line."""
        node = super().create_node(*args, **kwargs)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename != __file__:
            node.meta["place"] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return node


class _Exporter:
    """Exporter: walks through the graph of fx, and writes a node for each operation that depends on the observation."""

    def __init__(self, module: nn.Module, observation_len: int, states: Mapping[str, tuple[int, ...]]) -> None:
        self._module = module
        self._nodes: list[Node] = []
        self._tensors: dict[str, FloatArray] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._names = {id(value): name for name, value in [*module.named_parameters(), *module.named_buffers()]}
        self._env: dict[fx.Node, Any] = {}
        arguments = list(inspect.signature(module.forward).parameters.values())
        optional = {p.name: p.default for p in arguments[1 + len(states) :] if p.default is not p.empty}
        tracer = _Tracer()
        try:
            traced = tracer.trace(module, concrete_args=optional or None)
        except Exception as error:  # whatever the user's code does with what it is traced with
            raise PolicyError(
                f"{_raised_at(error)}: {type(module).__name__} cannot be traced: {error}; a network must do the same "
                "whatever the observation"
            ) from error
        inputs = [_Value(OBSERVATION, (observation_len,)), *(_Value(name, shape) for name, shape in states.items())]
        for value in inputs:
            self._shapes[value.name] = value.shape
        given = iter(inputs)
        results: list[Any] = []
        for node in traced.nodes:
            self._current = node
            if node.op == "placeholder":
                self._env[node] = next(given, None)
                if self._env[node] is None and not node.args and node.target not in optional:
                    raise PolicyError(
                        f"{type(module).__name__}.forward: argument `{node.target}` is neither the observation nor a "
                        f"state; states given: {list(states) or 'none'}"
                    )
            elif node.op == "output":
                results = _flat(self._look_up(node.args[0]))
            else:
                try:
                    self._env[node] = self._node(node)
                except _Unsupported as error:
                    raise PolicyError(self._refusal(node, str(error))) from None
        self.graph = self._finish(observation_len, states, results)

    def _finish(self, length: int, states: Mapping[str, tuple[int, ...]], results: list[Any]) -> Graph:
        name = type(self._module).__name__
        if len(results) != 1 + len(states):
            raise PolicyError(
                f"{name}.forward returns {len(results)} tensors; expected the output and each of the states: "
                f"{1 + len(states)}"
            )
        for result, shape in zip(results[1:], states.values(), strict=True):
            if not isinstance(result, _Value) or result.shape != shape or result.batch != 0:
                raise PolicyError(f"{name}.forward: a state after the decision is {result}; expected [N, *{shape}]")
        output = results[0]
        if not isinstance(output, _Value):
            raise PolicyError(f"{name}.forward: the output does not depend on the observation")
        if len(output.shape) != 1:
            output = self.reshape(output, (math.prod(output.shape),))
        following = zip(states.items(), results[1:], strict=True)
        return Graph(
            length,
            tuple(self._nodes),
            output.name,
            self._tensors,
            tuple(State(key, shape, result.name) for (key, shape), result in following),
        )

    def _look_up(self, argument: Any) -> Any:
        """Returns an argument of fx with its nodes replaced by the values they represent."""
        if isinstance(argument, (tuple, list)):
            return type(argument)(self._look_up(a) for a in argument)
        if isinstance(argument, slice):
            return slice(*(self._look_up(a) for a in (argument.start, argument.stop, argument.step)))
        return self._env[argument] if isinstance(argument, fx.Node) else argument

    def _node(self, node: fx.Node) -> Any:
        args = tuple(self._look_up(a) for a in node.args)
        kwargs = {key: self._look_up(a) for key, a in node.kwargs.items()}
        if node.op == "get_attr":
            value: Any = self._module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return value
        depends = any(isinstance(a, _Value) for a in _flat([*args, *kwargs.values()]))
        if node.op == "call_module":
            module = self._module.get_submodule(str(node.target))
            layer = _find(LAYERS, type(module))
            if layer is None:
                raise _Unsupported(f"{type(module).__name__} `{node.target}`")
            return layer(self, module, *args, **kwargs)
        function: Any = node.target
        if node.op == "call_method":
            name = str(function)
            if not depends:
                return getattr(args[0], name)(*args[1:], **kwargs)
        else:
            name = getattr(function, "__name__", str(function))
            if not depends or (isinstance(args[0], (tuple, list)) and name == "getitem"):
                return function(*args, **kwargs)
        handler = FUNCTIONS.get(name.strip("_"))
        if handler is None:
            raise _Unsupported(f"{name}()")
        return handler(self, *args, **kwargs)

    def _refusal(self, node: fx.Node, what: str) -> str:
        where = node.meta.get("place", type(self._module).__name__)
        return (
            f"{where}: {what} cannot be exported; a policy's network is made of {', '.join(sorted(OPERATIONS))}, "
            "by PyTorch's usual names (docs/artifact.md)"
        )

    # What handlers write with.

    def add(self, op: str, inputs: Sequence[_Value], batch: int | None = None, **attributes: Any) -> _Value:
        """Adds a node; tensors among the attributes are kept, None left out."""
        kept = {}
        for key, value in attributes.items():
            if isinstance(value, Tensor):
                kept[key] = self._tensor(value)
            elif value is not None:
                kept[key] = value
        if any(value.integer for value in inputs) and op != "embedding":
            raise _Unsupported(f"{op} of integers")
        taken = {node.name for node in self._nodes} | {OBSERVATION, *self._shapes}
        stem = self._current.name
        name = next(n for n in (stem, *(f"{stem}.{k}" for k in range(1, 10_000))) if n not in taken)
        arrays = [np.zeros((1, *value.shape), np.float32) for value in inputs]
        try:
            shape = np.shape(OPERATIONS[op](arrays, kept, self._tensors))[1:]
        except (ValueError, IndexError) as error:
            raise _Unsupported(f"{op} of shapes {[value.shape for value in inputs]} ({error})") from None
        self._nodes.append(Node(name, op, tuple(value.name for value in inputs), kept))
        self._shapes[name] = tuple(shape)
        return _Value(name, tuple(shape), inputs[0].batch if batch is None else batch)

    def _tensor(self, value: Tensor) -> str:
        array = value.detach().to(torch.float32).cpu().numpy().copy()
        stem = self._names.get(id(value), f"{self._current.name}.constant")
        for name in (stem, *(f"{stem}.{k}" for k in range(1, 10_000))):
            known = self._tensors.setdefault(name, array)
            if known.shape == array.shape and np.array_equal(known, array):
                return name
        raise _Unsupported("so many constants")

    def reshape(self, x: _Value, shape: Sequence[int], batch: int | None = None) -> _Value:
        """Returns `x` with another shape, without the batch axis, and optionally with the batch axis elsewhere."""
        batch = x.batch if batch is None else batch
        if tuple(shape) == x.shape:
            return _Value(x.name, x.shape, batch, x.integer)
        made = self.add("reshape", [_Value(x.name, x.shape, x.batch)], batch, shape=[int(n) for n in shape])
        return _Value(made.name, made.shape, batch, x.integer)

    def slice(self, x: _Value, axis: int, start: int, stop: int) -> _Value:
        """Returns entries `start..stop` of an axis, counted without the batch."""
        if (start, stop) == (0, x.shape[axis]):
            return x
        made = self.add("slice", [_Value(x.name, x.shape, x.batch)], axis=axis, start=start, stop=stop)
        return _Value(made.name, made.shape, x.batch, x.integer)

    def axis(self, x: _Value, dim: int) -> int:
        """Returns a tensor's axis, counted without the batch."""
        dim = dim + x.rank if dim < 0 else dim
        if dim == x.batch or not 0 <= dim < x.rank:
            raise _Unsupported(f"an operation over axis {dim}, which is the batch's or none")
        return dim - (dim > x.batch)


def _find(layers: Mapping[type, Callable[..., Any]], kind: type) -> Callable[..., Any] | None:
    return next((layers[base] for base in kind.__mro__ if base in layers), None)


def _raised_at(error: Exception) -> str:
    trace, where = error.__traceback__, "the module"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/torch/" not in file and file != __file__:
            where = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where


# Handlers: the exporter, then PyTorch's arguments.


def _unary(op: str, *names: str) -> Callable[..., Any]:
    """Returns the handler of a unary operation. `names` map PyTorch's further arguments to attributes: `alpha` or
    `negative_slope=slope`.
    """
    pairs = [name.partition("=")[::2] for name in names]

    def handler(e: _Exporter, x: _Value, *args: Any, inplace: bool = False, **kwargs: Any) -> _Value:
        given = dict(zip((theirs for theirs, _ in pairs), args, strict=False)) | kwargs
        attributes = {ours or theirs: given.pop(theirs) for theirs, ours in pairs if theirs in given}
        if given:
            raise _Unsupported(f"{op} with {', '.join(given)}")
        return e.add(op, [x], **attributes)

    return handler


def _identity(_: _Exporter, x: Any, *_args: Any, **_kwargs: Any) -> Any:
    return x


def _dropout(_: _Exporter, x: _Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Value:
    if training:
        raise _Unsupported("dropout that is always on; pass training=self.training")
    return x


def _cast(_: _Exporter, x: _Value, *args: Any, **kwargs: Any) -> _Value:
    kind = kwargs.get("dtype", args[0] if args else None)
    if kind in (torch.int64, torch.int32):
        return _Value(x.name, x.shape, x.batch, True)
    if isinstance(kind, torch.dtype) and kind != torch.float32:
        raise _Unsupported(f"a conversion to {kind}")
    return x


def _constant(x: _Value, value: Any) -> Any:
    """Returns a constant as `affine` takes it: a number, or a tensor that repeats to the shape of `x` without the
    batch.
    """
    if value is BATCH:
        raise _Unsupported("a number that depends on the batch")
    if not isinstance(value, Tensor):
        return float(value)
    if value.numel() == 1 and value.ndim <= x.rank:
        return float(value)
    if value.ndim == x.rank:
        if value.shape[x.batch] != 1:
            raise _Unsupported("a constant of the batch's length")
        value = value.squeeze(x.batch)
    elif x.batch != 0:
        raise _Unsupported(f"a constant of shape {list(value.shape)} where the batch is axis {x.batch}")
    try:
        fits = torch.broadcast_shapes(value.shape, x.shape) == torch.Size(x.shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise _Unsupported(f"a constant of shape {list(value.shape)} with a value of shape {list(x.shape)}")
    return value


def _two(e: _Exporter, op: str, x: _Value, y: _Value) -> _Value:
    if x.batch != y.batch or x.rank != y.rank:
        raise _Unsupported(f"{op} of tensors with {x.rank} and {y.rank} axes")
    return e.add(op, [x, y])


def _add(e: _Exporter, x: Any, y: Any, alpha: float = 1) -> _Value:
    if isinstance(x, _Value) and isinstance(y, _Value):
        return _two(e, "add", x, y if alpha == 1 else e.add("affine", [y], scale=float(alpha)))
    x, y = (x, y * alpha) if isinstance(x, _Value) else (e.add("affine", [y], scale=float(alpha)), x)
    return e.add("affine", [x], shift=_constant(x, y))


def _negative(e: _Exporter, x: _Value) -> _Value:
    return e.add("affine", [x], scale=-1.0)


def _sub(e: _Exporter, x: Any, y: Any, alpha: float = 1) -> _Value:
    if isinstance(y, _Value):
        return _add(e, x, e.add("affine", [y], scale=-float(alpha)))
    return e.add("affine", [x], shift=_constant(x, -y * alpha))


def _mul(e: _Exporter, x: Any, y: Any) -> _Value:
    if isinstance(x, _Value) and isinstance(y, _Value):
        return _two(e, "mul", x, y)
    x, y = (x, y) if isinstance(x, _Value) else (y, x)
    return e.add("affine", [x], scale=_constant(x, y))


def _div(e: _Exporter, x: Any, y: Any, rounding_mode: str | None = None) -> _Value:
    if rounding_mode:
        raise _Unsupported("a division with rounding")
    if isinstance(x, _Value) and isinstance(y, _Value):
        return _two(e, "div", x, y)
    if isinstance(y, _Value):
        # A constant over a value is one over it, times the constant.
        return e.add("affine", [e.add("div", [e.add("affine", [y], scale=0.0, shift=1.0), y])], scale=_constant(y, x))
    return e.add("affine", [x], scale=_constant(x, 1.0 / y))


def _power(e: _Exporter, x: Any, exponent: Any) -> _Value:
    if not isinstance(x, _Value) or exponent != 2:
        raise _Unsupported(f"a power of {exponent}")
    return _two(e, "mul", x, x)


def _clamp(e: _Exporter, x: _Value, min: Any = None, max: Any = None) -> _Value:
    low, high = (_number(bound) for bound in (min, max))
    return e.add("clip", [x], low=low, high=high)


def _number(bound: Any) -> float | None:
    if isinstance(bound, Tensor):
        if bound.numel() == 0 or not bool((bound == bound.flatten()[0]).all()):
            raise _Unsupported("a clamp whose bounds differ by entry")
        return float(bound.flatten()[0])
    if isinstance(bound, _Value):
        raise _Unsupported("a clamp between bounds that are computed")
    return None if bound is None or math.isinf(bound) else float(bound)


def _linear(e: _Exporter, x: _Value, weight: Any, bias: Any = None) -> _Value:
    if not isinstance(weight, Tensor) or isinstance(bias, _Value):
        raise _Unsupported("a product with something that is no constant")
    if x.batch == x.rank - 1:
        raise _Unsupported("a linear layer over the batch")
    return e.add("linear", [x], weight=weight, bias=bias)


def _matmul(e: _Exporter, x: Any, y: Any) -> _Value:
    if not isinstance(x, _Value) or not isinstance(y, Tensor) or y.ndim != 2:
        raise _Unsupported("a product of matrices that is not with a constant one on the right")
    return _linear(e, x, y.T.contiguous())


def _conv1d(
    e: _Exporter,
    x: _Value,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> _Value:
    if groups != 1 or padding == "same" or x.rank != 3 or x.batch != 0:
        raise _Unsupported(
            'a convolution with groups, with padding "same", or of something else than [N, channels, length]'
        )
    padding = 0 if padding == "valid" else padding
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    numbers = {key: int(n[0] if isinstance(n, (tuple, list)) else n) for key, n in sizes.items()}
    return e.add("conv1d", [x], weight=weight, bias=bias, **numbers)


def _conv_layer(e: _Exporter, m: nn.Conv1d, x: _Value) -> _Value:
    if m.padding_mode != "zeros":
        raise _Unsupported(f"a convolution with {m.padding_mode} padding")
    return _conv1d(e, x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups)


def _layer_norm(
    e: _Exporter, x: _Value, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> _Value:
    if len(shape) != 1 or x.batch == x.rank - 1:
        raise _Unsupported("a layer normalisation over more than the last axis")
    return e.add("layer_norm", [x], weight=weight, bias=bias, eps=float(eps))


def _batch_norm(e: _Exporter, m: nn.BatchNorm1d, x: _Value) -> _Value:
    if x.rank != 2 or m.running_mean is None or m.running_var is None:
        raise _Unsupported("a batch normalisation of more than one axis, or without running statistics")
    scale = torch.rsqrt(m.running_var + m.eps) * (m.weight if m.affine else 1.0)
    shift = (m.bias if m.affine else 0.0) - m.running_mean * scale
    return e.add("affine", [x], scale=scale, shift=shift)


def _embedding(e: _Exporter, x: _Value, weight: Tensor, *_args: Any, **_kwargs: Any) -> _Value:
    if not x.integer:
        raise _Unsupported("an embedding of something that is no integer (.long())")
    return e.add("embedding", [x], weight=weight)


def _concat(e: _Exporter, values: Sequence[Any], dim: int = 0, axis: int | None = None) -> _Value:
    if any(not isinstance(v, _Value) or (v.batch, v.rank) != (values[0].batch, values[0].rank) for v in values):
        raise _Unsupported("a concatenation with a constant, or of tensors with different numbers of axes")
    return e.add("concat", values, axis=e.axis(values[0], dim if axis is None else axis))


def _stack(e: _Exporter, values: Sequence[Any], dim: int = 0) -> _Value:
    if any(not isinstance(v, _Value) for v in values):
        raise _Unsupported("a stack with a constant")
    return _concat(e, [_unsqueeze(e, v, dim) for v in values], dim)


def _unsqueeze(e: _Exporter, x: _Value, dim: int) -> _Value:
    dim = dim + x.rank + 1 if dim < 0 else dim
    before = dim <= x.batch
    at = dim if before else dim - 1
    return e.reshape(x, (*x.shape[:at], 1, *x.shape[at:]), x.batch + before)


def _squeeze(e: _Exporter, x: _Value, dim: int | None = None) -> _Value:
    if dim is None:
        raise _Unsupported("squeeze() without an axis, which may be the batch's")
    axis = e.axis(x, dim)
    if x.shape[axis] != 1:
        return x
    return e.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]), x.batch - (axis < x.batch))


def _reshape(e: _Exporter, x: _Value, *sizes: Any) -> _Value:
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    if x.batch != 0 or not sizes or not (sizes[0] is BATCH or sizes[0] == -1):
        raise _Unsupported("a reshape whose first axis is not the batch (x.shape[0], or -1)")
    rest = list(sizes[1:])
    if any(not isinstance(n, int) for n in rest):
        raise _Unsupported("a reshape to sizes that depend on the batch")
    if -1 in rest:
        known = math.prod(n for n in rest if n != -1)
        rest[rest.index(-1)] = math.prod(x.shape) // max(known, 1)
    if math.prod(rest) != math.prod(x.shape):
        raise _Unsupported(f"a reshape of {list(x.shape)} to {rest}, which mixes observations")
    return e.reshape(x, rest)


def _flatten(e: _Exporter, x: _Value, start_dim: int = 0, end_dim: int = -1) -> _Value:
    first, last = (e.axis(x, dim) for dim in (start_dim, end_dim))
    if first < x.batch <= last:
        raise _Unsupported("a flatten over the batch")
    return e.reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def _unflatten(e: _Exporter, x: _Value, dim: int, sizes: Sequence[int]) -> _Value:
    axis = e.axis(x, dim)
    sizes = [x.shape[axis] // max(1, -math.prod(sizes)) if n == -1 else n for n in sizes]
    if axis < x.batch:
        raise _Unsupported("an unflatten before the batch")
    return e.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def _permute(e: _Exporter, x: _Value, *order: Any) -> _Value:
    dims = tuple(order[0]) if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
    dims = tuple(d + x.rank if d < 0 else d for d in dims)
    axes = [d - (d > x.batch) for d in dims if d != x.batch]
    batch = dims.index(x.batch)
    if axes == sorted(axes):
        return _Value(x.name, x.shape, batch, x.integer)
    return e.add("transpose", [x], batch, axes=axes)


def _transpose(e: _Exporter, x: _Value, dim0: int, dim1: int) -> _Value:
    order = list(range(x.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(e, x, order)


def _getitem(e: _Exporter, x: Any, index: Any) -> Any:
    if not isinstance(x, _Value):
        raise _Unsupported("an index that is computed")
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in items:
        at = items.index(Ellipsis)
        missing = x.rank - (len([i for i in items if i is not None]) - 1)
        items[at : at + 1] = [slice(None)] * missing
    dim = 0
    for item in items:
        if item is None:
            x = _unsqueeze(e, x, dim)
            dim += 1
        elif isinstance(item, slice) and item == slice(None):
            dim += 1
        elif isinstance(item, int) or (isinstance(item, slice) and item.step in (None, 1)):
            axis = e.axis(x, dim)
            length = x.shape[axis]
            span = item if isinstance(item, slice) else slice(item, item + 1 or None)
            start, stop, _ = span.indices(length)
            if stop <= start:
                raise _Unsupported(f"the index {item} into {length} entries")
            x = e.slice(x, axis, start, stop)
            if isinstance(item, int):
                x = _squeeze(e, x, dim)
            else:
                dim += 1
        else:
            raise _Unsupported(f"the index {item!r}; slices have step 1")
    return x


def _split(e: _Exporter, x: _Value, size: Any, dim: int = 0) -> tuple[_Value, ...]:
    axis = e.axis(x, dim)
    length = x.shape[axis]
    sizes = [min(size, length - s) for s in range(0, length, size)] if isinstance(size, int) else list(size)
    ends = np.cumsum(sizes).tolist()
    return tuple(e.slice(x, axis, end - n, end) for n, end in zip(sizes, ends, strict=True))


def _chunk(e: _Exporter, x: _Value, chunks: int, dim: int = 0) -> tuple[_Value, ...]:
    return _split(e, x, -(-x.shape[e.axis(x, dim)] // chunks), dim)


def _select(e: _Exporter, x: _Value, dim: int, index: int) -> Any:
    return _getitem(e, x, (*(slice(None),) * (dim % x.rank), index))


def _mean(e: _Exporter, x: _Value, dim: Any = None, keepdim: bool = False) -> _Value:
    dims = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    if len(dims) != 1 or dims[0] is None:
        raise _Unsupported("a mean over the batch, or over several axes")
    axis = e.axis(x, dims[0])
    y = e.add("mean", [x], x.batch - (axis < x.batch), axis=axis)
    return e.reshape(y, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.batch) if keepdim else y


def _softmax(e: _Exporter, x: _Value, dim: int | None = None, **_kwargs: Any) -> _Value:
    if dim is None:
        raise _Unsupported("a softmax without an axis")
    return e.add("softmax", [x], axis=e.axis(x, dim))


def _softplus(e: _Exporter, x: _Value, beta: float = 1.0, threshold: float = 20.0) -> _Value:
    if beta == 1:
        return e.add("softplus", [x])
    return e.add("affine", [e.add("softplus", [e.add("affine", [x], scale=float(beta))])], scale=1.0 / beta)


def _getattr(_: _Exporter, x: _Value, name: str) -> Any:
    if name == "shape":
        return _size(_, x)
    if name in ("device", "dtype"):
        return torch.device("cpu") if name == "device" else torch.float32
    raise _Unsupported(f"the attribute {name}")


def _size(_: _Exporter, x: _Value, dim: int | None = None) -> Any:
    sizes = (*x.shape[: x.batch], BATCH, *x.shape[x.batch :])
    return sizes if dim is None else sizes[dim]


def _weights(m: Any, suffix: str = "") -> dict[str, Any]:
    keys = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {key: getattr(m, key + suffix, None) for key in keys}


def _gru_cell(e: _Exporter, m: nn.GRUCell, x: _Value, h: _Value | None = None) -> _Value:
    return e.add("gru", [x] if h is None else [x, h], **_weights(m))


def _lstm_cell(e: _Exporter, m: nn.LSTMCell, x: _Value, state: Any = None) -> tuple[_Value, _Value]:
    y = e.add("lstm", [x] if state is None else [x, e.add("concat", list(state), axis=0)], **_weights(m))
    return e.slice(y, 0, 0, m.hidden_size), e.slice(y, 0, m.hidden_size, 2 * m.hidden_size)


def _recurrent(e: _Exporter, m: Any, x: _Value, start: Any = None) -> tuple[Any, Any]:
    """Exports nn.GRU and nn.LSTM over a sequence, layer by layer: output and the last state(s), `[layers, N,
    hidden]`.
    """
    lstm, n = isinstance(m, nn.LSTM), m.hidden_size
    if m.bidirectional or getattr(m, "proj_size", 0) or x.rank != 3:
        raise _Unsupported(
            "a recurrent layer in both directions, with projections, or of something else than sequences"
        )
    if x.batch != (0 if m.batch_first else 1):
        raise _Unsupported(f"a recurrent layer whose batch is axis {x.batch} (batch_first={m.batch_first})")
    starts = [] if start is None else list(start) if lstm else [start]
    if any(s.batch != 1 or s.shape != (m.num_layers, n) for s in starts):
        raise _Unsupported(f"a recurrent layer whose state is not [{m.num_layers}, N, {n}]")
    batch, last = x.batch, []
    x = _Value(x.name, x.shape)
    for layer in range(m.num_layers):
        row = [e.reshape(e.slice(_Value(s.name, s.shape), 0, layer, layer + 1), (n,)) for s in starts]
        state = [e.add("concat", row, axis=0)] if lstm and row else row
        x = e.add("lstm" if lstm else "gru", [x, *state], **_weights(m, f"_l{layer}"))
        last.append(e.slice(x, 0, x.shape[0] - 1, x.shape[0]))
        x = e.slice(x, 1, 0, n)
    whole = e.add("concat", last, axis=0) if len(last) > 1 else last[0]
    parts = [e.slice(whole, 1, k * n, (k + 1) * n) for k in range(2 if lstm else 1)]
    after = tuple(_Value(p.name, p.shape, 1) for p in parts)
    return _Value(x.name, x.shape, batch), after if lstm else after[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "matmul": _matmul,
    "conv1d": _conv1d,
    "layer_norm": _layer_norm,
    "relu": _unary("relu"),
    "leaky_relu": _unary("leaky_relu", "negative_slope=slope"),
    "elu": _unary("elu", "alpha"),
    "silu": _unary("silu"),
    "gelu": _unary("gelu", "approximate"),
    "sigmoid": _unary("sigmoid"),
    "tanh": _unary("tanh"),
    "softplus": _softplus,
    "exp": _unary("exp"),
    "softmax": _softmax,
    "mean": _mean,
    "hardtanh": lambda e, x, min_val=-1.0, max_val=1.0, inplace=False: _clamp(e, x, min_val, max_val),
    "relu6": lambda e, x, inplace=False: _clamp(e, x, 0.0, 6.0),
    "dropout": _dropout,
    "add": _add,
    "radd": _add,
    "iadd": _add,
    "sub": _sub,
    "subtract": _sub,
    "isub": _sub,
    "mul": _mul,
    "multiply": _mul,
    "imul": _mul,
    "truediv": _div,
    "div": _div,
    "neg": _negative,
    "pow": _power,
    "square": lambda e, x: _power(e, x, 2),
    "clamp": _clamp,
    "clip": _clamp,
    "cat": _concat,
    "concat": _concat,
    "concatenate": _concat,
    "stack": _stack,
    "getitem": _getitem,
    "select": _select,
    "narrow": lambda e, x, dim, start, length: e.slice(x, e.axis(x, dim), start, start + length),
    "split": _split,
    "chunk": _chunk,
    "unbind": lambda e, x, dim=0: tuple(_select(e, x, dim, k) for k in range(x.shape[e.axis(x, dim)])),
    "reshape": _reshape,
    "view": _reshape,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "permute": _permute,
    "contiguous": _identity,
    "clone": _identity,
    "detach": _identity,
    "float": _identity,
    "to": _cast,
    "long": lambda e, x: _cast(e, x, torch.int64),
    "int": lambda e, x: _cast(e, x, torch.int32),
    "embedding": _embedding,
    "getattr": _getattr,
    "size": _size,
}
"""PyTorch's functions, operators and methods by name."""

LAYERS: dict[type, Callable[..., Any]] = {
    nn.Linear: lambda e, m, x: _linear(e, x, m.weight, m.bias),
    nn.Conv1d: _conv_layer,
    nn.GRU: _recurrent,
    nn.LSTM: _recurrent,
    nn.GRUCell: _gru_cell,
    nn.LSTMCell: _lstm_cell,
    nn.LayerNorm: lambda e, m, x: _layer_norm(e, x, m.normalized_shape, m.weight, m.bias, m.eps),
    nn.BatchNorm1d: _batch_norm,
    nn.Embedding: lambda e, m, x: _embedding(e, x, m.weight),
    nn.ReLU: lambda e, m, x: e.add("relu", [x]),
    nn.LeakyReLU: lambda e, m, x: e.add("leaky_relu", [x], slope=float(m.negative_slope)),
    nn.ELU: lambda e, m, x: e.add("elu", [x], alpha=float(m.alpha)),
    nn.SiLU: lambda e, m, x: e.add("silu", [x]),
    nn.GELU: lambda e, m, x: e.add("gelu", [x], approximate=m.approximate),
    nn.Sigmoid: lambda e, m, x: e.add("sigmoid", [x]),
    nn.Tanh: lambda e, m, x: e.add("tanh", [x]),
    nn.Softplus: lambda e, m, x: _softplus(e, x, m.beta, m.threshold),
    nn.Softmax: lambda e, m, x: _softmax(e, x, m.dim),
    nn.Hardtanh: lambda e, m, x: _clamp(e, x, m.min_val, m.max_val),
    nn.Flatten: lambda e, m, x: _flatten(e, x, m.start_dim, m.end_dim),
    nn.Unflatten: lambda e, m, x: _unflatten(e, x, m.dim, m.unflattened_size),
    nn.Identity: lambda e, m, x: x,
    nn.Dropout: lambda e, m, x: x,
}
"""PyTorch's layers by type; a subclass is treated as its base."""
