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

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata as packages
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena.acct import spec
from ccarena.errors import PolicyError
from ccarena.policies import tensorfile

if TYPE_CHECKING:
    from ccarena.policies.mlp import MlpArtifact
    from ccarena.policies.networks import ActorCritic

FORMAT = "1"
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
    """Of the software that trained it."""
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


def write(path: Path, artifact: Any, architecture: Mapping[str, Any], observation: str, actions: list[float]) -> None:
    """Writes `artifact`'s tensors and provenance. Raises PolicyError if the file cannot be written."""
    metadata = {
        "ccarena_format": FORMAT,
        "architecture": _json(architecture),
        "observation": observation,
        "actions": _json(actions),
        "training": _json(artifact.training),
        "seed": str(artifact.seed),
        "versions": _json(artifact.versions),
        "evaluation": _json(artifact.evaluation),
    }
    try:
        tensorfile.write(path, artifact.tensors, metadata)
    except OSError as error:
        raise PolicyError(f"{path}: cannot write the policy: {error.strerror}; choose another place") from error


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
    from ccarena.policies import mlp

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


def versions() -> dict[str, str]:
    """Versions of this Python and of the installed packages that training depends on."""
    found = {"python": platform.python_version()}
    for name in ("ccarena", "torch", "numpy", "gymnasium", "stable-baselines3"):
        try:
            found[name] = packages.version(name)
        except packages.PackageNotFoundError:
            continue
    return found


def _check_tensors(path: Path, tensors: Mapping[str, NDArray], filters: int, hidden: int) -> None:
    check_tensors(path, tensors, expected_shapes(filters, hidden))


def check_tensors(path: Path, tensors: Mapping[str, NDArray], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raises PolicyError unless `tensors` are exactly those expected, float32 and finite."""
    for name in sorted(expected.keys() - tensors.keys()):
        raise PolicyError(f'{path}: tensor "{name}" is missing, expected shape {list(expected[name])}')
    for name in sorted(tensors.keys() - expected.keys()):
        raise PolicyError(f'{path}: unknown tensor "{name}"; a policy of this architecture has none of that name')
    for name, shape in expected.items():
        tensor = tensors[name]
        if tensor.shape != shape:
            raise PolicyError(f'{path}: tensor "{name}" has shape {list(tensor.shape)}, expected {list(shape)}')
        if tensor.dtype != np.float32:
            raise PolicyError(f'{path}: tensor "{name}" is {tensor.dtype}, expected float32')
        if not np.isfinite(tensor).all():
            raise PolicyError(f'{path}: tensor "{name}" has values that are not finite; the policy cannot be used')
    if (tensors["normalisation.low"] > tensors["normalisation.high"]).any():
        raise PolicyError(f"{path}: the normalisation clips to an empty range, expected low <= high everywhere")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(path: Path, metadata: Mapping[str, str], key: str, kind: type) -> Any:
    """The JSON of one entry of the metadata. Raises PolicyError if it is missing or of another type."""
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        raise PolicyError(f"{path}: metadata `{key}` is missing or no JSON, expected a JSON {kind.__name__}") from None
    if not isinstance(value, kind):
        raise PolicyError(f"{path}: metadata `{key}` is a {type(value).__name__}, expected a JSON {kind.__name__}")
    return value


def _size(path: Path, architecture: Mapping[str, Any], key: str, top: int) -> int:
    value = architecture.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
        raise PolicyError(f"{path}: architecture `{key}` is {value!r}, expected an integer in 1..{top}")
    return value
