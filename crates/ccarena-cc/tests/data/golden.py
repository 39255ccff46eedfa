"""Writes golden.safetensors, a policy with seeded random weights, and golden.json, what PyTorch makes of it.

Run from the repository's root after a change of the artifact's format: `python crates/ccarena-cc/tests/data/golden.py`.
"""

import json
from pathlib import Path

import torch

from ccarena.agents.actor_critic import ActorCritic
from ccarena.agents.algorithm import Context
from ccarena.agents.train import artifact_of
from ccarena.agents.worlds import environments
from ccarena.configs import load_config
from ccarena.policies import tensorfile
from ccarena.policies.artifact import CHECKSUM
from ccarena.policies.spec import spec_of

HERE = Path(__file__).parent
ROWS = 6


def main() -> None:
    """Writes both files."""
    torch.manual_seed(7)
    record = load_config("acct", {"network.filters": 3, "network.hidden": 12, "name": "golden", "seed": 7})
    context = Context(record, spec_of(record), environments(record))
    network = ActorCritic(context)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        # About the range of each entry, and one row far outside it, where the normalisation clips.
        ranges = torch.tensor([1.0] * 8 + [6.0] * 8 + [8.0] * 8 + [1.0] * 32 + [3.0] * 8 + [300.0, 100.0])
        observations = torch.rand(ROWS, len(ranges)) * ranges
        observations[0] = 0.0
        observations[-1] = observations[-1] * 100.0 - 50.0
        logits = network.act(observations)
    results = {
        "observations": observations.tolist(),
        "logits": logits.tolist(),
        "actions": logits.argmax(1).tolist(),
    }
    # Without the checksum, so that tests which damage weights reach the checks behind it.
    tensors, metadata = tensorfile.decode(artifact_of(context, network.policy()).encode())
    del metadata[CHECKSUM]
    tensorfile.write(HERE / "golden.safetensors", tensors, metadata)
    (HERE / "golden.json").write_text(json.dumps(results, separators=(",", ":")))


if __name__ == "__main__":
    main()
