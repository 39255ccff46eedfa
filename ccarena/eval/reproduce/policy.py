"""Trained policies of a suite's flows: in its scenario `${policies.SCHEME}`, if it declares the scheme.

A row depends on a policy's content. The keys of runs therefore contain its digest, not the place of the file.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.configs.load import shipped
from ccarena.core.learned_schemes import learned_schemes, shipped_policies
from ccarena.errors import PolicyError
from ccarena.runs.run_folder import POLICY, newest_run
from ccarena.scenarios.entrants import find_policy

__all__ = ["Policy", "as_trained", "bound", "choose", "combined", "configurations", "given", "placed", "shipped_of"]


def configurations(scheme: str) -> list[str]:
    """Returns the configurations whose policy is taken by default, the first that has one.

    NAME-wired trains on wired links alone, as the paper of the scheme NAME did.
    """
    return [name for name in (f"{scheme}-wired", scheme) if name in shipped()]


@dataclass(frozen=True)
class Policy:
    """Trained policy."""

    scheme: str
    file: Path
    sha256: str
    params: Mapping[str, float]
    """Parameters of the scheme in training: a flow has them unless it gives its own."""
    config: str
    """Name of the configuration that trained it."""
    seed: int
    links: tuple[str, ...]
    """Kinds of links that it was trained on."""

    @property
    def mark(self) -> str:
        """Returns the text that stands for the file until the run's key is made."""
        return f"sha256:{self.sha256}"

    def about(self) -> dict[str, Any]:
        """Returns its provenance, for claims.json."""
        links = list(self.links)
        name = next((name for name, file in shipped_policies().items() if file.resolve() == self.file), None)
        return {
            **({"shipped": name} if name else {}),
            "scheme": self.scheme,
            "config": self.config,
            "seed": self.seed,
            "links": links,
            "sha256": self.sha256,
        }


Policies = Mapping[str, Policy]
"""Policies by scheme."""


def bound(policies: Policies, declared: Iterable[str]) -> dict[str, Any]:
    """Returns `policies`, with the schemes that a suite declares, for its expressions; null without a policy."""
    marks = {scheme: policy.mark for scheme, policy in policies.items()}
    return {"policies": {scheme: marks.get(scheme) for scheme in declared}}


def placed(spec: Mapping[str, Any], policies: Policies) -> dict[str, Any]:
    """Returns the scenario with the policies' files instead of their marks, and the parameters of their trainings."""
    known = {policy.mark: policy for policy in policies.values()}
    flows = []
    for flow in spec["flows"]:
        if policy := known.get(str(flow.get("policy"))):
            flow = {**flow, "params": {**policy.params, **(flow.get("params") or {})}, "policy": str(policy.file)}
        flows.append(flow)
    return {**spec, "flows": flows}


def as_trained(spec: Mapping[str, Any], policies: Policies) -> dict[str, Any]:
    """Returns the scenario with the parameters of a scheme's training for its flows with a constant action.

    Such a flow is a baseline of the trained policy: only the decider and the flow's own settings differ.
    """
    flows = []
    for flow in spec.get("flows") or []:
        trained = policies.get(flow.get("scheme"))
        if trained and isinstance(flow.get("policy"), Mapping) and "constant" in flow["policy"]:
            flow = {**flow, "params": {**trained.params, **(flow.get("params") or {})}}
        flows.append(flow)
    return {**spec, "flows": flows}


def given(words: Sequence[str]) -> dict[str, Policy]:
    """Returns the policies that words mean (files, runs' folders, or names of runs), by the scheme that each was
    trained for.

    Raises PolicyError if there is no such policy, or if two are of one scheme.
    """
    combinations = combined(words)
    if len(combinations) > 1:
        raise PolicyError(f"{', '.join(words)}: several policies of one scheme; give one for each")
    return next(iter(combinations.values()))


def combined(words: Sequence[str]) -> dict[str, dict[str, Policy]]:
    """Returns combinations of the policies that words mean, by scheme: one for each of several policies of a scheme.

    Combinations are named after the runs or files of those schemes; a single one is called "". Raises PolicyError if
    there is no such policy, or if two are the same or have the same name.
    """
    by_scheme: dict[str, dict[str, Policy]] = {}
    for word in words:
        policy = _read(find_policy(word))
        file = policy.file
        name = file.parent.name if file.name == POLICY else file.stem
        others = by_scheme.setdefault(policy.scheme, {})
        if same := next((other for other in others.values() if other.sha256 == policy.sha256), None):
            raise PolicyError(f"{word}: a policy of {policy.scheme}, as {same.file} is, and the same; leave one out")
        if name in others:
            raise PolicyError(
                f'{word}: a policy of {policy.scheme} that is called "{name}" as {others[name].file} is; copy one to '
                "another name"
            )
        others[name] = policy
    out = {}
    for chosen in itertools.product(*(others.items() for others in by_scheme.values())):
        several = [name for (name, policy) in chosen if len(by_scheme[policy.scheme]) > 1]
        out["+".join(several)] = {policy.scheme: policy for _, policy in chosen}
    return out


def choose(schemes: Iterable[str], given: Policies | None = None) -> dict[str, Policy]:
    """Returns a policy for each scheme: one of those `given`, else the shipped one, else that of the newest run.

    The shipped one comes first, so that a clone and a folder with runs measure the same. Raises PolicyError, which says
    how to train what is missing.
    """
    return {scheme: (given or {}).get(scheme) or _default(scheme) for scheme in schemes}


def shipped_of(scheme: str) -> Mapping[str, Path]:
    """Returns the shipped policies of a learned scheme, by name."""
    return learned_schemes()[scheme].policies


def _default(scheme: str) -> Policy:
    configs = configurations(scheme)
    ours = shipped_of(scheme)
    files = [ours[config] for config in configs if config in ours]
    files += [newest_run(config) / POLICY for config in configs]
    found = next((path for path in files if path.is_file()), None)
    if found is None:
        where = f"neither {' nor '.join(map(str, files))}" if len(files) > 1 else f"no {files[0]}"
        raise PolicyError(
            f"no trained policy of {scheme}: {where} is there; train one with `ccarena train --config {configs[0]}`, "
            "or give one with --policy FILE"
        )
    policy = _read(found)
    if policy.scheme != scheme:
        raise PolicyError(
            f"{found}: a policy of {policy.scheme}; expected one of {scheme}: give one with --policy FILE"
        )
    return policy


def _read(file: Path) -> Policy:
    from ccarena.policies import artifact
    from ccarena.policies.trained_by import scheme_of

    trained = artifact.load(file)
    training: Mapping[str, Any] = trained.training
    env, scheme = training.get("env") or {}, scheme_of(trained)
    known = learned_schemes()
    if not isinstance(scheme, str) or scheme not in known:
        name = trained.spec.get("name")
        raise PolicyError(f"{file}: is a policy of {name} ({trained.interface.digest}); expected {', '.join(known)}")
    kinds = (env.get("link") or {}).get("kinds") or {}
    return Policy(
        scheme,
        file.resolve(),
        hashlib.sha256(file.read_bytes()).hexdigest(),
        dict(trained.params),
        str(training.get("name") or "unknown"),
        trained.seed,
        tuple(kind for kind, weight in kinds.items() if weight),
    )
