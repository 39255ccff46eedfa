"""Who is measured: schemes, policies, and the controls that stand beside every learner.

Each runs on one of two tracks: end to end, or router-assisted, where routers tell senders a rate. Controls beside the
learners are found by the package: the best ways to run a policy's scheme without learning, from the artifact or
searched on its training links (`ccarena.eval.heldout.rules`); on every link the fixed window that is best with
hindsight; and what a sender would reach that knew capacity one RTT late.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ccarena import _core
from ccarena.documents import digest_of
from ccarena.envs.domain import digest
from ccarena.envs.spec import Spec
from ccarena.errors import CcarenaError, ConfigError, PolicyError
from ccarena.eval.compete.entrants import parse_entry
from ccarena.eval.heldout import rules as without_learning
from ccarena.eval.heldout.evaluation import BEST_WINDOW
from ccarena.eval.heldout.links import Sender
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.leaderboard.links import BoardTrace
from ccarena.policies import artifact
from ccarena.policies.cards import card
from ccarena.policies.curve import Curve
from ccarena.policies.record import control_of, record_of, scheme_of
from ccarena.run_folder import POLICY, find_policy, shipped
from ccarena.schemes import heuristics
from ccarena.traces.held_out import derives_from

__all__ = [
    "ASSISTED",
    "END_TO_END",
    "LATE",
    "REFERENCE",
    "Entrant",
    "default_schemes",
    "line_up",
    "policy_files",
    "rules_of",
]

END_TO_END, ASSISTED, REFERENCE = TRACKS = ("end to end", "router-assisted", "reference")
"""The tracks; a reference is computed with knowledge that no sender has, and has no rank."""
LATE = "one RTT late"
"""The control that knows capacity one round trip late (`ccarena.eval.heldout.oracle`)."""
LAW = "pilot=0"
"""The tuned law without a network that comes with the package."""
LAW_TUNED_ON = (
    *(("preset", name) for name in ("lte-stationary", "lte-walking", "lte-bus", "sprout")),
    *(("trace", name) for name in ("trace-2925703-home1", "trace-3114405-bus", "trace-3199718-timessquare")),
)
"""What the numbers of `pilot` were searched on (docs/pilot.md, configs/pilot-law.yaml)."""
SEARCH_LINKS = 16
"""Training links on which a constant action is searched for a policy whose artifact names none."""
_OF_THE_NETWORK = ("advertised_mbps", "twnd_packets", "target_ratio", "zone", "zone_index")
"""Signals of a learned scheme that are what routers advertise (crates/ccarena-cc/src/learned/signals)."""
Kind = Literal["scheme", "policy", "control"]


@dataclass(frozen=True)
class Entrant:
    """One that is measured."""

    label: str
    kind: Kind
    track: str
    """One of `TRACKS`."""
    digest: str
    """Of all that decides what it does: scheme or document, parameters, policy."""
    sender: Sender
    policy_digest: str = ""
    """Of the artifact's bytes."""
    of: str = ""
    """The label of the policy that a control stands beside."""
    trained_on: tuple[Mapping[str, str], ...] = ()
    """Every trace, preset and distribution that it was trained or tuned on: `kind`, `name`, `digest`."""
    card: str = ""
    """What is known of it, in Markdown."""
    curve: Curve = field(default_factory=dict, repr=False)
    """Of a policy: how its training went; empty if the artifact does not say."""
    rules: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """Of a policy: the best ways to run its scheme without learning."""

    @property
    def computed(self) -> bool:
        """Whether it is derived from each link's capacity instead of being run as a scheme."""
        return self.label in (LATE, BEST_WINDOW)

    def seen(self, trace: BoardTrace) -> bool:
        """Whether it was trained on this trace, on its recording, or on what was fitted to the same recording."""
        return any(
            derives_from(each.get("name", "")) == trace.origin or each.get("digest") == trace.digest
            for each in self.trained_on
            if each.get("kind") != "distribution"
        )


def default_schemes() -> list[str]:
    """Every scheme that needs no policy, and the tuned law; a fixed window is a control."""
    return [*(name for name in heuristics() if name != "fixed"), LAW]


def policy_files(given: Sequence[str] | None) -> dict[str, Path]:
    """Policies by label: the shipped ones if None; else those of folders, files and runs. Raises PolicyError.

    A shipped control is left out, because its rule stands beside the policy that it is of.
    """
    if given is None:
        return {name: file for name, file in shipped().items() if not control_of(artifact.load(file))}
    found: dict[str, Path] = {}
    for text in given:
        folder = Path(text)
        files = sorted(folder.rglob("*.safetensors")) if folder.is_dir() and not (folder / POLICY).is_file() else []
        if folder.is_dir() and not files and not (folder / POLICY).is_file():
            raise PolicyError(f"{folder}: no policy is in this folder; expected files that end in .safetensors")
        for file in files or [find_policy(text)]:
            name = file.parent.name if file.name == POLICY else file.stem
            if found.setdefault(name, file) != file:
                raise PolicyError(f'{file}: another policy is called "{name}", too ({found[name]}); rename one')
    return found


def line_up(
    schemes: Iterable[str], policies: Mapping[str, Path], known: Mapping[str, Sequence[Mapping[str, Any]]], threads: int
) -> list[Entrant]:
    """Everyone: schemes, policies with their controls, and the controls of every link.

    `known` are rules by the policies' digests that were found before. Raises ConfigError or PolicyError.
    """
    out = [_scheme(entry) for entry in dict.fromkeys(schemes)]
    for label, file in policies.items():
        trained = artifact.load(file)
        own = digest(file.read_bytes())
        rules = rules_of(trained, known.get(own, ()), threads)
        policy = _policy(label, file, trained, own, rules)
        out += [policy, *_controls(policy, trained, rules)]
    out += [
        Entrant(
            BEST_WINDOW, "control", REFERENCE, _digest({"computed": "best window 1"}), Sender(BEST_WINDOW, "fixed")
        ),
        Entrant(LATE, "control", REFERENCE, _digest({"computed": "one RTT late 1"}), Sender(LATE, "fixed")),
    ]
    labels = [entrant.label for entrant in out]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f'two entrants are called "{label}"; rename the policy\'s file')
    return out


def rules_of(
    trained: artifact.Artifact, known: Sequence[Mapping[str, Any]], threads: int
) -> tuple[Mapping[str, Any], ...]:
    """The best ways to run a policy's scheme without learning: the artifact's, those `known`, else a search.

    The search tries constant actions on links of the training distribution. What keeps it from being made (a recording
    that is not here, a record that needs code of its own) is in the rule, as why it is missing.
    """
    if trained.rules or known:
        return tuple(trained.rules or known)
    spec = Spec.of(_core.learned(trained.contract.document))
    try:
        record = record_of(trained)
        settings = record.rules.model_copy(update={"links": SEARCH_LINKS})
        found = without_learning.search_constant(record.model_copy(update={"rules": settings}), spec, threads)
    except CcarenaError as error:
        found = Rule("constant", f"{spec.name}, one action always", missing=f"no search was possible: {error}")
    return (found.as_dict(),)


def _scheme(entry: str) -> Entrant:
    entrant = parse_entry(entry)
    fields = {key: value for key, value in entrant.flow.items() if key not in ("scheme", "policy")}
    sender = Sender(entrant.label, entrant.flow["scheme"], entrant.flow.get("policy"), fields)
    about = {entry["name"]: entry for entry in _core.schemes()}.get(entrant.scheme, {})
    said = [
        f"# {entrant.label}",
        str(about.get("summary", "")),
        f"Source: {about['source']}" if "source" in about else "",
    ]
    tuned = [{"kind": kind, "name": name} for kind, name in LAW_TUNED_ON] if entrant.scheme == "pilot" else []
    return Entrant(
        entrant.label,
        "scheme",
        _track(entrant.flow["scheme"], about),
        _digest(_what(sender, "")),
        sender,
        trained_on=tuple(tuned),
        card="\n\n".join(part for part in said if part),
    )


def _policy(
    label: str, file: Path, trained: artifact.Artifact, own: str, rules: tuple[Mapping[str, Any], ...]
) -> Entrant:
    scheme = scheme_of(trained)
    shown = f"{label} (policy)" if label in heuristics() else label
    sender = Sender(shown, scheme, str(file.resolve()), {"params": dict(trained.params)})
    on = tuple(dict(each) for each in trained.trained_on)
    return Entrant(
        shown,
        "policy",
        _track(scheme, {}),
        _digest(_what(sender, own)),
        sender,
        own,
        trained_on=on,
        card=card(trained, shown),
        curve=trained.curve,
        rules=rules,
    )


def _controls(policy: Entrant, trained: artifact.Artifact, rules: Iterable[Mapping[str, Any]]) -> list[Entrant]:
    out = []
    for rule in map(Rule.of, rules):
        if not rule.found:
            continue
        params = {"params": {**trained.params, **rule.params}}
        sender = Sender(f"{policy.label}: {rule.label}", policy.sender.scheme, rule.policy, params)
        said = f"The best of its kind without learning ({rule.kind}), found on the training links of {policy.label}."
        out.append(
            Entrant(
                sender.label,
                "control",
                policy.track,
                _digest(_what(sender, "")),
                sender,
                of=policy.label,
                trained_on=policy.trained_on,
                card=f"# {sender.label}\n\n{said}",
            )
        )
    return out


def _track(scheme: str | Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Whether routers tell it a rate, by its entry in the registry or its document."""
    if about.get("assisted"):
        return ASSISTED
    shipped_documents = _core.shipped_documents()
    if isinstance(scheme, str) and scheme not in shipped_documents:
        return END_TO_END
    document = json.loads(shipped_documents[scheme]) if isinstance(scheme, str) else scheme
    base = document.get("base")
    names = {each.get("signal") for each in document.get("observe", {}).get("signals", ()) if isinstance(each, Mapping)}
    kind = base.get("kind") if isinstance(base, Mapping) else base
    return ASSISTED if kind == "acct" or names & set(_OF_THE_NETWORK) else END_TO_END


def _what(sender: Sender, policy: str) -> dict[str, Any]:
    """All that decides what a sender does, without its label or where its files are."""
    decides = policy or sender.policy
    document = digest_of(sender.scheme)
    return {"scheme": sender.scheme, "document": document, "policy": decides, "fields": sender.fields}


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
