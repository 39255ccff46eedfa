"""Ships the policies of training runs, `python -m docs.generate.policies NAME=RUN ...` (`make policies` trains them).

Each is copied to `ccarena/SCHEME/policies/NAME.safetensors` and gets its card, `NAME.md`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from ccarena.core.files import write_atomically
from ccarena.core.learned_schemes import POLICIES, learned_schemes, shipped_policies
from ccarena.errors import PolicyError
from ccarena.policies import artifact, tensorfile
from ccarena.policies.card import card
from ccarena.runs.run_folder import EVALUATION
from ccarena.scenarios.entrants import find_policy

LARGEST = 2_000_000
"""Bytes of all shipped policies together."""


def ship(name: str, run: str, folder: Path | None = None) -> Path:
    """Copies the policy of `run` to `folder` (default that of its scheme) as `name`, with its card.

    Its figures are those of the evaluation after its training, or of `ccarena eval`. Raises PolicyError.
    """
    file = find_policy(run)
    policy = artifact.load(file)
    evaluated = file.parent / "eval" / EVALUATION
    if not policy.evaluation and evaluated.is_file():
        policy = replace(policy, evaluation=json.loads(evaluated.read_text("utf-8")))
    if not policy.evaluation:
        raise PolicyError(f"{file}: it was not evaluated; only a policy with its figures is shipped")
    if Path(str(policy.training.get("out", ""))).is_absolute():
        # Where its run lay on the trainer's machine means nothing elsewhere.
        policy = replace(policy, training={key: value for key, value in policy.training.items() if key != "out"})
    folder = folder or learned_schemes()[policy.spec["name"]].folder / POLICIES
    folder.mkdir(exist_ok=True)
    target = folder / f"{name}.safetensors"
    tensorfile.write_bytes(target, policy.encode())
    write_atomically(target.with_suffix(".md"), card(artifact.load(target), name))
    total = sum(path.stat().st_size for path in shipped_policies().values())
    if total > LARGEST:
        raise PolicyError(f"{folder}: {total:,} bytes of policies; expected at most {LARGEST:,}: ship fewer")
    return target


def main(words: list[str]) -> None:
    """Ships every `NAME=RUN`."""
    for word in words:
        name, _, run = word.partition("=")
        print(ship(name, run or name))


if __name__ == "__main__":
    main(sys.argv[1:])
