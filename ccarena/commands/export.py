"""Command `ccarena export`: a policy for programs outside ccarena, and the cost of running it."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from ccarena.core.arguments import refuse
from ccarena.core.files import check_writable
from ccarena.core.outputs import folder
from ccarena.core.terminal import visible
from ccarena.errors import ConfigError, cannot_write
from ccarena.policies import artifact
from ccarena.scenarios.entrants import POLICY_HELP, find_policy

__all__ = ["TARGETS", "add_parser", "run"]

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
TARGETS = {
    "c": "integers, as C without a library: for QUIC stacks, kernels and small machines",
    "kernel": "integers, as the image that `ccarena kernel load` takes, on machines without Python too",
    "onnx": "float32, as an ONNX model: raw observations in, logits or the action out",
    "quic": "the artifact itself, checked in QUIC's datapath: for `ccarena quic serve --policy`",
}


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("export", **kwargs)
    parser.add_argument("policy", metavar="ENTRANT", help=POLICY_HELP)
    told = "; ".join(f"{name}: {what}" for name, what in TARGETS.items())
    parser.add_argument("--to", choices=list(TARGETS), required=True, help=told)
    parser.add_argument("--out", type=folder, metavar="DIR", help="folder for the files (export/NAME)")
    parser.add_argument("--name", help="name of files and functions (the scheme's)")
    parser.add_argument("--json", action="store_true", help="print files and costs as JSON")
    parser.add_argument("--decisions", type=int, default=4096, metavar="N", help="c, kernel: recorded decisions (4096)")
    parser.add_argument(
        "--duration-s", type=float, metavar="S", help="c, kernel: length of each whole run (the link set's own)"
    )


def run(args: argparse.Namespace) -> int:
    """Exports. Returns 1 if the exported policy deviates by more than is allowed."""
    from ccarena.commands.parity import MOST_DECISIONS, parity
    from ccarena.eval.heldout import links
    from ccarena.policies import c_source

    if not 1 <= args.decisions <= MOST_DECISIONS:
        raise ConfigError(f"--decisions {args.decisions}: expected 1 to {MOST_DECISIONS}")
    links.check((), duration_s=args.duration_s)
    if args.name is not None and not NAME.fullmatch(args.name):
        raise ConfigError(
            f'--name "{args.name}": expected up to 100 letters, digits, ".", "_" and "-", as files are named'
        )
    file = find_policy(args.policy)
    policy = artifact.load(file)
    name = args.name or c_source.identifier(str(policy.spec.get("name", "policy")))
    folder = args.out or Path("export", name)
    check_writable(folder)
    if args.to == "onnx":
        refuse(args, ("decisions", "duration_s"), "with --to onnx, which changes nothing that they measure")
        from ccarena.policies.onnx import export

        path = folder / f"{name}.onnx"
        export(policy, path)
        return _tell(args.json, {"files": _sizes([path]), "problems": []})
    if args.to == "kernel":
        written = _write_image(args.policy, folder, name)
        return _tell_costs(args, written, parity(file, args.decisions, duration_s=args.duration_s))
    if args.to == "quic":
        refuse(args, ("duration_s",), "with --to quic, which changes nothing that whole runs measure")
        return _to_quic(file, folder / f"{name}.safetensors", args)
    written = c_source.write(policy, c_source.vectors(policy), folder, name)
    return _tell_costs(args, written, parity(file, args.decisions, duration_s=args.duration_s))


def _write_image(policy: str, folder: Path, name: str) -> list[Path]:
    """Writes the image and its manifest. Raises MachineError with the part of the policy that no kernel can run."""
    from ccarena.cc_kernel_bridge import policies
    from ccarena.core.files import write_atomically

    image, manifest = folder / f"{name}.image", folder / f"{name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_atomically(manifest, json.dumps(policies.image(policy, image), indent=1) + "\n")
    return [image, manifest]


def _tell_costs(args: argparse.Namespace, written: list[Path], figures: dict[str, Any]) -> int:
    runtime = next(runtime for runtime in figures["runtimes"] if runtime["runtime"] == "rust-integer")
    told = {
        "files": _sizes(written),
        "agreement": runtime["agreement"],
        "decisions": figures["decisions"],
        "scenarios": figures["scenarios"],
        "problems": figures["problems"],
        "missing": figures["missing"],
    }
    return _tell(args.json, told)


def _to_quic(file: Path, path: Path, args: argparse.Namespace) -> int:
    """Copies the artifact if QUIC's datapath decides as the simulator does."""
    from ccarena.commands.parity import parity
    from ccarena.errors import MachineError

    figures = parity(file, args.decisions, link_sets=[])
    runtime = next((runtime for runtime in figures["runtimes"] if runtime["runtime"] == "quic"), None)
    if runtime is None:
        raise MachineError(figures["missing"]["quic"])
    if not (problems := [problem for problem in figures["problems"] if problem.startswith("quic ")]):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, path)
    told = {"files": _sizes([] if problems else [path]), "agreement": runtime["agreement"]}
    return _tell(args.json, {**told, "decisions": figures["decisions"], "problems": problems})


def _sizes(files: list[Path]) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in files}


def _tell(as_json: bool, told: dict[str, Any]) -> int:
    if as_json:
        print(json.dumps(told, indent=1))
        return 1 if told["problems"] else 0
    for path, size in told["files"].items():
        print(f"{path}: {size:,} bytes")
    if "agreement" in told:
        print(f"the same action in {100 * told['agreement']:.2f} % of {told['decisions']} recorded decisions")
    if "scenarios" in told:
        runs = told["scenarios"]
        print(
            f"return lost over {runs['scenarios']} whole runs: {100 * runs['lost']:.3f} %"
            if runs
            else "return lost: not known, because the reward cannot be computed from what a run reports"
        )
        for runtime, reason in told["missing"].items():
            print(visible(f"not tried here: {runtime}: {reason}"))
    for problem in told["problems"]:
        print(visible(f"PROBLEM: {problem}"))
    return 1 if told["problems"] else 0
