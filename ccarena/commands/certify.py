"""Command `ccarena certify`: proves or refutes properties of a policy, and writes its guard."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from ccarena.core.outputs import Output
from ccarena.core.reader import read_data
from ccarena.core.terminal import print_table, visible
from ccarena.errors import ConfigError
from ccarena.eval.certify import BOXES
from ccarena.policies import artifact
from ccarena.scenarios.entrants import POLICY_HELP, find_policy

__all__ = ["add_parser", "run"]

_MOST_BOXES = 10**9


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("certify", **kwargs)
    parser.add_argument("policy", metavar="ENTRANT", help=POLICY_HELP)
    parser.add_argument(
        "properties",
        metavar="FILE",
        nargs="?",
        help="properties (docs/certify.md); default ones for the actuator if left out",
    )
    parser.add_argument(
        "--form", choices=["float", "integer", "both"], default="both", help="form of the policy (both)"
    )
    parser.add_argument(
        "--boxes",
        type=int,
        default=BOXES,
        metavar="N",
        help=f"most boxes for one property in one form ({BOXES:,})",
    )
    parser.add_argument("--json", action="store_true", help="print answers and counterexamples as JSON")
    parser.add_argument(
        "--guard",
        type=Output(),
        metavar="FILE",
        help="write the policy with its certificate and its guard to this file",
    )


def run(args: argparse.Namespace) -> int:
    """Decides the properties. Returns 1 if one is refuted or undecided."""
    from ccarena.eval.certify.certificate import FORMS, PROVED, certify, guarded, summary
    from ccarena.eval.certify.defaults import default_properties
    from ccarena.eval.certify.properties import read

    if not 1 <= args.boxes <= _MOST_BOXES:
        raise ConfigError(f"--boxes {args.boxes}: expected 1 to {_MOST_BOXES:,}")
    policy = artifact.load(find_policy(args.policy))
    if args.properties is None:
        data = default_properties(policy)
    else:
        data = read_data(args.properties, "properties of a policy in YAML (docs/certify.md)")
    document = read(data, policy, args.properties or "default properties")
    answers: list[Any] = []
    try:
        for name in FORMS if args.form == "both" else [args.form]:
            form = FORMS[name](policy)
            for prop in document.properties:
                answers.append(certify(prop, form, args.boxes))
                if not args.json:
                    print(visible(_line(answers[-1])), flush=True)
    except KeyboardInterrupt:
        # What is decided took its time; a guard would lack the other answers.
        if answers:
            _show(answers, summary(answers), args.json)
        raise
    total = summary(answers)
    _show(answers, total, args.json)
    if args.guard is not None:
        certified = replace(policy, certificate=[each.as_dict() for each in answers])
        guarded(certified, document.space, document.bound).save(args.guard)
    return 0 if total[PROVED] == len(answers) else 1


def _show(answers: list[Any], total: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({**total, "answers": [each.as_dict() for each in answers]}, indent=1))
    else:
        _print_shares(answers, total)


def _line(answer: Any) -> str:
    return f"{answer.state:<9}  {answer.name} ({answer.form}; {answer.boxes:,} boxes, {answer.seconds:.1f} s)"


def _print_shares(answers: list[Any], total: dict[str, Any]) -> None:
    """Prints the shares of the volume, and an observation for each refuted property."""
    rows = [
        [each.name, each.form, each.state, f"{each.holds:.2%}", f"{each.violated:.2%}", f"{each.undecided:.2%}"]
        for each in answers
    ]
    print()
    head = ["property", "form", "state", "holds", "violated", "undecided"]
    print_table("shares of the volume", head, rows, 3)
    for each in answers:
        if each.counterexample is not None:
            print(visible(f"\n{each.name} ({each.form}) is wrong for:"))
            for decision in each.counterexample["decisions"]:
                values = ", ".join(f"{name} {_shown(value)}" for name, value in decision["observation"].items())
                print(visible(f"  action {decision['action']:.4g} for {values}"))
    print(
        f"\n{total['proved']} proved, {total['refuted']} refuted, {total['undecided']} undecided; "
        f"{total['decided']:.2%} of the volume is decided"
    )


def _shown(value: float | list[float]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(f'{x:.4g}' for x in value)}]"
    return f"{value:.4g}"
