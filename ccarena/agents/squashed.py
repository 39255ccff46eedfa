"""Policies of continuous actions: a network, with or without memory, and its output squashed into the bounds."""

from __future__ import annotations

from torch import Tensor, nn

from ccarena.errors import ConfigError
from ccarena.policies.interface import Bounds
from ccarena.policies.networks import Squash, states_of

__all__ = ["squashed"]


class _Remembering(nn.Module):
    """Network with memory, squashed into the bounds of a continuous action."""

    def __init__(self, network: nn.Module, bounds: Bounds) -> None:
        super().__init__()
        self.network, self.squash = network, Squash(bounds)
        self.state = states_of(network)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Maps observations and the state to the action and the next state."""
        y, h = self.network(x, h)
        return self.squash(y), h


class _RememberingTwo(_Remembering):
    """Network with two states, such as an LSTM's, squashed into the bounds."""

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Maps observations and the states to the action and the next states."""
        y, h, c = self.network(x, h, c)
        return self.squash(y), h, c


def squashed(network: nn.Module, bounds: Bounds) -> nn.Module:
    """Returns `network` with its output squashed into the bounds of a continuous action, with its memory.

    Raises ConfigError if it has more than two states.
    """
    states = len(states_of(network))
    if states > 2:
        raise ConfigError(f"network: it has {states} states; continuous actions take two at most")
    if not states:
        return nn.Sequential(network, Squash(bounds))
    return (_Remembering if states == 1 else _RememberingTwo)(network, bounds)
