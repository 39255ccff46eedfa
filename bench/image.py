"""`python -m bench.image`: runs the steps of the Dockerfile in a clean root, and commands in what they make.

It needs root and debootstrap, but no Docker. FROM makes a root of the distribution or copies that of another stage;
RUN, COPY, ENV, WORKDIR and USER do what they say; ENTRYPOINT is kept for the commands.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
DISTRIBUTION = re.compile(r"debian:(\w+)-slim")
CERTIFICATES = "/etc/ssl/this-machine.crt"
NETWORK = {
    "/etc/resolv.conf": "/etc/resolv.conf",
    "/etc/pip.conf": "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt": CERTIFICATES,
}
"""Files by which this machine reaches package registries, and their places in a root."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED = ("PIP_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
INSIDE = """
for each in proc sys dev; do mount --rbind /$each "$0/$each"; done
exec chroot --userspec="$1" "$0" env --ignore-environment sh -c 'cd "$0" && exec env "$@"' "$2" "${@:3}"
"""
"""Runs a command in a root with the file systems of a container; the mounts are seen by nobody else."""
CHECKS = {
    "runtime": ("doctor", "compete cubic bbr pilot acct", "policy show acct"),
    "kernel": ("doctor", "eval cubic --backend kernel --link-sets constant --seeds 1 --duration-s 5"),
}
"""Arguments of `ccarena` that are run in the image of each target."""


@dataclass(frozen=True)
class Stage:
    """A stage of the Dockerfile, built as far as its instructions were followed."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    folder: str = "/"
    entrypoint: tuple[str, ...] = ()

    def run(self, words: Sequence[str]) -> None:
        """Runs a command in the stage as its user. Raises CalledProcessError."""
        given = {name: os.environ[name] for name in PASSED if name in os.environ}
        given |= {"PATH": PATH, "PIP_CERT": CERTIFICATES, **self.environment}
        variables = [f"{name}={value}" for name, value in given.items()]
        alone = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", INSIDE]
        subprocess.run([*alone, str(self.root), self.user, self.folder, *variables, *words], check=True)


def instructions(text: str) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile, each with its argument on one line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in joined.splitlines()]


def build(target: str, folder: Path, built: dict[str, Stage]) -> Stage:
    """Builds the stage `target` below `folder`, and the stages that it begins with, unless they are `built`."""
    if target in built:
        return built[target]
    stages: dict[str, list[tuple[str, str]]] = {}
    for name, argument in instructions((ROOT / "Dockerfile").read_text("utf-8")):
        if name == "FROM":
            base, _, here = argument.partition(" AS ")
            stages[here] = [(name, base)]
        else:
            stages[here].append((name, argument))
    (_, base), *steps = stages[target]
    print(f"[{target}] FROM {base}", flush=True)
    begun = build(base, folder, built) if base in stages else Stage(folder)
    stage = replace(begun, root=folder / target)
    if base in stages:
        subprocess.run(["cp", "--archive", str(begun.root), str(stage.root)], check=True)
    else:
        make_root(base, stage.root)
    for step in steps:
        stage = follow(stage, *step)
    built[target] = stage
    return stage


def make_root(base: str, root: Path) -> None:
    """Makes the root of a distribution's image."""
    if not (release := DISTRIBUTION.fullmatch(base)):
        raise SystemExit(f"error: FROM {base}: expected debian:RELEASE-slim, or a stage")
    subprocess.run(["debootstrap", "--variant=minbase", release[1], str(root)], check=True, stdout=subprocess.DEVNULL)
    for file in filter(os.path.exists, NETWORK):
        place = root / NETWORK[file].removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


def follow(stage: Stage, name: str, argument: str) -> Stage:
    """Follows one instruction and returns what it makes of the stage."""
    print(f"[{stage.root.name}] {name} {argument}", flush=True)
    if name == "RUN":
        stage.run(["sh", "-c", argument])
    elif name == "COPY":
        *sources, place = argument.split()
        (stage.root / place.removeprefix("/")).mkdir(parents=True, exist_ok=True)
        for source in [path for pattern in sources for path in ROOT.glob(pattern)]:
            shutil.copy(source, stage.root / place.removeprefix("/"))
    elif name == "ENV":
        key, _, value = argument.partition("=")
        return replace(stage, environment={**stage.environment, key: value})
    elif name == "USER":
        return replace(stage, user=argument)
    elif name == "WORKDIR":
        (stage.root / argument.removeprefix("/")).mkdir(parents=True, exist_ok=True)
        return replace(stage, folder=argument)
    elif name == "ENTRYPOINT":
        return replace(stage, entrypoint=tuple(json.loads(argument)))
    elif name != "CMD":
        raise SystemExit(f"error: {name}: this check does not know the instruction")
    return stage


def size_mb(root: Path) -> int:
    """Returns the size of the files below a root."""
    said = subprocess.run(["du", "-sxm", str(root)], capture_output=True, text=True, check=True).stdout
    return int(said.split()[0])


def main() -> int:
    """Builds the targets, runs their commands, and returns 0 if all work."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise SystemExit("error: this check needs root and debootstrap (apt-get install debootstrap)")
    if not list(ROOT.glob("dist/*.whl")):
        raise SystemExit("error: dist/ has no wheel; `make wheel` builds one")
    built: dict[str, Stage] = {}
    with tempfile.TemporaryDirectory(prefix="ccarena-image-") as folder:
        for target, commands in CHECKS.items():
            stage = build(target, Path(folder), built)
            for words in commands:
                print(f"[{target}] {' '.join([*stage.entrypoint, words])}", flush=True)
                stage.run([*stage.entrypoint, *words.split()])
            print(f"[{target}] works; {size_mb(stage.root)} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
