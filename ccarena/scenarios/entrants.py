"""Entrants: schemes, policies, specs, controllers of users and programs of others, in one grammar for links.

`parse` reads the text (`GRAMMAR`), `read` also takes paths and artifacts in memory, and `Entrant.as_flow` gives the
flow of a scenario. Each kind of entrant is an entry of `KINDS`, which finds the meaning of a word and its flow.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ccarena import _core
from ccarena.configs.spec_files import action_of, as_json, is_built_in, is_file, read_spec
from ccarena.controllers import classes, modules
from ccarena.controllers import load as controllers
from ccarena.core.arguments import number
from ccarena.core.files import scratch
from ccarena.core.learned_schemes import shipped_policies, specs
from ccarena.core.reader import read_bytes
from ccarena.errors import CcarenaError, ConfigError, PolicyError, ScenarioError, did_you_mean
from ccarena.policies import artifact
from ccarena.policies.artifact import Artifact
from ccarena.policies.trained_by import scheme_of
from ccarena.runs.run_folder import POLICY, RUNS, policy_in, resume_command
from ccarena.scenarios.entrant_files import EntrantFile, is_entrant_file, kernel_control, read_entrant_file
from ccarena.scenarios.schemes import heuristics, registered, rule_based
from ccarena.scenarios.stacks import find_stack, stack_names

__all__ = [
    "GRAMMAR",
    "HELP",
    "KINDS",
    "POLICY_HELP",
    "Entrant",
    "EntrantLike",
    "PolicyLike",
    "about",
    "distinct",
    "find_policy",
    "line_up",
    "load_policy",
    "named_file",
    "of_file",
    "parse",
    "read",
    "rule_file",
    "say",
    "split_outside_quotes",
    "with_params",
]

GRAMMAR = """\
An entrant is [LABEL=]WHO[@KEY=VALUE[,KEY=VALUE]...] (docs/entrants.md):
  WHO    a scheme (`ccarena schemes`), or a policy: a file, a run's folder, the
         name of a run in runs/ or of a shipped policy; or SPEC=ACTION, a
         learned scheme that always takes this action; or a controller of
         yours, FILE.wasm or, in the simulator, FILE.py:NAME; in real time also
         kernel:NAME, stack:NAME (`ccarena stacks`), or an entrant file
  KEY    a parameter of the scheme (`ccarena schemes NAME`), weight, ecn (0, 1,
         accurate), l4s (0, 1), requirement (MIN:MAX, Mbit/s) or rules (a rule
         file, for remy)
  LABEL  its name in tables
examples: cubic@hystart=0  wcc-ai@weight=2  hercules@requirement=10:15  pilot
          runs/acct  mine=runs/acct  acct=10"""
HELP = "a scheme or a policy: cubic, cubic@hystart=0, pilot, runs/acct, LABEL=ENTRANT; the grammar is below"
POLICY_HELP = (
    "an entrant that is a policy: a file, a run's folder, a run in runs/ or a shipped policy (docs/entrants.md)"
)

PolicyLike: TypeAlias = str | os.PathLike[str] | Artifact
"""Policy: the text of an entrant that is one, a path, or an artifact from `ccarena.load_policy`."""
_MOST_LABEL, _MOST_TEXT = 60, 4096


@dataclass(frozen=True)
class Entrant:
    """Entrant of a run."""

    label: str
    """Name in tables and pages."""
    flow: Mapping[str, Any]
    """Fields of a scenario's flow: `scheme`, and `policy`, `rules`, `params`, `weight`, `requirement`, `ecn`, `l4s`."""
    text: str = field(default="", compare=False)
    """Text as the user wrote it."""
    labelled: bool = field(default=False, compare=False)
    """True if the user chose the label."""
    notice: str = field(default="", compare=False)
    """Notice of which of several things of one name was taken; empty if there is one."""
    theirs: EntrantFile | None = field(default=None, compare=False)
    """Facts of a congestion control of somebody else, if this is one."""

    @property
    def scheme(self) -> str:
        """Returns the name of its scheme or spec."""
        scheme = self.flow["scheme"]
        return scheme if isinstance(scheme, str) else str(scheme.get("name", "unnamed"))

    @property
    def policy(self) -> Any:
        """Returns the flow's `policy`: a file, `{constant: ACTION}` or another rule; None if it has none."""
        return self.flow.get("policy")

    @property
    def policy_file(self) -> Path | None:
        """Returns the file of its trained policy, if it has one."""
        return Path(self.policy) if isinstance(self.policy, str) and self.policy != "none" else None

    @property
    def weight(self) -> float:
        """Returns its weight in a fair division: 1 unless it has one."""
        return float(self.flow.get("weight", 1.0))

    @property
    def required_mbps(self) -> float | None:
        """Returns the least rate that it requires, if it does."""
        requirement = self.flow.get("requirement")
        return None if requirement is None else float(requirement["min_mbps"])

    @property
    def identity(self) -> str:
        """Returns a text that tells what it consists of, beside its flow's fields; empty for a scheme.

        Raises OSError if a file is gone.
        """
        files = [self.flow.get("policy"), self.flow.get("rules")]
        parts = [
            hashlib.sha256(read_bytes(Path(file))).hexdigest()
            for file in files
            if isinstance(file, str) and file != "none"
        ]
        parts += [controllers.identity(self.flow)] if "controller" in self.flow else []
        parts += [self.theirs.digest] if self.theirs is not None else []
        return " ".join(parts)

    def deciding(self, policy: Any) -> Entrant:
        """Returns the entrant with another `policy` of the flow, or with none."""
        flow = {key: value for key, value in self.flow.items() if key != "policy"}
        return replace(self, flow=flow if policy is None else {**flow, "policy": policy})

    def as_flow(self, **fields: Any) -> dict[str, Any]:
        """Returns the entrant as a flow of a scenario, with other `fields` of the flow."""
        return {**self.flow, **fields}


EntrantLike: TypeAlias = PolicyLike | Entrant | type
"""Argument for an entrant: its text, the path of a policy, an artifact in memory, a user's class, or an `Entrant`."""


def parse(text: str, kinds: Collection[str] = ()) -> Entrant:
    """Reads the text of an entrant, checked as far as a scenario checks a flow; `GRAMMAR` says what it may be.

    An error lists the names of `kinds` alone, all kinds if empty.

    Raises ConfigError, naming the part of `text` that is wrong, or PolicyError for a policy that cannot be used.
    """
    if len(text) > _MOST_TEXT:
        raise ConfigError(f'entrant "{text[:40]}...": {len(text)} characters; expected at most {_MOST_TEXT}')
    where = f'entrant "{text}"'
    written = _written(text, where)
    found, notice = _find(written, where, kinds)
    flow = found.flow()
    settings = _settings(written.settings, flow, where)
    if flow["scheme"] in rule_based() and "foreign" not in flow and "rules" not in settings:
        raise ConfigError(f"{where}: {written.who} runs a rule file; name it: {written.who}@rules=FILE")
    params = {**flow.get("params", {}), **settings.pop("params", {})}
    flow = {**flow, **settings, **({"params": params} if params else {})}
    if written.label:
        _check_label(written.label, flow["scheme"], where)
    _check(flow, where)
    label = written.label or found.label + (f"@{written.settings}" if written.settings else "")
    if "rules" in settings and not written.label:
        label = f"{found.label} ({Path(settings['rules']).stem})"
    return Entrant(label, flow, text, bool(written.label), notice, found.theirs)


def read(given: EntrantLike, stack: ExitStack | None = None) -> Entrant:
    """Reads an entrant from its text, from the path of a policy or from an artifact in memory.

    An artifact is written to a file for as long as `stack` lasts. Raises what `parse` does.
    """
    if isinstance(given, Entrant):
        return given
    if isinstance(given, str):
        return parse(given)
    if isinstance(given, type):
        name = _unlike(registered(), given.__name__, "class")
        flow = {**classes.flow_of(given), "scheme": name}
        controllers.check(flow)
        return Entrant(name, flow, given.__name__)
    if isinstance(given, Artifact):
        if stack is None:
            raise PolicyError("a policy in memory has no file; save it, and name the file")
        path = stack.enter_context(scratch()) / POLICY
        given.save(path)
        return Entrant(str(given.spec.get("name", "policy")), _policy_flow(path), str(path))
    return of_file(Path(given))


def of_file(path: Path) -> Entrant:
    """Returns the policy in the file `path`, or of the run in this folder, or the module `path`.

    Raises PolicyError for an unusable policy, and ConfigError for an unusable module.
    """
    if modules.is_module(str(path)):
        found = _module(str(path), path)
        return Entrant(found.label, found.flow(), str(path))
    file = _policy_at(path)
    return Entrant(_name_of(policy_in(path) or path), _policy_flow(file), str(path))


def line_up(given: Iterable[EntrantLike], stack: ExitStack) -> list[Entrant]:
    """Reads different entrants, and gives them different labels.

    Prints on stderr which of several things of one name was taken. Raises what `parse` does, and ConfigError.
    """
    texts = list(given)
    entrants = distinct([read(each, stack) for each in texts])
    labels = [entrant.label for entrant in entrants]
    for index, (text, label) in enumerate(zip(texts, labels, strict=True)):
        if label in labels[:index]:
            raise ConfigError(f'entrant "{text}" is given twice; name it once')
    return entrants


def distinct(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Gives each entrant its own label and prints notices; equal entrants share a label.

    Policies whose runs have the same name are numbered. Raises ConfigError if two chosen labels are equal.
    """
    taken: dict[str, Entrant] = {}
    out = []
    for entrant in entrants:
        label, count = entrant.label, 1
        while label in taken and taken[label].flow != entrant.flow:
            if entrant.labelled or entrant.policy_file is None:
                raise ConfigError(f'two entrants are called "{label}"; give one another label, as LABEL=ENTRANT')
            count += 1
            label = f"{entrant.label} ({count})"
        if label not in taken:
            say(entrant.notice)
        taken[label] = replace(entrant, label=label)
        out.append(taken[label])
    return out


def with_params(entrant: Entrant, params: Mapping[str, float]) -> str:
    """Returns the text of the entrant with `params` in place of its own parameters of these names."""
    who, _, settings = ("", "", "") if _is_path(entrant.text) else _cut(entrant.text, "@")
    if not who:
        who = f'"{entrant.text}"' if set("=@") & set(entrant.text) else entrant.text
    kept = [part for part in split_outside_quotes(settings, ",") if part.partition("=")[0] not in {"", *params}]
    return f"{who}@{','.join([*kept, *(f'{name}={value:.10g}' for name, value in params.items())])}"


def find_policy(policy: PolicyLike, stack: ExitStack | None = None) -> Path:
    """Returns the absolute path of an entrant that is a policy without settings.

    An artifact in memory is written for as long as `stack` lasts. Raises PolicyError for anything else.
    """
    return named_file(policy, stack)[1]


def named_file(policy: PolicyLike, stack: ExitStack | None = None) -> tuple[str, Path]:
    """Returns the label and the file of an entrant that is a policy without settings. Raises what `find_policy`
    does.
    """
    entrant, file = _trained(policy, stack)
    if set(entrant.flow) - _OF_A_POLICY or dict(entrant.flow["params"]) != artifact.load(file).params:
        raise PolicyError(f'entrant "{policy}": this takes a policy without "@KEY=VALUE"; leave that out')
    return entrant.label, file


def load_policy(policy: str | os.PathLike[str]) -> Artifact:
    """Loads the trained policy that an entrant's text or a path names (docs/entrants.md).

    `act(observations)` maps raw observations `[n, length]` to actions `[n]`; `spec` is the scheme that it was trained
    for. Parameters after an "@" replace those of its training. Raises PolicyError if there is no such policy, or if it
    cannot be used.
    """
    entrant, file = _trained(policy, None)
    if set(entrant.flow) - _OF_A_POLICY:
        raise PolicyError(f'entrant "{policy}": weight, requirement, ecn and l4s are those of a flow; leave them out')
    return replace(artifact.load(file), params=dict(entrant.flow["params"]))


_OF_A_POLICY = {"scheme", "policy", "params"}
_KINDS_OF_POLICIES = ("file", "run", "shipped")
_POLICIES = "a policy file, a run's folder, the name of a run in runs/ or of a shipped policy"


def _trained(policy: PolicyLike, stack: ExitStack | None) -> tuple[Entrant, Path]:
    """Returns an entrant and the file of its policy. Raises PolicyError if it is something else."""
    try:
        entrant = parse(policy, _KINDS_OF_POLICIES) if isinstance(policy, str) else read(policy, stack)
    except ConfigError as error:
        raise PolicyError(f"{error}; this takes {_POLICIES}") from error
    if entrant.policy_file is None:
        raise PolicyError(f'entrant "{policy}": {entrant.scheme} without a trained policy; expected {_POLICIES}')
    say(entrant.notice)
    return entrant, entrant.policy_file


# The text.


class _Written(NamedTuple):
    """Parts of an entrant's text."""

    label: str
    who: str
    action: float | None
    settings: str


_LABEL = re.compile(r"\w[\w .()-]*")


def _written(text: str, where: str) -> _Written:
    if text.count('"') % 2:
        raise ConfigError(f"{where}: a double quote is not closed")
    scheme, colon, rest = text.partition(":")
    if colon and scheme in registered():
        raise ConfigError(f'{where}: settings follow "@", joined by commas: {scheme}@{rest.replace(":", ",")}')
    label, rest = "", text
    if not _is_path(text):
        head, equals, tail = _cut(text, "=")
        if equals and _LABEL.fullmatch(head) and not _is_number(_cut(tail, "@")[0]):
            label, rest = head.strip(), tail
    if _is_path(rest):
        return _Written(label, rest, None, "")
    who, at, settings = _cut(rest, "@")
    if at and not settings:
        raise ConfigError(f'{where}: nothing follows "@"; expected KEY=VALUE, such as cubic@hystart=0')
    spec, equals, action = _cut(who, "=")
    if not equals:
        return _Written(label, _bare(who), None, settings)
    if not _is_number(action):
        raise ConfigError(
            f'{where}: "{action}" behind "{spec}=" is no action; expected [LABEL=]WHO[@KEY=VALUE,...]; a label has '
            'letters, digits, blanks and . _ - ( ), and a path with "=" or "@" in it stands in double quotes'
        )
    return _Written(label, _bare(spec), number(action, f'{where}: the action of "{spec}"'), settings)


def split_outside_quotes(text: str, mark: str) -> list[str]:
    """Splits `text` at marks outside double quotes; the quotes stay."""
    # A mark stands outside if an even number of quotes follows it.
    return re.split(rf'{re.escape(mark)}(?=(?:[^"]*"[^"]*")*[^"]*$)', text)


def _cut(text: str, mark: str) -> tuple[str, str, str]:
    """Splits like `str.partition`, at the first mark outside double quotes."""
    head, *rest = split_outside_quotes(text, mark)
    return (head, mark, text[len(head) + 1 :]) if rest else (head, "", "")


def _bare(text: str) -> str:
    return text.replace('"', "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_path(text: str) -> bool:
    """Returns whether `text` as a whole, with "=" and "@" in it, is an existing path."""
    return "/" in text and '"' not in text and os.path.exists(text)


def _check_label(label: str, scheme: Any, where: str) -> None:
    if len(label) > _MOST_LABEL:
        raise ConfigError(f"{where}: a label of {len(label)} characters; expected at most {_MOST_LABEL}")
    own = scheme if isinstance(scheme, str) else scheme.get("name")
    if label != own and label in registered():
        raise ConfigError(f"{where}: the label {label} is a scheme, and this is {own}; give another label")


# What it means.


class _Found(NamedTuple):
    """Meaning of a word."""

    said: str
    """Description with an unambiguous name."""
    label: str
    flow: Callable[[], dict[str, Any]]
    """Returns the flow. Raises PolicyError for a policy that cannot be used."""
    theirs: EntrantFile | None = None
    """Facts of a congestion control of somebody else."""


@dataclass(frozen=True)
class Kind:
    """Kind of entrant."""

    find: Callable[[str], _Found | None]
    """Function that returns the meaning of a word in this kind; None if it has none."""
    names: Callable[[], Iterable[str]]
    """Known words, for the nearest one in errors."""


def _scheme(who: str) -> _Found | None:
    known = who in heuristics() or who in rule_based()
    return _Found(f"scheme:{who}", who, lambda: {"scheme": who}) if known else None


def _file(who: str) -> _Found | None:
    path = Path(who)
    # A bare word may also be a folder that has nothing to do with policies.
    plain = "/" not in who and not path.suffix
    if is_entrant_file(path):
        theirs = read_entrant_file(path)
        return _Found(f"the entrant file {path}", theirs.name, theirs.flow, theirs)
    if (
        is_file(who)
        or path.suffix == ".py"
        or modules.is_module(who)
        or not os.path.exists(path)
        or (plain and policy_in(path) is None)
    ):
        return None
    return _policy(f"the policy {path}" if "/" in who else f"the policy ./{path}", path)


def _run(who: str) -> _Found | None:
    path = RUNS / who
    return _policy(f"the run {path}", path) if "/" not in who and policy_in(path) is not None else None


def _shipped(who: str) -> _Found | None:
    path = shipped_policies().get(who)
    return None if path is None else _policy(f"the shipped policy, shipped:{who}", path)


def _stack(who: str) -> _Found | None:
    found = find_stack(who)
    if found is None:
        return None
    stack, control = found
    return _Found(f"the stack, stack:{who}", who, lambda: stack.flow(control), stack.entrant)


def _python(who: str) -> _Found | None:
    if not classes.is_class(who):
        if who.endswith(".py") and os.path.isfile(who):
            raise ConfigError(f"{who}: name its class: {' or '.join(classes.in_file(Path(who))) or f'{who}:NAME'}")
        return None
    name = _unlike(registered(), who.rpartition(":")[2], "class")
    return _Found(f"the class {who}", name, lambda: {**classes.flow_of(who), "scheme": name})


def _wasm(who: str) -> _Found | None:
    return _module(who, Path(who)) if modules.is_module(who) else None


def _module(who: str, path: Path) -> _Found:
    name = _unlike(registered(), path.stem, "module")
    return _Found(f"the module {who}", name, lambda: {**modules.flow_of(path), "scheme": name})


KINDS: dict[str, Kind] = {
    "scheme": Kind(_scheme, lambda: heuristics() + rule_based()),
    "file": Kind(_file, lambda: []),
    "run": Kind(_run, lambda: [path.parent.name for path in RUNS.glob(f"*/{POLICY}")]),
    "shipped": Kind(_shipped, shipped_policies),
    "stack": Kind(_stack, stack_names),
    "python": Kind(_python, lambda: []),
    "wasm": Kind(_wasm, lambda: []),
}
"""Kinds by the name that chooses one, as in `shipped:acct`; the first that knows a word is taken."""


KERNEL = "kernel"
"""Kind of the congestion controls of the kernel's TCP, which is always written: `kernel:vegas`."""


def _find(written: _Written, where: str, kinds: Collection[str]) -> tuple[_Found, str]:
    """Returns the meaning of an entrant's `who`, and a notice if there are several of that name."""
    if written.action is not None:
        return _constant(written.who, written.action, where), ""
    kind, colon, rest = written.who.partition(":")
    if colon and kind == KERNEL:
        # Which ones there are, the kernel of the run knows.
        theirs = kernel_control(rest)
        return _Found(theirs.name, theirs.name, theirs.flow, theirs), ""
    if colon and kind in KINDS:
        chosen = KINDS[kind].find(rest)
        if chosen is None:
            raise ConfigError(
                f'{where}: nothing of the kind {kind} is called "{rest}"{did_you_mean(rest, KINDS[kind].names())}'
            )
        return chosen, ""
    found = [each for kind in KINDS.values() if (each := kind.find(written.who)) is not None]
    if not found:
        raise _unknown(written, where, kinds or KINDS)
    first, *others = found
    notice = f"{written.who}: took {first.said}, not {' or '.join(each.said for each in others)}" if others else ""
    return first, notice


def _constant(who: str, action: float, where: str) -> _Found:
    spec = _spec(who)
    if spec is None:
        known = specs()
        hint = '; a path with "=" in it stands in double quotes' if "/" in who else did_you_mean(who, known)
        learned = "is not learned and" if who in heuristics() else "is no learned scheme or spec file and"
        raise ConfigError(f'{where}: "{who}" {learned} takes no action{hint}')
    about = _core.learned(as_json(spec, who))
    try:
        index = action_of(about, action)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    scheme = who if is_built_in(who) else spec
    return _Found(who, f"{about['name']}={action:g}", lambda: {"scheme": scheme, "policy": {"constant": index}})


def _spec(who: str) -> Any:
    """Returns the spec of a learned scheme, by its name or file; None if there is none."""
    if is_file(who):
        return read_spec(Path(who))
    shipped_specs = specs()
    return _core.learned(shipped_specs[who])["spec"] if who in shipped_specs else None


def _unknown(written: _Written, where: str, kinds: Collection[str]) -> CcarenaError:
    who = written.who
    if not who:
        return ConfigError(f"{where}: has no name; expected a scheme or a policy")
    if _spec(who) is not None:
        return ConfigError(
            f"{where}: {who} is learned, and no policy of that name is here; name its policy (runs/NAME), or an action "
            f"to take always ({who}=0)"
        )
    if "/" in who or Path(who).suffix:
        return PolicyError(f'{where}: there is no file or folder "{who}"; expected a policy file or a run\'s folder')
    if os.path.isdir(who):
        return PolicyError(f"{who}: no run and no policy is in this folder; expected {POLICY} in it")
    known = {name for kind in kinds for name in KINDS[kind].names()}
    absent = "no scheme, run, policy or file" if "scheme" in kinds else "no run, policy or file"
    return ConfigError(f'{where}: unknown "{who}": {absent}{did_you_mean(who, known)}')


def _policy(said: str, path: Path) -> _Found:
    return _Found(said, _name_of(policy_in(path) or path), lambda: _policy_flow(_policy_at(path)))


def _policy_at(path: Path) -> Path:
    """Returns the policy file that a path means, which may be a run's folder. Raises PolicyError if there is none."""
    file = policy_in(path)
    if file is not None and file.is_file():
        return file.resolve()
    if file is not None:
        raise PolicyError(f"{path}: the run has no {POLICY} yet; train it to its end: {resume_command(path)}")
    if os.path.isdir(path):
        raise PolicyError(f"{path}: no run and no policy is in this folder; expected {POLICY} in it")
    raise PolicyError(f"{path}: no such policy; expected {_POLICIES}")


def _name_of(file: Path) -> str:
    """Returns the name of a policy's run, or of its file. It differs from the name of a scheme without a policy."""
    return _unlike(heuristics(), (file.parent.name if file.name == POLICY else "") or file.stem, "policy")


def _unlike(known: Container[str], name: str, what: str) -> str:
    """Returns a name, with what it names if it would be taken for a scheme that is `known`."""
    return f"{name} ({what})" if name in known else name


def _policy_flow(file: Path) -> dict[str, Any]:
    trained = artifact.load(file)
    return {"scheme": scheme_of(trained), "policy": str(file), "params": dict(trained.params)}


# Its settings.


def _range(text: str, where: str) -> dict[str, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise ConfigError(f'{where} is "{text}"; expected MIN:MAX in Mbit/s, such as requirement=10:15')
    return {"min_mbps": number(low, f"{where}: MIN"), "max_mbps": number(high, f"{where}: MAX")}


def _switch(text: str, where: str) -> bool:
    if text not in ("0", "1"):
        raise ConfigError(f'{where} is "{text}"; expected 0 or 1')
    return text == "1"


def _feedback(text: str, where: str) -> bool | str:
    if text not in ("0", "1", "accurate"):
        raise ConfigError(f'{where} is "{text}"; expected 0, 1 or accurate')
    return text if text == "accurate" else text == "1"


def rule_file(text: str, where: str) -> str:
    """Returns the absolute path of a rule file, checked. Raises PolicyError, which begins with `where` or the file."""
    path = Path(text)
    try:
        data = read_bytes(path)
    except OSError as error:
        raise PolicyError(f"{where}: {path}: cannot read the rule file: {error.strerror}") from error
    try:
        _core.check_rules(data.decode(), str(path))
    except UnicodeDecodeError:
        raise PolicyError(f"{path}: no JSON; make it of a .dna file by: ccarena policy import remy {path}") from None
    return str(path.resolve())


FIELDS: dict[str, Callable[[str, str], Any]] = {
    "weight": number,
    "requirement": _range,
    "ecn": _feedback,
    "l4s": _switch,
    "rules": rule_file,
}
"""Readers, called with (text, where), of settings that are fields of a flow; all others are the scheme's parameters."""


def _settings(text: str, flow: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the flow's fields in `KEY=VALUE,...`, with `params` among them."""
    if not text:
        return {}
    entry = _about(flow)
    known = {param["name"] for param in entry["params"]}
    fields: dict[str, Any] = {}
    params: dict[str, float] = {}
    for part in split_outside_quotes(text, ","):
        key, equals, value = part.partition("=")
        value = _bare(value)
        if not (key and equals and value):
            raise ConfigError(f'{where}: "{part}" is no KEY=VALUE; expected something like cubic@hystart=0')
        if key in fields or key in params:
            raise ConfigError(f'{where}: "{key}" is given twice')
        if key == "rules" and not entry.get("rules"):
            raise ConfigError(f'{where}: "rules": {entry["name"]} runs no rule file; {", ".join(rule_based())} does')
        if key in FIELDS:
            fields[key] = FIELDS[key](value, f'{where}: "{key}"')
        elif key in known:
            params[key] = number(value, f'{where}: "{key}"')
        else:
            fit = known | {name for name in FIELDS if name != "rules" or entry.get("rules")}
            raise ConfigError(f'{where}: {entry["name"]} has no parameter "{key}"{did_you_mean(key, fit)}')
    if "weight" in fields and entry.get("weight_above") is None:
        sharing = [name for name, entry in registered().items() if entry.get("weight_above") is not None]
        raise ConfigError(
            f'{where}: "weight": {entry["name"]} does not share by weight; those that do: {", ".join(sharing)}'
        )
    return {**fields, **({"params": params} if params else {})}


def _about(flow: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the facts of what a flow runs: its name and its parameters."""
    if "controller" in flow:
        return {
            "name": flow["scheme"],
            "params": [{"name": name} for name in controllers.parameters(flow)],
            "weight_above": 0,
        }
    return {"name": flow["scheme"], "params": []} if "foreign" in flow else about(flow["scheme"])


def about(scheme: Any) -> Mapping[str, Any]:
    """Returns the registry's entry of a scheme, or the facts of a spec."""
    if isinstance(scheme, str):
        return registered()[scheme]
    told: Mapping[str, Any] = _core.learned(as_json(scheme, "the policy's spec"))
    return told


def _check(flow: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError if a scenario refuses `flow`."""
    if "controller" in flow:
        try:
            controllers.check(flow)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    link = {"service": {"type": "constant", "rate_mbps": 10.0}}
    try:
        _core.validate_scenario(as_json({"links": [link], "flows": [dict(flow)]}, where))
    except ScenarioError as error:
        raise ConfigError(f"{where}: {str(error).replace('flows[0].', '')}") from error


def say(notice: str) -> None:
    """Prints the notice of an entrant on stderr, if it has one."""
    if notice:
        print(f"note: {notice}", file=sys.stderr)
