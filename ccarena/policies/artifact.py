"""Policy artifact (format 2): one safetensors file with all that acting on a policy needs, and its provenance.

It holds the learned scheme's spec, the network as a graph with its weights, the normalisation, and the provenance;
docs/artifact.md has every entry. Nothing in it is executed or unpickled. Reading and acting need NumPy alone.
"""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata as packages
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.reader import LARGEST_POLICY_BYTES, read_bytes
from ccarena.core.terminal import visible
from ccarena.errors import PolicyError, cannot_write
from ccarena.policies import provenance, tensorfile
from ccarena.policies.curve import Curve
from ccarena.policies.curve import read as read_curve
from ccarena.policies.graph import Graph, run
from ccarena.policies.interface import FloatArray, Interface, Normalisation, bounds_of, clipped, continuous, written

FORMAT = "2"
CHECKSUM = "weights_sha256"
_NORMALISATION = "normalisation."
MOST_SEED, MOST_TESTS = 2**64 - 1, 10**9


@dataclass(frozen=True, repr=False)
class Artifact:
    """A policy."""

    interface: Interface
    """Spec, observation and actions that the policy was trained for."""
    graph: Graph
    """Network, from the normalised observation to its outputs."""
    params: dict[str, float] = field(default_factory=dict)
    """Values of the spec's parameters in training."""
    training: dict[str, Any] = field(default_factory=dict)
    """Effective training configuration."""
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software that trained the policy."""
    trained_on: list[dict[str, str]] = field(default_factory=list)
    """Every trace, preset and distribution of scenarios that it was trained on: `kind`, `name`, `digest`."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Figures that it reached after training; empty if it was not evaluated."""
    rules: list[dict[str, Any]] = field(default_factory=list)
    """Best rules without learning, found on its training links (`ccarena.eval.heldout.rules`)."""
    tests: int = 0
    """Number of times that the tested links were opened for it before it was saved."""
    curve: Curve = field(default_factory=dict)
    """Learning curve in a few points; empty if there is none."""
    observed: dict[str, list[float]] = field(default_factory=dict)
    """Range of observations on its training links: `low` and `high`, the least and greatest raw value of each entry.
    Empty if it was not recorded.
    """
    guard: dict[str, Any] = field(default_factory=dict)
    """Box of observations and bound of actions, each `low` and `high`; empty without one. Flows apply it."""
    certificate: list[dict[str, Any]] = field(default_factory=list)
    """Answers of `ccarena certify` for its properties; empty if there are none."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        interface: Interface,
        params: Mapping[str, float] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        trained_on: Sequence[Mapping[str, str]] = (),
        evaluation: Mapping[str, Any] | None = None,
        rules: Sequence[Mapping[str, Any]] = (),
        tests: int = 0,
    ) -> Artifact:
        """Returns the artifact of a network that was trained with the installed software."""
        return cls(
            interface,
            graph,
            dict(params or {}),
            dict(training or {}),
            seed,
            versions(),
            [dict(each) for each in trained_on],
            dict(evaluation or {}),
            [dict(each) for each in rules],
            tests,
        )

    @property
    def spec(self) -> dict[str, Any]:
        """Returns the learned scheme's spec."""
        spec: dict[str, Any] = json.loads(self.interface.spec)
        return spec

    def __repr__(self) -> str:
        weights = sum(tensor.size for tensor in self.graph.tensors.values())
        trained = f"trained by {visible(str(self.training.get('name', 'no name'))):.40}, seed {self.seed}"
        return f"Artifact({self.interface}, {weights:,} weights, {trained}): .act(observations), .spec, .evaluation"

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """Returns every tensor of the file by name."""
        return {**self.graph.tensors, **self.interface.normalisation.tensors()}

    def outputs(self, observations: FloatArray, state: FloatArray | None = None) -> FloatArray:
        """Returns logits `[N, actions]` for raw observations, or continuous actions `[N, numbers]` in their bounds.

        `observations` is `[N, length]`. `state` `[N, graph.state_len]` is a recurrent policy's memory of each flow,
        updated in place; None starts from zeros.
        """
        y, after = run(self.graph, self.interface.normalisation(observations), state)
        if state is not None:
            state[...] = after
        if self.interface.bounds is None:
            return y
        return clipped(y, self.interface.bounds)

    def act(self, observations: FloatArray, state: FloatArray | None = None) -> NDArray[Any]:
        """Returns actions `[N]`: indices, or continuous ones, `[N, numbers]` if they have several. See `outputs`."""
        y = self.outputs(observations, state)
        return y.argmax(axis=1) if self.interface.bounds is None else continuous(y)

    def encode(self) -> bytes:
        """Returns the file's bytes, checked. Raises PolicyError for weights that are not finite or a graph that does
        not fit.
        """
        metadata = {
            "ccarena_format": FORMAT,
            "spec": self.interface.spec,
            "digest": self.interface.digest,
            "params": _json(self.params),
            "graph": json.dumps(self.graph.to_json(), separators=(",", ":"), allow_nan=False),
            "actions": _json(self.interface.actions),
            "bounds": _json(written(self.interface.bounds)),
            "training": _json(self.training),
            "seed": str(self.seed),
            "versions": _json(self.versions),
            "trained_on": _json(self.trained_on),
            "evaluation": _json(self.evaluation),
            "rules": _json(self.rules),
            "tests": str(self.tests),
            "curve": _json(self.curve),
        }
        if self.observed:
            metadata["observed"] = _json(self.observed)
        if self.guard:
            metadata["guard"] = _json(self.guard)
        if self.certificate:
            metadata["certificate"] = _json(self.certificate)
        data = tensorfile.encode(self.tensors, metadata, CHECKSUM)
        _check(data)
        return data

    def save(self, path: str | Path) -> None:
        """Writes the file atomically.

        Raises PolicyError if a weight is not finite, ConfigError or WriteError if the file cannot be written.
        """
        path = Path(path)
        try:
            tensorfile.write_bytes(path, self.encode())
        except PolicyError as error:
            raise PolicyError(f"{path}: {error}") from error
        except OSError as error:
            raise cannot_write(path, error, what="the policy") from error

    @classmethod
    def load(cls, path: str | Path) -> Artifact:
        """Reads an artifact; see the function `load`."""
        return load(path)


def load(path: str | Path) -> Artifact:
    """Reads and checks the artifact at `path`.

    Raises PolicyError, naming file, fault and expectation, in these cases:
    - the file is missing, truncated, no policy or of another format version;
    - graph, tensors, observation and actions do not fit each other;
    - a value is not finite;
    - the weights are not those that were saved.
    """
    path = Path(path)
    try:
        data = read_bytes(path, LARGEST_POLICY_BYTES)
    except OSError as error:
        raise PolicyError(f"{path}: cannot read the policy: {error.strerror}") from error
    try:
        return _decode(data)
    except tensorfile.TensorFileError as error:
        raise PolicyError(f"{path}: not a policy artifact: {error}; expected a safetensors file of ccarena") from error
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from error


def count_test(path: Path) -> None:
    """Increases the artifact's count of tests on the tested links by one, if the file can be written.

    Shipped policies stay as they are.
    """
    if path.resolve() in shipped_policies().values():
        return
    policy = load(path)
    with contextlib.suppress(PolicyError):
        replace(policy, tests=policy.tests + 1).save(path)


def _decode(data: bytes) -> Artifact:
    tensorfile.refuse_pickle(data)
    _check(data)
    tensors, metadata = tensorfile.decode(data)
    normalised = {name: tensors.pop(_NORMALISATION + name) for name in ("offset", "scale", "low", "high")}
    interface = Interface(
        metadata["spec"],
        metadata["digest"],
        Normalisation(**normalised),
        tuple(_parse(metadata, "actions", list)),
        bounds_of(_parse(metadata, "bounds", list)),
    )
    return Artifact(
        interface,
        Graph.of_json(_parse(metadata, "graph", dict), tensors),
        provenance.read(metadata, "params"),
        provenance.read(metadata, "training"),
        provenance.whole(metadata, "seed", MOST_SEED),
        provenance.read(metadata, "versions"),
        provenance.read(metadata, "trained_on"),
        provenance.read(metadata, "evaluation"),
        # Artifacts older than version 0.1 lack these.
        provenance.read(metadata, "rules") if "rules" in metadata else [],
        provenance.whole(metadata, "tests", MOST_TESTS, "0"),
        read_curve(_parse(metadata, "curve", dict)) if "curve" in metadata else {},
        provenance.read(metadata, "observed") if "observed" in metadata else {},
        provenance.read(metadata, "guard") if "guard" in metadata else {},
        provenance.read(metadata, "certificate") if "certificate" in metadata else [],
    )


def _check(data: bytes) -> None:
    """Raises PolicyError unless `data` is a policy. The check is the native one, which every runtime applies."""
    from ccarena import _core

    _core.Policy.of(data)


def versions() -> dict[str, str]:
    """Returns versions of this Python and of the installed packages that training depends on."""
    found = {"python": platform.python_version()}
    for name in ("ccarena", "torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib", "cma"):
        try:
            found[name] = packages.version(name)
        except packages.PackageNotFoundError:
            continue
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse(metadata: Mapping[str, str], key: str, kind: type) -> Any:
    """Returns the JSON of one entry of the metadata. Raises PolicyError if it is missing or of another type."""
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        raise PolicyError(f"metadata `{key}` is missing or no JSON; expected a JSON {kind.__name__}") from None
    if not isinstance(value, kind):
        raise PolicyError(f"metadata `{key}` is a {type(value).__name__}; expected a JSON {kind.__name__}")
    return value
