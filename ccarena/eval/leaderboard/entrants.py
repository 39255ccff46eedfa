"""Entrants of the leaderboard: schemes, policies, and the baselines beside every policy.

Each runs on one of two tracks: end to end, or router-assisted, where routers tell senders a rate. The package finds the
baselines of policies:
- the best rules without learning for a policy's scheme, from the artifact or searched on its training links
  (`ccarena.eval.heldout.rules`);
- on every link, the fixed window that is best with hindsight;
- the reach of a sender that knows capacity one RTT late.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ccarena import _core
from ccarena.configs.spec_files import digest_of
from ccarena.controllers import modules
from ccarena.controllers.load import identity
from ccarena.core.files import digest
from ccarena.core.learned_schemes import shipped_policies, specs
from ccarena.errors import CcarenaError, ConfigError, PolicyError
from ccarena.eval.heldout import rules as without_learning
from ccarena.eval.heldout.evaluation import BEST_WINDOW
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.leaderboard.links import BoardTrace
from ccarena.eval.leaderboard.submitted_file import KINDS
from ccarena.policies import artifact
from ccarena.policies.card import card
from ccarena.policies.curve import Curve
from ccarena.policies.spec import Spec
from ccarena.policies.trained_by import configuration_of, rule_of
from ccarena.runs.run_folder import policy_in
from ccarena.scenarios.entrant_files import EntrantFile
from ccarena.scenarios.entrants import Entrant, distinct, of_file, parse
from ccarena.scenarios.schemes import heuristics, registered
from ccarena.traces.held_out import derives_from

__all__ = [
    "ASSISTED",
    "END_TO_END",
    "LATE",
    "ORACLE",
    "Kind",
    "Ranked",
    "default_schemes",
    "entrants_of",
    "line_up",
    "rules_of",
]

END_TO_END, ASSISTED, ORACLE = TRACKS = ("end to end", "router-assisted", "oracle")
"""Tracks; an oracle is computed with knowledge that no sender has, and has no rank."""
LATE = "one RTT late"
"""Baseline that knows capacity one round trip late (`ccarena.eval.heldout.oracle`)."""
TUNED_ON = {
    "pilot": (
        *(("preset", name) for name in ("lte-stationary", "lte-walking", "lte-bus", "sprout")),
        *(("trace", name) for name in ("trace-2925703-home1", "trace-3114405-bus", "trace-3199718-timessquare")),
    )
}
"""Links that a scheme's default parameters were searched on (docs/pilot.md)."""
SEARCH_LINKS = 16
"""Training links on which a constant action is searched for a policy whose artifact names none."""
_OF_THE_NETWORK = ("advertised_mbps", "twnd_packets", "target_ratio", "zone", "zone_index")
"""Signals of a learned scheme that routers advertise (crates/ccarena-cc/src/learned/signals)."""
Kind = Literal["scheme", "module", "class", "policy", "baseline"]


@dataclass(frozen=True)
class Ranked:
    """Entrant of the leaderboard with its description."""

    label: str
    kind: Kind
    track: str
    """Track, one of `TRACKS`."""
    digest: str
    """Digest of all that decides its behaviour: scheme or spec, parameters, policy."""
    sender: Entrant
    policy_digest: str = ""
    """Digest of the artifact's bytes."""
    of: str = ""
    """Label of the policy that a baseline belongs to."""
    trained_on: tuple[Mapping[str, str], ...] = ()
    """Traces, presets and distributions that it was trained or tuned on: `kind`, `name`, `digest`."""
    card: str = ""
    """Description in Markdown."""
    curve: Curve = field(default_factory=dict, repr=False)
    """Learning curve of a policy; empty if the artifact has none."""
    rules: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """Best rules without learning for a policy's scheme."""

    @property
    def computed(self) -> bool:
        """Returns whether it is computed from each link's capacity instead of being run as a scheme."""
        return self.label in (LATE, BEST_WINDOW)

    def seen(self, trace: BoardTrace) -> bool:
        """Returns whether it was trained on this trace, on its recording, or on a preset fitted to the same
        recording.
        """
        return any(
            derives_from(each.get("name", "")) == trace.origin or each.get("digest") == trace.digest
            for each in self.trained_on
            if each.get("kind") != "distribution"
        )


def default_schemes() -> list[str]:
    """Returns every scheme that needs no policy and is no alias of another; a fixed window is a baseline."""
    return [name for name in heuristics() if name != "fixed" and registered()[name]["alias_of"] is None]


def entrants_of(schemes: Iterable[str], policies: Sequence[str] | None) -> list[Entrant]:
    """Returns the entrants that `schemes` and `policies` name; policies may also be modules, and folders of both (None:
    the shipped policies).

    A shipped baseline is left out, because its rule is a baseline of its policy anyway. Raises ConfigError or
    PolicyError.
    """
    given = [parse(text) for text in dict.fromkeys(schemes)]
    if policies is None:
        given += [of_file(file) for file in shipped_policies().values() if not rule_of(artifact.load(file))]
    for text in policies or ():
        folder = Path(text)
        if not folder.is_dir() or policy_in(folder) is not None:
            given.append(parse(text))
            continue
        files = sorted(path for kind in KINDS.values() for path in folder.rglob(f"*{kind.suffix}"))
        if not files:
            ends = " or ".join(kind.suffix for kind in KINDS.values())
            raise PolicyError(f"{folder}: no policy is in this folder; expected files that end in {ends}")
        given += [of_file(file) for file in files]
    return list({entrant.label: entrant for entrant in distinct(given)}.values())


def line_up(given: Iterable[Entrant], known: Mapping[str, Sequence[Mapping[str, Any]]], threads: int) -> list[Ranked]:
    """Returns all entrants: the given ones, the baselines of policies, and the baselines of every link.

    `known` are rules found before, by the policies' digests. Raises ConfigError or PolicyError.
    """
    out = []
    for entrant in given:
        if entrant.policy_file is None:
            out.append(_scheme(entrant) if entrant.theirs is None else _foreign(entrant, entrant.theirs))
            continue
        trained = artifact.load(entrant.policy_file)
        own = digest(entrant.policy_file.read_bytes())
        rules = rules_of(trained, known.get(own, ()), threads)
        policy = _policy(entrant, trained, own, rules)
        out += [policy, *_baselines(policy, trained, rules)]
    bounds = {BEST_WINDOW: "best window 1", LATE: "one RTT late 1"}
    for label, computed in bounds.items():
        sender = Entrant(label, {"scheme": "fixed"})
        out.append(Ranked(label, "baseline", ORACLE, _digest({"computed": computed}), sender))
    labels = [ranked.label for ranked in out]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f'two entrants are called "{label}"; give one another label, as LABEL=ENTRANT')
    return out


def rules_of(
    trained: artifact.Artifact, known: Sequence[Mapping[str, Any]], threads: int
) -> tuple[Mapping[str, Any], ...]:
    """Returns the best rules without learning for a policy's scheme: the artifact's, those `known`, else from a search.

    The search tries constant actions on links of the training distribution. If it is impossible (a missing recording, a
    configuration that needs code of its own), the rule has the reason.
    """
    if trained.rules or known:
        return tuple(trained.rules or known)
    spec = Spec.of(_core.learned(trained.interface.spec))
    try:
        record = configuration_of(trained)
        settings = record.rules.model_copy(update={"links": SEARCH_LINKS})
        found = without_learning.search_constant(record.model_copy(update={"rules": settings}), spec, threads)
    except CcarenaError as error:
        found = Rule("constant", f"{spec.name}, one action always", missing=f"no search was possible: {error}")
    return (found.as_dict(),)


def _scheme(entrant: Entrant) -> Ranked:
    if "controller" in entrant.flow:
        kind: Kind = "module" if entrant.flow["controller"]["type"] == "wasm" else "class"
        return Ranked(entrant.label, kind, END_TO_END, _digest(_what(entrant, "")), entrant, card=_card(entrant))
    about = {entry["name"]: entry for entry in _core.schemes()}.get(entrant.scheme, {})
    said = [
        f"# {entrant.label}",
        str(about.get("summary", "")),
        f"Source: {about['source']}" if "source" in about else "",
    ]
    tuned = [{"kind": kind, "name": name} for kind, name in TUNED_ON.get(entrant.scheme, ())]
    return Ranked(
        entrant.label,
        "scheme",
        _track(entrant.flow["scheme"], about),
        _digest(_what(entrant, "")),
        entrant,
        trained_on=tuple(tuned),
        card="\n\n".join(part for part in said if part),
    )


def _card(entrant: Entrant) -> str:
    """Returns the card of a user's controller."""
    if entrant.flow["controller"]["type"] == "wasm":
        return modules.card(modules.about(Path(entrant.flow["controller"]["module"])), entrant.label)
    return f"# {entrant.label}\n\nA Python class."


def _foreign(entrant: Entrant, theirs: EntrantFile) -> Ranked:
    """Returns a congestion control of somebody else; its digest has its file, programs and version, not their place."""
    facts = {
        "Version": _version(theirs),
        "Licence": theirs.licence,
        "How to get it": theirs.obtain,
        "Limit": theirs.bound,
    }
    said = [f"{name}: {text}" for name, text in facts.items() if text]
    fields = {key: value for key, value in entrant.flow.items() if key != "foreign"}
    card = "\n\n".join([f"# {entrant.label}", *filter(None, [theirs.title]), *said])
    own = _digest({"theirs": theirs.digest, "fields": fields})
    return Ranked(entrant.label, "scheme", END_TO_END, own, entrant, card=card)


def _version(theirs: EntrantFile) -> str:
    """Returns the version, with those of the Debian packages that have its programs, as far as dpkg knows them."""
    built = bool(theirs.tools)  # its packages are those of its compilers
    if built or not theirs.packages or shutil.which("dpkg-query") is None:
        return theirs.version
    words = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *theirs.packages]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    known = ", ".join(line for line in said.splitlines() if not line.endswith(" "))
    return f"{theirs.version} ({known})".strip() if known else theirs.version


def _policy(entrant: Entrant, trained: artifact.Artifact, own: str, rules: tuple[Mapping[str, Any], ...]) -> Ranked:
    return Ranked(
        entrant.label,
        "policy",
        _track(entrant.flow["scheme"], {}),
        _digest(_what(entrant, own)),
        entrant,
        own,
        trained_on=tuple(dict(each) for each in trained.trained_on),
        card=card(trained, entrant.label),
        curve=trained.curve,
        rules=rules,
    )


def _baselines(policy: Ranked, trained: artifact.Artifact, rules: Iterable[Mapping[str, Any]]) -> list[Ranked]:
    out = []
    for rule in map(Rule.of, rules):
        if not rule.found:
            continue
        flow = {**policy.sender.flow, "policy": rule.policy, "params": {**trained.params, **rule.params}}
        sender = Entrant(f"{policy.label}: {rule.label}", flow)
        said = f"The best of its kind without learning ({rule.kind}), found on the training links of {policy.label}."
        out.append(
            Ranked(
                sender.label,
                "baseline",
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
    """Returns the track, by the scheme's entry in the registry or its spec."""
    if about.get("assisted"):
        return ASSISTED
    shipped_specs = specs()
    if isinstance(scheme, str) and scheme not in shipped_specs:
        return END_TO_END
    spec = json.loads(shipped_specs[scheme]) if isinstance(scheme, str) else scheme
    base = spec.get("base")
    names = {each.get("signal") for each in spec.get("observe", {}).get("signals", ()) if isinstance(each, Mapping)}
    kind = base.get("kind") if isinstance(base, Mapping) else base
    return ASSISTED if kind == "acct" or names & set(_OF_THE_NETWORK) else END_TO_END


def _what(sender: Entrant, policy: str) -> dict[str, Any]:
    """Returns all that decides a sender's behaviour, without its label or the place of its files."""
    scheme = sender.flow["scheme"]
    fields = {key: value for key, value in sender.flow.items() if key not in ("scheme", "policy")}
    if "rules" in fields:
        fields["rules"] = digest(Path(fields["rules"]).read_bytes())
    if "controller" in fields:
        fields["controller"] = identity(sender.flow)
    return {"scheme": scheme, "spec": digest_of(scheme), "policy": policy or sender.policy, "fields": fields}


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
