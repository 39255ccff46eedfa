"""Network with its optimiser, for algorithms that learn from datasets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.errors import TrainingError
from ccarena.policies.networks import bind_flat

__all__ = ["Learner"]


class Learner:
    """Network with its optimiser, whose parameters are one vector."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self.network = network.to(device)
        self.weights, self.gradient = bind_flat(self.network)
        self.weights.grad = self.gradient
        self.adam = torch.optim.Adam([self.weights])

    def step(self, loss: Tensor, rate: float, most: float) -> None:
        """Follows the gradient of `loss`."""
        self.gradient.zero_()
        loss.backward()
        norm = float(self.gradient.norm())
        if not np.isfinite(norm):
            raise TrainingError(
                f"the loss is {float(loss):.3g}, and its gradient is not finite; take a smaller algorithm.learning_rate"
            )
        self.gradient.mul_(min(1.0, most / max(norm, 1e-12)))
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns weights and moments."""
        moments = self.adam.state.get(self.weights, {})
        return {"weights": self.weights.detach().cpu().numpy().copy()} | {
            name: np.asarray(moments[name].cpu().numpy()).copy()
            for name in ("exp_avg", "exp_avg_sq", "step")
            if moments
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores a `state()`."""
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(arrays["weights"].copy()))
        if "step" in arrays:
            moments = {name: torch.from_numpy(arrays[name].copy()) for name in ("exp_avg", "exp_avg_sq", "step")}
            device = self.weights.device
            self.adam.state[self.weights] = {name: x if name == "step" else x.to(device) for name, x in moments.items()}
