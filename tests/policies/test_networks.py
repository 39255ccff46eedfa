"""Actor and critic compute what their definition says."""

from __future__ import annotations

import torch
from torch.nn import functional

from ccarena.policies.networks import bind_flat
from tests.policies.acct import SPEC
from tests.policies.acct import network as make


def observations(count: int, seed: int = 0) -> torch.Tensor:
    """Raw observations in the usual ranges and beyond."""
    generator = torch.Generator().manual_seed(seed)
    return 20 * torch.rand(count, SPEC.size, generator=generator) ** 3


def test_equals_textbook_convolutions() -> None:
    torch.manual_seed(1)
    network = make(5, 16)
    raw = observations(32)
    x = network.normalisation(raw)
    for tower, result in zip((network.actor, network.critic), network(raw), strict=True):
        features = [
            functional.conv1d(
                x[:, SPEC.signals[name]].view(-1, channels, 8),
                tower.conv[name].weight.view(5, channels, 8),
                tower.conv[name].bias,
            ).flatten(1)
            for name, channels in zip(list(SPEC.signals)[:5], (1, 1, 1, 4, 1), strict=True)
        ]
        joined = torch.cat([torch.relu(torch.cat(features, 1)), x[:, -2:]], 1)
        expected = tower.out(torch.relu(tower.hidden(joined)))
        torch.testing.assert_close(result.view_as(expected), expected)


def test_normalisation_bounds_every_input() -> None:
    normalise = make().normalisation
    huge = normalise(torch.full((1, SPEC.size), 1e9))
    assert float(huge.max()) == 9
    assert float(normalise(-torch.ones(1, SPEC.size)).min()) == 0


def test_starts_close_to_uniform() -> None:
    probabilities = torch.softmax(make().act(observations(64)), dim=1).detach()
    assert float((probabilities - 1 / len(SPEC.actions)).abs().max()) < 0.02


def test_flat_weights_are_the_parameters() -> None:
    network = make()
    weights, gradient = bind_flat(network)
    raw = observations(8)
    network(raw)[1].sum().backward()
    actor_size = sum(p.numel() for p in network.actor.parameters())
    assert torch.all(gradient[:actor_size] == 0)
    assert torch.any(gradient[actor_size:] != 0)
    with torch.no_grad():
        weights.zero_()
    assert torch.all(network.act(raw) == 0)
