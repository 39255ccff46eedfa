"""Command `ccarena policy`: contents of a policy artifact, its baseline rule, and import of published controllers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena.core.outputs import Output
from ccarena.core.terminal import print_table, visible
from ccarena.errors import ConfigError, PolicyError
from ccarena.policies import artifact
from ccarena.policies.interface import written
from ccarena.scenarios.entrants import POLICY_HELP, find_policy


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("policy", **kwargs)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="scheme, network, training and results", description=show_policy.__doc__)
    show.add_argument("policy", metavar="ENTRANT", help=POLICY_HELP)
    show.add_argument("--json", action="store_true", help="everything but the weights, as JSON")
    show.set_defaults(act=show_policy)
    rule = actions.add_parser(
        "rule", help="the best rule without learning, as a policy of its own", description=write_rule.__doc__
    )
    rule.add_argument("policy", metavar="ENTRANT", help=POLICY_HELP)
    rule.add_argument("--out", required=True, type=Output(), metavar="FILE", help="the policy file to write")
    rule.set_defaults(act=write_rule)
    take = actions.add_parser(
        "import", help="a published controller out of its authors' files", description=import_published.__doc__
    )
    take.add_argument("controller", choices=["orca", "astraea", "indigo", "remy"], help="whose file it is")
    take.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a TensorFlow checkpoint (its prefix or one of its files) or .safetensors; for remy a .dna file",
    )
    take.add_argument(
        "--out", required=True, type=Output(), metavar="FILE", help="the policy file to write; for remy a .json file"
    )
    take.set_defaults(act=import_published)


def run(args: argparse.Namespace) -> int | None:
    """Runs the chosen action."""
    code: int | None = args.act(args)
    return code


def show_policy(args: argparse.Namespace) -> None:
    """Prints what a policy observes and does, its network, its training, and its results."""
    from ccarena.policies.about import COLUMNS, page, results

    policy = _load(args.policy)
    weights = sum(tensor.size for tensor in policy.graph.tensors.values())
    about = {
        "spec": policy.spec,
        "digest": policy.interface.digest,
        "params": policy.params,
        "observation": policy.interface.observation_len,
        "actions": list(policy.interface.actions),
        "bounds": written(policy.interface.bounds) or None,
        "graph": policy.graph.to_json(),
        "weights": weights,
        "training": policy.training,
        "seed": policy.seed,
        "versions": policy.versions,
        "trained_on": policy.trained_on,
        "tests": policy.tests,
        "rules": policy.rules,
        "evaluation": policy.evaluation,
    }
    if args.json:
        print(json.dumps(about, indent=1))
        return
    print(page(policy))
    head, rows = results(policy)
    if rows:
        print()
        print_table("means over held-out links and seeds", head, rows, left=2, most=COLUMNS)


def write_rule(args: argparse.Namespace) -> None:
    """Writes the best rule without learning, found in the policy's training, as a policy of its own. It runs wherever
    the policy does: in scenarios, over kernel TCP, over QUIC and exported.
    """
    from ccarena.policies.baseline_rule import best_rule, rule_policy

    policy = _load(args.policy)
    try:
        rule, label = rule_policy(policy), best_rule(policy)["label"]
    except PolicyError as error:
        raise PolicyError(f"{args.policy}: {error}") from error
    rule.save(args.out)
    print(visible(f"{args.out}: {label}"))


def import_published(args: argparse.Namespace) -> None:
    """Writes a published controller as a file of this program: the network of Orca, Astraea or Indigo as a policy, or
    a RemyCC's rules as JSON for `remy@rules=FILE`. TensorFlow is not needed.
    """
    if args.controller == "remy":
        from ccarena.core.files import write_atomically
        from ccarena.policies.remy_dna import import_rules

        if args.out.suffix != ".json":
            raise ConfigError(f"--out {args.out}: expected a .json file for the rules of a RemyCC")
        write_atomically(args.out, import_rules(args.path) + "\n")
        print(visible(f"{args.out}: rules, for the entrant remy@rules={args.out}"))
        return
    from ccarena.policies.published import import_checkpoint

    policy = import_checkpoint(args.controller, args.path)
    policy.save(args.out)
    print(visible(f"{args.out}: {policy.training['imported']}, {policy.training['source']}"))
    print(visible(f"licence of the weights: {policy.training['licence']}"))


def _load(name: str) -> artifact.Artifact:
    return artifact.load(find_policy(name))
