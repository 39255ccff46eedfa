"""Tables of docs/attack.md: harms, the default space, and the worst links of the registry's schemes."""

from __future__ import annotations

from pathlib import Path

from ccarena.attacks.harms import HARMS
from ccarena.attacks.published import entries
from ccarena.attacks.space import DEFAULT
from ccarena.envs.described import row

GENERATED = "<!-- Generated from docs/attack.json by `make docs`; `make attacks` writes it. -->"
RESULTS = Path("docs", "attack.json")
HEAD = ("entrant", "harm", "value", "from", "seeds", "link")


def markdown() -> str:
    """The tables, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## The harms", "", row("harm", "value", "threshold"), row("---", "---", "---")]
    lines += [row(f"`{name}`", harm.definition, f"{harm.threshold:g}") for name, harm in HARMS.items()]
    space = DEFAULT.read_text("utf-8").partition("\n")[2].rstrip("\n")
    lines += ["", "## The default space", "", "```text", space, "```", "", "## The worst links", ""]
    lines += [row(*HEAD), row(*["---"] * len(HEAD))]
    for name, about in entries(RESULTS).items():
        for find in about["finds"]:
            figures = (f"{find['value']:g}", f"{find['threshold']:g}", find["seeds"])
            lines.append(row(f"`{name}`", HARMS[find["harm"]].title, *figures, find["link"]))
    return "\n".join(lines) + "\n"
