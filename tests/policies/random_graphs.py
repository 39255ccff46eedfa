"""Random networks for the parity tests: PyTorch modules of the operations that a graph has, put together at random."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

OBSERVATION = 12

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.2),
    "elu": lambda x: functional.elu(x, alpha=0.7),
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": functional.softplus,
    "softplus_2": lambda x: functional.softplus(x, beta=2.0),
    "exp": lambda x: torch.exp(-x * x),
    "softmax": lambda x: torch.softmax(x, dim=1),
    "clip": lambda x: x.clamp(-0.5, 1.0),
    "affine": lambda x: 1.5 * x - 0.25,
    "negative": lambda x: 1 - x / 3,
    "mean": lambda x: x - x.mean(dim=1, keepdim=True),
    "halves": lambda x: torch.cat([x[:, -1:], x], dim=1)[:, : x.shape[1]],
    "div": lambda x: x / (1 + x * x) + x[:, :1] / (2 + torch.tanh(x[:, :1])) + 1 / (1.5 + torch.tanh(x)),
    "gate": lambda x: x * torch.sigmoid(x) + x[:, :1],
}


class Block(nn.Module):
    """One step of a random network, from `[N, width]` to `[N, out]`; the kinds are in `KINDS`."""

    def __init__(self, kind: str, width: int, out: int) -> None:
        super().__init__()
        self.kind = kind
        self.out = out
        if kind == "linear":
            self.layer: nn.Module = nn.Linear(width, out, bias=out % 2 == 0)
        elif kind == "layer_norm":
            self.layer, self.out = nn.LayerNorm(width, elementwise_affine=out % 2 == 0), width
        elif kind == "batch_norm":
            self.layer, self.out = nn.BatchNorm1d(width), width
            nn.init.uniform_(self.layer.running_mean)
            nn.init.uniform_(self.layer.running_var, 0.5, 2.0)
        elif kind in ("conv1d", "conv1d_padded"):
            padded = {"stride": 2, "padding": 2, "dilation": 2} if kind == "conv1d_padded" else {}
            self.layer = nn.Sequential(nn.Linear(width, 12), nn.Unflatten(1, (2, 6)), nn.Conv1d(2, out, 3, **padded))
            self.out = out * 4
            if padded:
                self.out = out * ((6 + 4 - 5) // 2 + 1)
        elif kind == "embedding":
            self.layer = nn.Embedding(5, out)
            self.out = width + out
        elif kind in ("gru", "lstm"):
            # A history of three steps within one observation.
            layers = 1 + out % 2
            recurrent = nn.GRU if kind == "gru" else nn.LSTM
            self.before, self.layer = nn.Linear(width, 12), recurrent(4, out, layers, batch_first=True)
        else:
            self.out = width

    def forward(self, x: Tensor) -> Tensor:
        if self.kind in UNARY:
            return UNARY[self.kind](x)
        if self.kind == "embedding":
            index = (2.5 * torch.tanh(x[:, 0]) + 2.5).clamp(0, 4).long()
            return torch.cat((x, self.layer(index)), dim=1)
        if self.kind in ("gru", "lstm"):
            sequence, _ = self.layer(self.before(x).view(-1, 4, 3).transpose(1, 2))
            return sequence[:, -1]
        return self.layer(x).flatten(1)


KINDS = [*UNARY, "linear", "linear", "layer_norm", "batch_norm", "conv1d", "conv1d_padded", "embedding", "gru", "lstm"]


class Network(nn.Module):
    """Blocks one after the other; recurrent cells among them have a state each."""

    def __init__(self, blocks: list[tuple[str, int]], cells: list[tuple[str, int]], outputs: int) -> None:
        super().__init__()
        self.blocks, self.cells = nn.ModuleList(), nn.ModuleList()
        width = OBSERVATION
        for kind, out in blocks:
            block = Block(kind, width, out)
            self.blocks.append(block)
            width = block.out
        self.state: dict[str, tuple[int, ...]] = {}
        for index, (kind, hidden) in enumerate(cells):
            self.cells.append((nn.GRUCell if kind == "gru" else nn.LSTMCell)(width, hidden))
            self.state |= {f"{part}{index}": (hidden,) for part in ("h" if kind == "gru" else "hc")}
            width = hidden
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...] | Tensor:
        for block in self.blocks:
            x = block(x)
        after: list[Tensor] = []
        for cell in self.cells:
            if isinstance(cell, nn.GRUCell):
                x = cell(x, state[len(after)])
                after.append(x)
            else:
                x, c = cell(x, (state[len(after)], state[len(after) + 1]))
                after += [x, c]
        return (self.head(x), *after)


class Stateful(nn.Module):
    """`Network` with its states as arguments of their own, as the exporter wants them: up to four."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, a=None, b=None, c=None, d=None):  # type: ignore[no-untyped-def]
        return self.network(x, *[s for s in (a, b, c, d) if s is not None])


@st.composite
def networks(draw: st.DrawFn, without: Collection[str] = ()) -> tuple[Stateful, dict[str, tuple[int, ...]], int]:
    """A network, its states and its number of outputs (1: continuous); no block of a kind in `without`."""
    sizes = st.integers(1, 9)
    kinds = [kind for kind in KINDS if kind not in without]
    blocks = draw(st.lists(st.tuples(st.sampled_from(kinds), sizes), max_size=6))
    cells = draw(st.lists(st.tuples(st.sampled_from(["gru", "lstm"]), sizes), max_size=2))
    outputs = draw(st.integers(1, 6))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    network = Network(blocks, cells, outputs).eval()
    return Stateful(network), network.state, outputs
