"""Ships the policies of training runs, `python -m docs.generate.policies NAME=RUN ...` (`make policies` trains them).

Each is copied to `ccarena/SCHEME/policies/NAME.safetensors` and gets its card, `NAME.md`. `python -m
docs.generate.policies --links` runs all shipped policies on the links of today, beside `SCHEMES`, keeps the figures in
`FURTHER` and writes the cards anew. `--certify` keeps the answers of `ccarena certify` for default properties there.
Both take names of policies after them; the others keep their figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.learned_schemes import POLICIES, learned_schemes, shipped_policies
from ccarena.errors import PolicyError
from ccarena.eval.certify.certificate import FORMS, certify
from ccarena.eval.certify.defaults import default_properties
from ccarena.eval.certify.properties import read
from ccarena.eval.heldout.outcome import evaluate
from ccarena.eval.heldout.summary import means
from ccarena.policies import artifact, tensorfile
from ccarena.policies.card import FIGURES, card
from ccarena.runs.run_folder import EVALUATION
from ccarena.scenarios.entrants import find_policy

FURTHER = Path(__file__).parents[1] / "policies-today.json"
"""Figures of the shipped policies on the links of today."""
LINK_SETS = ["satellite", "5g", "wifi", "lossy"]
SCHEMES = ["cubic", "bbr"]
SEEDS, DURATION_S = 2, 20.0
BOXES = 1_000
"""Boxes for one property in one form, for the cards."""
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
    write_card(target)
    total = sum(path.stat().st_size for path in shipped_policies().values())
    if total > LARGEST:
        raise PolicyError(f"{folder}: {total:,} bytes of policies; expected at most {LARGEST:,}: ship fewer")
    return target


def write_card(file: Path) -> None:
    """Writes the card of a shipped policy, with its figures on the links of today if there are any."""
    write_atomically(file.with_suffix(".md"), card(artifact.load(file), file.stem, further(file.stem)))


def further(name: str) -> dict[str, Any] | None:
    """Returns the evaluation on the links of today, if the policy is in it."""
    if not FURTHER.is_file():
        return None
    found: dict[str, Any] = json.loads(FURTHER.read_text("utf-8"))
    return found if any(name in schemes for schemes in found["means"].values()) else None


def measure_further(names: Collection[str] = ()) -> None:
    """Runs the shipped policies `names` (default all) on the links of today and writes figures and cards."""
    files = chosen(names)
    entries = [f"{name}={file}" for name, file in files.items()]
    result = evaluate(*entries, *SCHEMES, link_sets=LINK_SETS, seeds=SEEDS, duration_s=DURATION_S).evaluation
    kept = {
        group: {
            scheme: {figure: float(f"{value:.4g}") for figure, value in figures.items() if figure in FIGURES}
            for scheme, figures in schemes.items()
            if scheme in (*files, *SCHEMES)
        }
        for group, schemes in means(result).items()
    }
    meta = {"link_sets": LINK_SETS, "seeds": SEEDS, "duration_s": DURATION_S, "schemes": SCHEMES}
    before = _kept().get("means", {}) if names else {}
    order = [*shipped_policies(), *SCHEMES]
    means_of = {
        group: dict(sorted({**before.get(group, {}), **schemes}.items(), key=lambda item: order.index(item[0])))
        for group, schemes in kept.items()
    }
    _keep({"meta": meta, "means": means_of})


def certify_shipped(names: Collection[str] = ()) -> None:
    """Decides the default properties of the shipped policies `names` (default all) and writes cards."""
    answers = dict(_kept().get("certificates", {})) if names else {}
    for name, file in chosen(names).items():
        policy = artifact.load(file)
        asked = read(default_properties(policy), policy, "default properties").properties
        found = [certify(prop, make(policy), BOXES) for make in FORMS.values() for prop in asked]
        kept = ("name", "form", "state", "holds", "violated", "undecided", "boxes")
        answers[name] = [{key: each.as_dict()[key] for key in kept} for each in found]
    _keep({"certificates": {name: answers[name] for name in shipped_policies() if name in answers}})


def chosen(names: Collection[str]) -> dict[str, Path]:
    """Returns the files of these shipped policies, or of all. Raises PolicyError for a name that is none."""
    files = shipped_policies()
    if unknown := [name for name in names if name not in files]:
        raise PolicyError(f"{', '.join(unknown)}: not shipped; expected some of {', '.join(files)}")
    return {name: file for name, file in files.items() if not names or name in names}


def _kept() -> dict[str, Any]:
    return dict(json.loads(FURTHER.read_text("utf-8"))) if FURTHER.is_file() else {}


def _keep(figures: dict[str, Any]) -> None:
    """Replaces some of the kept figures, and writes all cards."""
    write_atomically(FURTHER, json.dumps({**_kept(), **figures}, indent=1) + "\n")
    for file in shipped_policies().values():
        write_card(file)


def main(words: list[str]) -> None:
    """Ships every `NAME=RUN`, measures on the links of today, or certifies."""
    if words[:1] == ["--certify"]:
        certify_shipped(words[1:])
        return
    if words[:1] == ["--links"]:
        measure_further(words[1:])
        return
    for word in words:
        name, _, run = word.partition("=")
        print(ship(name, run or name))


if __name__ == "__main__":
    main(sys.argv[1:])
