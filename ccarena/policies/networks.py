"""Networks: the built-in ones by name, or any `torch.nn.Module` of the user's own file.

A network is a class whose objects map normalised observations `[N, spec.size]` to `[N, outputs]`:

    class Net(nn.Module):
        def __init__(self, spec: Spec, outputs: int, hidden: int = 64) -> None: ...
        def forward(self, x: Tensor) -> Tensor: ...

Every further parameter of its constructor is a key of `network` in the configuration. One with memory names its states
and their shapes for one flow, `state = {"h": (32,)}`, has `forward(x, h) -> (y, h)`, and starts from zeros; algorithms
that learn without memory refuse it. Its operations have to be among those that an artifact can say
(`ccarena.policies.export`), which is checked before training starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ccarena.configs.schema import NetworkConfig
from ccarena.configs.userfile import bind, find, is_own
from ccarena.errors import ConfigError, MissingDependencyError, did_you_mean
from ccarena.policies.interface import Bounds

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:
    raise MissingDependencyError.for_extra("torch", "train", "training a policy") from error

if TYPE_CHECKING:
    from ccarena.policies.spec import Spec

GIVEN = ("spec", "outputs")
"""Parameters of a network's constructor that do not come from the configuration."""


def build(config: NetworkConfig, spec: Spec, outputs: int) -> nn.Module:
    """Returns the configured network. Raises ConfigError for an unknown name, an unknown argument, or a wrong value."""
    found = _named(config.name)
    arguments = bind(found, config.arguments, "network", config.name, GIVEN)
    try:
        network = found(spec=spec, outputs=outputs, **arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"network = {config.name}: it cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(network, nn.Module):
        raise ConfigError(f"network = {config.name}: it built {type(network).__name__}; expected a torch.nn.Module")
    return network


def has_memory(network: nn.Module) -> bool:
    """Returns whether `network` keeps a state from one decision to the next."""
    return bool(states_of(network))


def states_of(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns the states of `network` by name, with their shapes for one flow; empty for one without memory."""
    return dict(getattr(network, "state", None) or {})


def _named(name: str) -> Callable[..., Any]:
    if is_own(name):
        return find(name, "network")
    if name not in BUILT_IN:
        raise ConfigError(
            f"network = {name}: unknown network, and no FILE.py:CLASS of your own{did_you_mean(name, BUILT_IN)}"
        )
    return BUILT_IN[name]


class Mlp(nn.Module):
    """Fully connected layers with ReLUs."""

    def __init__(self, spec: Spec, outputs: int, hidden: Sequence[int] = (64, 64)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = spec.size
        for units in hidden:
            layers += [_orthogonal(nn.Linear(inputs, units), 2**0.5), nn.ReLU()]
            inputs = units
        self.layers = nn.Sequential(*layers)
        self.out = _orthogonal(nn.Linear(inputs, outputs), 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, spec.size]` to `[N, outputs]`."""
        y: Tensor = self.out(self.layers(x))
        return y


class SeriesConv(nn.Module):
    """Convolution in one dimension with a kernel as wide as its input, hence one matrix product: weight `[F,
    length]`.
    """

    def __init__(self, length: int, filters: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, length))
        self.bias = nn.Parameter(torch.zeros(filters))
        nn.init.orthogonal_(self.weight, gain=2**0.5)

    def forward(self, series: Tensor) -> Tensor:
        """Maps `[N, length]` to `[N, F]`."""
        return functional.linear(series, self.weight, self.bias)


class AcctConv(nn.Module):
    """Network of ACCT (paper, §II-C and Fig. 3), for any observation.

    Each series goes through a 1-D convolution as wide as the series, so that every filter gives one scalar, and a ReLU.
    The results and the entries without a history are fully connected to a hidden layer of ReLUs, and that to the
    output.

    The paper does not give the number of filters. The design follows Pensieve, which has 128; 8 keep inference in a
    kernel at microseconds.
    """

    def __init__(self, spec: Spec, outputs: int, filters: int = 8, hidden: int = 128) -> None:
        super().__init__()
        lengths = {name: where.stop - where.start for name, where in spec.signals.items()}
        self.series = {name: where for name, where in spec.signals.items() if lengths[name] > 1}
        self.scalars = [where for name, where in spec.signals.items() if lengths[name] == 1]
        if not self.series:
            raise ValueError("the observation has no series; take the network mlp")
        self.conv = nn.ModuleDict({name: SeriesConv(lengths[name], filters) for name in self.series})
        self.hidden = _orthogonal(nn.Linear(len(self.series) * filters + len(self.scalars), hidden), 2**0.5)
        self.out = _orthogonal(nn.Linear(hidden, outputs), 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, spec.size]` to `[N, outputs]`."""
        parts = [self.conv[name](x[:, where]) for name, where in self.series.items()]
        features = functional.relu(torch.cat(parts, dim=1))
        scalars = [x[:, where] for where in self.scalars]
        y: Tensor = self.out(functional.relu(self.hidden(torch.cat((features, *scalars), dim=1))))
        return y


class Gru(nn.Module):
    """GRU cell (Cho et al. 2014, arXiv:1406.1078), whose memory reaches beyond the observation's history."""

    def __init__(self, spec: Spec, outputs: int, hidden: int = 16) -> None:
        super().__init__()
        self.state = {"h": (hidden,)}
        self.cell = nn.GRUCell(spec.size, hidden)
        self.out = _orthogonal(nn.Linear(hidden, outputs), 1.0)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Maps `[N, spec.size]` and memory `[N, hidden]` to `[N, outputs]` and the next memory."""
        h = self.cell(x, h)
        return self.out(h), h


def _orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)
    return layer


class Normalisation(nn.Module):
    """Layer x' = clip((x - offset) · scale, low, high), as the spec says. It is fixed: training has no hidden state."""

    offset: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        for name, value in spec.normalisation.items():
            self.register_buffer(name, torch.from_numpy(value))

    def forward(self, observation: Tensor) -> Tensor:
        """Normalises raw observations `[N, spec.size]`."""
        return torch.clamp((observation - self.offset) * self.scale, self.low, self.high)


class Scale(nn.Module):
    """Layer that maps -1..1 to the bounds of a continuous action."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        low, high = torch.tensor(bounds, dtype=torch.float64).T
        width = high - low
        if len(bounds) == 1:
            self.low, self.width = float(low), float(width)
        else:
            self.register_buffer("low", low.to(torch.float32))
            self.register_buffer("width", width.to(torch.float32))

    def forward(self, y: Tensor) -> Tensor:
        """Maps `[N, numbers]` to the bounds."""
        return self.low + self.width * (0.5 + 0.5 * y)


class Squash(Scale):
    """Layer that maps any number into the bounds of a continuous action, by `tanh`."""

    def forward(self, y: Tensor) -> Tensor:
        """Maps any numbers to the bounds, `[N, numbers]`."""
        return super().forward(torch.tanh(y))


def bind_flat(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Moves the parameters of `module` into one vector and their gradients into another; returns both.

    Parameters and gradients become views, so that copying weights, clipping and optimising are single vector
    operations. Afterwards, gradients must be zeroed in place, not set to None.
    """
    parameters = list(module.parameters())
    weights = torch.cat([p.detach().reshape(-1) for p in parameters])
    gradient = torch.zeros_like(weights)
    start = 0
    for p in parameters:
        stop = start + p.numel()
        p.data = weights[start:stop].view(p.shape)
        p.grad = gradient[start:stop].view(p.shape)
        start = stop
    return weights, gradient


BUILT_IN: dict[str, Callable[..., nn.Module]] = {"acct_conv": AcctConv, "gru": Gru, "mlp": Mlp}
"""Networks by name."""
