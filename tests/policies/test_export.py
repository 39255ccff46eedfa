"""What a network may be made of, and how the rest is refused before training starts."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: exports not checked (run make)")

from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import check, to_graph
from ccarena.policies.graph import run
from tests.policies.test_graph import interface


def network(function, **layers: nn.Module):  # type: ignore[no-untyped-def]
    """A module with `layers` whose forward is `function(self, x)`."""

    class Network(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(self, x)

    module = Network()
    for name, layer in layers.items():
        module.add_module(name, layer)
    return module


REFUSED = {
    "an operation": (
        lambda m, x: torch.sin(x),
        r"sin\(\) cannot be exported; a policy's network is made of add, affine",
    ),
    "a method": (lambda m, x: x.cumsum(1), r"cumsum\(\)"),
    "a layer": (lambda m, x: m.layer(x.view(-1, 1, 6)).flatten(1), "AvgPool1d `layer`"),
    "a division": (lambda m, x: torch.div(x[:, :2], x[:, 2:4], rounding_mode="floor"), "a division with rounding"),
    "over the batch": (lambda m, x: x.mean(0, keepdim=True), "axis 0, which is the batch's"),
    "all at once": (lambda m, x: x - x.mean(), "a mean over the batch"),
    "mixing": (lambda m, x: x.view(-1, 3), "which mixes observations"),
    "steps": (lambda m, x: x[:, ::2], "slices have step 1"),
    "a product": (lambda m, x: x @ x.transpose(0, 1), "a product of matrices"),
    "always dropping": (lambda m, x: nn.functional.dropout(x), "dropout that is always on"),
    "a branch": (lambda m, x: x if x.sum() > 0 else -x, "cannot be traced"),
    "the batch's size": (lambda m, x: x * x.shape[0], "depends on the batch"),
    "no dependence": (lambda m, x: torch.zeros(1, 2), "does not depend on the observation"),
    "two results": (lambda m, x: (x, x), "returns 2 tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_say_is_refused(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(PolicyError, match=message) as caught:
        to_graph(network(function, layer=nn.AvgPool1d(2)), 6)
    if name in ("an operation", "a layer", "a branch", "steps"):
        assert re.match(rf"{re.escape(__file__)}:\d+: ", str(caught.value)), str(caught.value)


def test_what_a_policy_cannot_be_is_refused_before_training() -> None:
    check(nn.Linear(6, 3), interface(6, 3))
    with pytest.raises(PolicyError, match=r'output "linear" of shape \[4\]; expected \[3\]'):
        check(network(lambda m, x: m.linear(x), linear=nn.Linear(6, 4)), interface(6, 3))
    with pytest.raises(PolicyError, match="linear of shapes"):
        to_graph(network(lambda m, x: m.linear(x), linear=nn.Linear(6, 12)), 5)


def test_a_random_network_is_refused() -> None:
    with pytest.raises(PolicyError):
        to_graph(network(lambda m, x: x + torch.rand(1, 6)), 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: torch.cat((m.layer(x[:, 1:4]), x[:, -1:]), -1),
        lambda m, x: torch.stack([x[:, 0], x[:, 5]], dim=1) - x[:, [2][0] : 3],
        lambda m, x: x.split([1, 2, 3], dim=1)[1].mean(1, keepdim=True) + x[:, :2],
        lambda m, x: torch.cat(x.chunk(3, dim=1), dim=1).relu_() ** 2,
        lambda m, x: x.view(x.shape[0], 2, 3).transpose(1, 2).reshape(x.size(0), -1)[..., 1:4],
        lambda m, x: x.view(-1, 3, 2).permute(0, 2, 1).flatten(1),
        lambda m, x: (1 - x).clamp(min=-1).squeeze(-1).unsqueeze(1).mean(dim=(1,)),
        lambda m, x: nn.functional.linear(x, m.layer.weight.repeat(1, 2)) / 2.0 + m.layer.bias,
        lambda m, x: x @ torch.ones(6, 2) * torch.tensor([1.0, -2.0]),
        lambda m, x: nn.functional.hardtanh(x[:, None, :3], -0.3, 0.3)[:, 0],
        lambda m, x: m.layer(m.layer(x.view(-1, 2, 3)))[:, 1],
        lambda m, x: nn.functional.layer_norm(x, (6,))[:, :3].detach().contiguous(),
    ],
)
def test_usual_ways_to_write_it(function) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(2)
    module = network(function, layer=nn.Linear(3, 3))
    graph = to_graph(module, 6)
    x = np.random.default_rng(2).normal(0, 1, (50, 6)).astype(np.float32)
    expected = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(run(graph, x)[0], expected.reshape(50, -1), atol=1e-5)
    Artifact.of(graph, interface(6, int(expected.size / 50))).encode()


def test_training_alone_uses_it() -> None:
    module = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    module(torch.rand(64, 6))
    graph = to_graph(module, 6)
    assert [node.op for node in graph.nodes] == ["linear", "affine", "tanh", "linear"] and module.training


def test_states_are_arguments_in_order() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(6, 4)

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = self.cell(x, h)
            return h, h

    graph = to_graph(Remembers(), 6, state={"h": (4,)})
    assert graph.state[0].next == graph.output and graph.nodes[0].inputs == ("observation", "h")
    with pytest.raises(PolicyError, match="argument `h` is neither the observation nor a state"):
        to_graph(Remembers(), 6)
    with pytest.raises(PolicyError, match=r"gru of shapes|a state after the decision"):
        to_graph(Remembers(), 6, state={"h": (5,)})
