"""Tables of docs/attack.md: harms, the default space, and the worst links of the registry's schemes."""

from __future__ import annotations

import re
from pathlib import Path

from ccarena.attacks.case import FEWEST_QUEUED
from ccarena.attacks.harms import HARMS
from ccarena.attacks.published import entries
from ccarena.attacks.space import DEFAULT
from ccarena.envs.described import row
from ccarena.scenarios.schemes import registered

GENERATED = "<!-- Generated from docs/attack.json by `make docs`; `make attacks` writes it. -->"
RESULTS = Path("docs", "attack.json")
HEAD = ("entrant", "harm", "value", "threshold", "seeds", "link")


SAMPLE = "cubic"
"""Entrant whose first finds the page shows as a sample."""


def sample() -> str:
    """What the command prints of the first kinds of harm of [`SAMPLE`]."""
    found = [[HARMS[each["harm"]].title, each] for each in entries(RESULTS)[SAMPLE]["finds"][:3]]
    head = ["harm", "kind of link", "link", "value", "threshold", "seeds", "now"]
    rows = [
        [title, of["kind"], of["link"], f"{of['value']:g}", f"{of['threshold']:g}", of["seeds"], "holds"]
        for title, of in found
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def filled(text: str) -> str:
    """The page above the mark with [`sample`] in place."""
    return re.sub(r"(?<=```text\n)harm  .*?(?=```)", lambda _: sample(), text, count=1, flags=re.DOTALL)


def effort() -> str:
    """How long each entrant was attacked. Raises ValueError unless it was the same for all."""
    efforts = {(about["candidates"], about["seeds"], about["seed"]) for about in entries(RESULTS).values()}
    if len(efforts) != 1:
        raise ValueError(f"{RESULTS}: entrants were attacked with {sorted(efforts)}; run `make attacks` for all")
    [(candidates, seeds, seed)] = efforts
    return (
        f"Each entrant was attacked with {candidates} links and seed {seed}. A value is the median over {seeds} "
        "other seeds. Links are simplified after the search: one whose capacity changes may become a steady one at its "
        f"last level, below the least rate of the space. A buffer has at least {FEWEST_QUEUED} packets."
    )


def others() -> str:
    """Returns a sentence on schemes of the registry without a row."""
    attacked = {name.partition("@")[0] for name in entries(RESULTS)}
    rest = [f"`{name}`" for name, about in registered().items() if name not in attacked and not about["alias_of"]]
    return f"The table has {len(attacked)} schemes of the registry. Not attacked: {', '.join(rest)}."


def markdown() -> str:
    """The tables, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## The harms", "", row("harm", "value", "threshold"), row("---", "---", "---")]
    lines += [row(f"`{name}`", harm.definition, f"{harm.threshold:g}") for name, harm in HARMS.items()]
    space = DEFAULT.read_text("utf-8").partition("\n")[2].rstrip("\n")
    lines += [
        "",
        "## The default space",
        "",
        "```text",
        space,
        "```",
        "",
        "## The worst links",
        "",
        effort(),
        "",
        others(),
        "",
    ]
    lines += [row(*HEAD), row(*["---"] * len(HEAD))]
    for name, about in entries(RESULTS).items():
        for find in about["finds"]:
            figures = (f"{find['value']:g}", f"{find['threshold']:g}", find["seeds"])
            lines.append(row(f"`{name}`", HARMS[find["harm"]].title, *figures, find["link"]))
    return "\n".join(lines) + "\n"
