"""Command `ccarena data`: datasets of trajectories, to learn from what schemes do."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena.configs import load_config, parse_overrides
from ccarena.configs.link_distribution import name_traces
from ccarena.configs.load import DEFAULT
from ccarena.configs.unused import refuse_unused_keys
from ccarena.core.outputs import folder
from ccarena.core.terminal import NOTHING_BEGUN, command_line, print_table, progress_bar, remember
from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import GRAMMAR, POLICY_HELP, load_policy

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; `collect` takes `--KEY VALUE` of the configuration, too."""
    parser = subparsers.add_parser("data", **kwargs)
    parser.set_defaults(data_parser=parser, overrides=[])
    actions = parser.add_subparsers(dest="action", title="commands", metavar="COMMAND")

    def action(name: str, summary: str, epilog: str | None = None) -> argparse.ArgumentParser:
        raw = argparse.RawDescriptionHelpFormatter
        added: argparse.ArgumentParser = actions.add_parser(
            name, help=summary, description=summary, epilog=epilog, formatter_class=raw
        )
        return added

    sub = action("collect", "run schemes on links of a configuration, and write what its spec sees of them", GRAMMAR)
    sub.add_argument(
        "--config", default=DEFAULT, metavar="NAME_OR_FILE", help=f"configuration: spec and links ({DEFAULT})"
    )
    sub.add_argument("--schemes", nargs="+", metavar="ENTRANT", help="schemes to run, each on all links")
    sub.add_argument("--links", type=int, default=100, metavar="N", help="links drawn from the configuration (100)")
    sub.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the links (1)")
    sub.add_argument("--out", type=folder, metavar="DIR", help="the dataset's folder (runs/data-CONFIG)")
    sub.add_argument("--threads", type=int, default=2, metavar="N", help="shards at once (2)")

    sub = action("show", "say what is in a dataset")
    sub.add_argument("data", type=Path, metavar="DIR", help="folder of the dataset")
    sub.add_argument("--json", action="store_true", help="print the manifest instead of a table")

    sub = action(
        "evaluate", "estimate a policy's return from a dataset, and measure it in the simulator on the same links"
    )
    sub.add_argument("data", type=Path, metavar="DIR", help="folder of the dataset")
    sub.add_argument("policy", metavar="POLICY", help=POLICY_HELP)
    sub.add_argument(
        "--config", default=DEFAULT, metavar="NAME_OR_FILE", help=f"configuration: spec and reward ({DEFAULT})"
    )
    sub.add_argument("--gamma", type=float, default=0.99, metavar="G", help="discount per decision (0.99)")
    sub.add_argument("--updates", type=int, default=4000, metavar="N", help="updates of each of five fits (4000)")
    sub.add_argument("--threads", type=int, default=2, metavar="N", help="runs at once in the simulator (2)")

    sub = action("export", "write a dataset as one of Minari, with the rewards of a configuration")
    sub.add_argument("data", type=Path, metavar="DIR", help="folder of the dataset")
    sub.add_argument("--name", metavar="NAMESPACE/NAME-vN", help="name of the dataset in Minari's own folder")
    sub.add_argument(
        "--config", default=DEFAULT, metavar="NAME_OR_FILE", help=f"configuration: spec and reward ({DEFAULT})"
    )


def run(args: argparse.Namespace) -> int:
    """Runs one of the command's own commands."""
    if args.action is None:
        args.data_parser.print_help()
        return 0
    if args.action == "collect":
        return _collect(args)
    if args.overrides:
        raise ConfigError(f"{args.overrides[0]}: unknown option of `ccarena data {args.action}`")
    return {"show": _show, "evaluate": _evaluate, "export": _export}[args.action](args)


def _collect(args: argparse.Namespace) -> int:
    from ccarena.data.collect import PLAN, collect

    if args.schemes is None:
        raise ConfigError("--schemes: name the schemes to learn from, such as `--schemes cubic bbr vegas`")
    if args.threads < 1:
        raise ConfigError(f"--threads {args.threads}: expected at least 1")
    overrides = parse_overrides(args.overrides, options=("schemes", "links", "seed", "out", "threads"))
    config = load_config(args.config, overrides)
    refuse_unused_keys(config, overrides)
    config = config.model_copy(update={"env": name_traces(config.env)})
    out = args.out or Path("runs", f"data-{config.name}")
    kept = f"the plan and finished shards are kept in {out}"
    remember(command_line(args), lambda: kept if (out / PLAN).is_file() else NOTHING_BEGUN)
    with progress_bar("collecting", "shards") as progress:
        dataset = collect(
            config, args.schemes, args.links, out, seed=args.seed, threads=args.threads, progress=progress
        )
    _print(dataset)
    return 0


def _show(args: argparse.Namespace) -> int:
    from ccarena.data import Dataset

    dataset = Dataset.open(args.data)
    if args.json:
        print(json.dumps(dataset.manifest, indent=1))
    else:
        _print(dataset)
    return 0


def _print(dataset: Any) -> None:
    manifest = dataset.manifest
    rows = []
    for scheme in manifest["schemes"]:
        own = [shard for shard in dataset.shards.values() if shard["scheme"] == scheme]
        flows, count, size = (sum(shard[key] for shard in own) for key in ("flows", "rows", "bytes"))
        rows.append([scheme, f"{flows:,}", f"{count - flows:,}", f"{size / 1e6:,.{1 if size >= 1e6 else 4}f}"])
    spec = f"spec {manifest['spec']['name']} {manifest['digest']}"
    links = f"{manifest['links']} links of seed {manifest['seed']}"
    print(f"{dataset.folder}: {spec}, {links}, by ccarena {manifest['ccarena']}, digest {dataset.digest}")
    print_table("", ["scheme", "flows", "decisions", "MB"], rows, left=1)


def _evaluate(args: argparse.Namespace) -> int:
    if not 0 <= args.gamma < 1:
        raise ConfigError(f"--gamma {args.gamma:g}: expected a number from 0 to below 1")
    for name in ("updates", "threads"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}: expected at least 1")
    from ccarena.data import Dataset
    from ccarena.envs.rewards import Reward
    from ccarena.policies.spec import spec_of

    config = load_config(args.config)
    spec = spec_of(config)
    dataset, policy = Dataset.open(args.data, spec), load_policy(args.policy)
    if policy.interface.digest != spec.digest:
        raise ConfigError(
            f"{args.policy}: it decides for the spec of digest {policy.interface.digest}, and the dataset has flows of "
            f"{spec.name} ({spec.digest}); give a policy of this spec"
        )
    reward = Reward(config.reward, spec)
    from ccarena.agents.off_policy import evaluate  # with PyTorch, which takes seconds

    limits = {"gamma": args.gamma, "updates": args.updates, "threads": args.threads}
    with progress_bar("evaluating", "steps") as progress:
        found = evaluate(dataset, spec, reward, policy, args.policy, **limits, progress=progress)
    rows = [[what, f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}"] for what, each in found.items()]
    print_table(
        f"Mean reward, discounted by {args.gamma:g} per decision", ["flows", "return", "95 % interval"], rows, left=1
    )
    return 0


def _export(args: argparse.Namespace) -> int:
    from ccarena.data import Dataset
    from ccarena.data.minari import export
    from ccarena.envs.rewards import Reward
    from ccarena.policies.spec import spec_of

    if args.name is None:
        raise ConfigError("--name: name the dataset, such as `--name ccarena/heuristics-v0`")
    config = load_config(args.config)
    spec = spec_of(config)
    episodes = export(Dataset.open(args.data, spec), spec, Reward(config.reward, spec), args.name)
    print(f"wrote {episodes:,} episodes as {args.name}: minari.load_dataset({args.name!r})")
    return 0
