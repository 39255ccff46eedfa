"""The policy artifact: one safetensors file with everything that acting on a policy needs, and where it came from.

Tensors (float32): `{actor,critic}.conv.{throughput,delay,zone,window}.{weight[F,C,8],bias[F]}`,
`{actor,critic}.hidden.{weight[H,4F+2],bias[H]}`, `actor.out.{weight[15,H],bias[15]}`,
`critic.out.{weight[1,H],bias[1]}`, `normalisation.{offset,scale,low,high}[58]`. Metadata (strings): `ccarena_format`,
`architecture` (JSON), `observation`, `actions` (JSON list), `training` (JSON), `seed`, `versions` (JSON), `evaluation`
(JSON: what to expect of it).
Nothing in it is executed or unpickled.

That is ACCT's. Policies with continuous actions have the same metadata and other tensors: `ccarena.policies.mlp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena.acct import spec
from ccarena.errors import PolicyError
from ccarena.policies import mlp, tensorfile
from ccarena.policies.container import FORMAT, check_tensors, parse, versions, write
from ccarena.policies.mlp import MlpArtifact

if TYPE_CHECKING:
    from ccarena.policies.networks import ActorCritic

MAX_FILTERS, MAX_HIDDEN = 1024, 4096


def expected_shapes(filters: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor of an artifact with this architecture."""
    shapes: dict[str, tuple[int, ...]] = {}
    for network, outputs in (("actor", len(spec.ACTIONS)), ("critic", 1)):
        for series, channels in spec.SERIES.items():
            shapes[f"{network}.conv.{series}.weight"] = (filters, channels, spec.HISTORY)
            shapes[f"{network}.conv.{series}.bias"] = (filters,)
        shapes[f"{network}.hidden.weight"] = (hidden, len(spec.SERIES) * filters + len(spec.SCALARS))
        shapes[f"{network}.hidden.bias"] = (hidden,)
        shapes[f"{network}.out.weight"] = (outputs, hidden)
        shapes[f"{network}.out.bias"] = (outputs,)
    for name in ("offset", "scale", "low", "high"):
        shapes[f"normalisation.{name}"] = (spec.OBSERVATION_SIZE,)
    return shapes


@dataclass(frozen=True)
class Artifact:
    """A validated policy."""

    tensors: dict[str, NDArray[np.float32]]
    """By name, as the module says."""
    filters: int
    hidden: int
    training: dict[str, Any] = field(default_factory=dict)
    """Effective training configuration."""
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software that trained it."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Figures that it reached after training; empty if it was not evaluated."""

    def network(self) -> ActorCritic:
        """The policy as a PyTorch module (needs PyTorch)."""
        import torch

        from ccarena.policies.networks import ActorCritic, Architecture

        network = ActorCritic(Architecture(self.filters, self.hidden))
        network.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in self.tensors.items()})
        return network

    @classmethod
    def of(
        cls,
        network: ActorCritic,
        training: Mapping[str, Any],
        seed: int,
        evaluation: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """The artifact of a trained `network`; `training` and `evaluation` must be JSON-serialisable."""
        tensors = {name: value.detach().cpu().numpy().copy() for name, value in network.state_dict().items()}
        size = network.architecture
        return cls(tensors, size.filters, size.hidden, dict(training), seed, versions(), dict(evaluation or {}))

    def save(self, path: str | Path) -> None:
        """Writes the file atomically. Raises PolicyError if a weight is not finite or the file cannot be written."""
        path = Path(path)
        _check_tensors(path, self.tensors, self.filters, self.hidden)
        architecture = {"kind": "acct-conv", "filters": self.filters, "hidden": self.hidden}
        write(path, self, architecture, spec.OBSERVATION_ID, list(spec.ACTIONS))


def load(path: str | Path) -> Artifact | MlpArtifact:
    """Reads and checks the artifact at `path`, of whatever kind it is.

    Raises PolicyError, naming file, fault and expectation, if it is missing, truncated, no policy, of another format
    version, observation or action set, has a missing, extra or misshapen tensor, or a value that is not finite.
    """
    path = Path(path)
    try:
        tensors, metadata = tensorfile.read(path)
    except OSError as error:
        raise PolicyError(f"{path}: cannot read the policy: {error.strerror}") from error
    except tensorfile.TensorFileError as error:
        raise PolicyError(f"{path}: not a policy artifact: {error}; expected a safetensors file of ccarena") from error

    version = metadata.get("ccarena_format")
    if version is None:
        raise PolicyError(f"{path}: not a policy artifact: metadata has no `ccarena_format`; was it saved by ccarena?")
    if version != FORMAT:
        raise PolicyError(f'{path}: format version "{version}", expected "{FORMAT}"; use the ccarena that wrote it')
    observation = metadata.get("observation")
    actions = parse(path, metadata, "actions", list)
    architecture = parse(path, metadata, "architecture", dict)
    try:
        seed = int(metadata.get("seed", ""))
    except ValueError:
        raise PolicyError(f"{path}: seed {metadata.get('seed')!r} in the metadata, expected an integer") from None
    provenance: dict[str, Any] = {
        name: parse(path, metadata, name, dict) for name in ("training", "versions", "evaluation")
    }
    provenance["seed"] = seed
    if observation in mlp.LAYOUTS:
        return mlp.check(path, tensors, observation, actions, architecture, provenance)
    if observation != spec.OBSERVATION_ID:
        known = '" or "'.join((spec.OBSERVATION_ID, *mlp.LAYOUTS))
        raise PolicyError(f'{path}: observation "{observation}", expected "{known}"')
    if actions != list(spec.ACTIONS):
        raise PolicyError(f"{path}: actions {actions}, expected {list(spec.ACTIONS)}")
    if architecture.get("kind") != "acct-conv":
        raise PolicyError(f'{path}: architecture kind {architecture.get("kind")!r}, expected "acct-conv"')
    filters = _size(path, architecture, "filters", MAX_FILTERS)
    hidden = _size(path, architecture, "hidden", MAX_HIDDEN)
    _check_tensors(path, tensors, filters, hidden)
    return Artifact(tensors, filters, hidden, **provenance)


def _check_tensors(path: Path, tensors: Mapping[str, NDArray], filters: int, hidden: int) -> None:
    check_tensors(path, tensors, expected_shapes(filters, hidden))


def _size(path: Path, architecture: Mapping[str, Any], key: str, top: int) -> int:
    value = architecture.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
        raise PolicyError(f"{path}: architecture `{key}` is {value!r}, expected an integer in 1..{top}")
    return value
