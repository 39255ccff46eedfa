"""Profile-guided optimisation of the native extension: rustc lays out and inlines by what a run of it has counted.

    python -m bench.guided record build/guided/counts.profdata     # builds it with counters, runs it, merges the counts
    python -m bench.guided compare dist/ccarena-*.whl               # against the extension in ccarena/

`make wheel` does both where it can. `compare` fails where results differ by a byte, and says how the times compare.
`llvm-profdata` is part of Rust's toolchain: `rustup component add llvm-tools`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.errors import CcarenaError

ROOT = Path(__file__).parents[1]
COUNTED = ROOT / "target" / "counted"
"""Where what counts is built, apart from what is used."""
ORDINARY = ROOT / "ccarena" / "_core.abi3.so"
ROUNDS = 7


def record(counts: Path) -> None:
    """Writes what `rustc -Cprofile-use` takes for the extension to `counts`.

    Raises CcarenaError if a tool is missing or fails.
    """
    program, raw = profdata(), _raw(counts)
    built = build(["--package", "ccarena-py"], COUNTED, _counting(raw))
    _workload(built / "lib_core.so", os.environ | {"LLVM_PROFILE_FILE": str(raw)})
    _merge(program, raw, counts)


def record_program(counts: Path, what: Sequence[str], name: str) -> None:
    """The same for the program `name`, which is `what` of the workspace and takes `--scenarios FILE`.

    It is counted apart from the extension, because what a crate's functions are called depends on what it is built for.
    """
    program, raw = profdata(), _raw(counts)
    built = build(what, COUNTED, _counting(raw))
    documents = counts.with_suffix(".jsonl")
    documents.write_text("".join(f"{json.dumps(scenario)}\n" for scenario in scenarios(_core)), "utf-8")
    _run([str(built / name), "--scenarios", str(documents)], os.environ | {"LLVM_PROFILE_FILE": str(raw)})
    _merge(program, raw, counts)


def _raw(counts: Path) -> Path:
    counts.parent.mkdir(parents=True, exist_ok=True)
    return counts.with_suffix(".profraw").absolute()


def _counting(raw: Path) -> dict[str, str]:
    """Build scripts are built with counters, too; what they count is of no interest."""
    return {"RUSTFLAGS": "-Cprofile-generate", "LLVM_PROFILE_FILE": f"{raw}.build"}


def _merge(program: Path, raw: Path, counts: Path) -> None:
    _run([str(program), "merge", "--output", str(counts), str(raw)])


def flags(counts: Path) -> dict[str, str]:
    """The environment in which cargo builds by `counts`."""
    return {"RUSTFLAGS": f"-Cprofile-use={counts.absolute()}"}


def build(what: Sequence[str], target: Path, environment: dict[str, str]) -> Path:
    """Builds `what` of the workspace below `target` as extension modules are built; returns the folder that holds it.

    Raises CcarenaError if that fails.
    """
    command = ["cargo", "build", "--quiet", "--profile", "extension", "--target-dir", str(target), *what]
    _run(command, os.environ | environment)
    return target / "extension"


def compare(wheel: Path) -> float:
    """CPU time of the extension in `wheel` over that of the one in ccarena/: the median of rounds in turns.

    Raises CcarenaError if their results differ.
    """
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            guided = Path(zipfile.ZipFile(wheel).extract(f"ccarena/{ORDINARY.name}", folder))
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise CcarenaError(f"{wheel} is no wheel of ccarena: {error}; build one: make wheel") from error
        for _ in range(ROUNDS):
            ours, theirs = _workload(guided), _workload(ORDINARY)
            if ours["sha256"] != theirs["sha256"]:
                raise CcarenaError(f"{wheel} gives other results than {ORDINARY}; build both from the same sources")
            ratios.append(ours["cpu_s"] / theirs["cpu_s"])
    return statistics.median(ratios)


def scenarios(core: ModuleType, seconds: float = 10.0) -> Iterator[dict[str, Any]]:
    """Yields uses of the extension: every scheme that needs no file of rules, every queue discipline, traces, many
    flows, delayed ACKs or not.
    """
    for scheme in (each for each in core.schemes() if not each["rules"]):
        flow = {"scheme": scheme["name"]} | ({"policy": {"constant": 0.0}} if scheme["learned"] else {})
        yield _scenario(seconds, flow)
    for discipline in core.queue_disciplines():
        limit = {"packets": 100} if discipline["limit"] is not None else {}
        yield _scenario(seconds, {"scheme": "cubic"}, queue={"type": discipline["name"]} | limit)
    for preset in core.cellular_presets():
        service = {"type": "cellular", "preset": preset["name"], "seed": 1}
        yield _scenario(seconds, {"scheme": "cubic"}, service=service)
    yield _scenario(seconds, {"scheme": "reno", "delayed_ack": False})
    yield _scenario(seconds / 4, *[{"scheme": "cubic"}] * 100, service={"type": "constant", "rate_mbps": 1000.0})


def _scenario(seconds: float, *flows: dict[str, Any], **link: Any) -> dict[str, Any]:
    service = {"type": "constant", "rate_mbps": 100.0}
    shared = {"service": service, "queue": {"type": "droptail", "bdp": 1.0}, "delay_ms": 10} | link
    return {"duration_s": seconds, "links": [shared], "flows": list(flows)}


def run(library: Path) -> dict[str, Any]:
    """Runs all scenarios in the extension `library`: `sha256` of their results, and `cpu_s`."""
    spec = importlib.util.spec_from_file_location("_core", library)
    if spec is None or spec.loader is None:
        raise CcarenaError(f"{library} is no extension module")
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    digest, began_s = hashlib.sha256(), time.process_time()
    for scenario in scenarios(core):
        digest.update(json.dumps(core.simulate(json.dumps(scenario)), default=np.ndarray.tolist).encode())
    return {"sha256": digest.hexdigest(), "cpu_s": time.process_time() - began_s}


def _workload(library: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """`run` in a process of its own: a process loads one extension, and writes its counts when it ends."""
    done: dict[str, Any] = json.loads(_run([sys.executable, "-m", "bench.guided", "run", str(library)], environment))
    return done


def profdata() -> Path:
    """The toolchain's own llvm-profdata: others do not read its counts. Raises CcarenaError if it is missing."""
    libraries = Path(_run(["rustc", "--print", "target-libdir"]).strip())
    program = libraries.parent / "bin" / "llvm-profdata"
    if not program.exists():
        raise CcarenaError(f"{program} is missing; install it: rustup component add llvm-tools")
    return program


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise CcarenaError(f"{' '.join(command)} failed with status {done.returncode}; see above")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the steps. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.guided", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=["record", "compare", "run"])
    parser.add_argument("file", type=Path, help="the counts to write, a wheel, or an extension")
    args = parser.parse_args(arguments)
    try:
        if args.step == "record":
            record(args.file)
        elif args.step == "compare":
            print(f"same results, in {compare(args.file):.2f} of the CPU time of {ORDINARY.relative_to(ROOT)}")
        else:
            print(json.dumps(run(args.file)))
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
