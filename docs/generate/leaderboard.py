"""The shipped leaderboard in docs/leaderboard.md: `python -m docs.generate.leaderboard STORE docs/leaderboard.md`.

It rewrites the tables after the mark, and writes the means of every cell beside them: `leaderboard/means.csv`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.eval.leaderboard.exchange import export_means
from ccarena.eval.leaderboard.ranking import OVERALL, UNSEEN
from ccarena.eval.leaderboard.store import Store

__all__ = ["GENERATED", "markdown", "ship"]

GENERATED = "<!-- Generated from the store by `make leaderboard`; not to be edited. -->"
MEANS = "leaderboard/means.csv"
HEAD = "| entrant | rank | track | score [95 %] | utilisation | mean queueing delay, ms | without a rank because |"


def ship(store: Store, page: Path) -> None:
    """Rewrite the page's tables and the means beside it. Raises ConfigError if a file cannot be written."""
    before = page.read_text("utf-8").partition(GENERATED)[0]
    write_atomically(page, before + markdown(store))
    export_means(store, page.parent / MEANS)


def markdown(store: Store) -> str:
    """The ranks over all traces, and over those that nobody was trained on, as Markdown."""
    who = {entrant["id"]: entrant for entrant in store.entrants()}
    counts = store.counts()
    parts = [
        GENERATED,
        f"{counts['runs']:,} runs in {counts['cells']:,} cells. [Means of every cell]({MEANS}) have all figures.",
    ]
    for name in (OVERALL, UNSEEN):
        if (group := store.group(name)) is not None:
            parts += [f"### {name[0].upper()}{name[1:]}", "\n".join([HEAD, "|" + "---|" * 7, *_rows(group, who)])]
    return "\n\n".join(parts) + "\n"


def _rows(group: dict[str, Any], who: dict[int, dict[str, Any]]) -> list[str]:
    out = []
    for row in group["rows"]:
        entrant, figures = who[row["entrant"]], row["figures"]
        score = f"{row['score']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        shown = [entrant["label"], str(row["rank"] or "–"), entrant["track"], score]
        shown += [f"{figures['utilisation']:.3f}", f"{figures['queueing_delay_mean_ms']:.1f}", row["why"]]
        out.append(f"| {' | '.join(shown)} |")
    return out


if __name__ == "__main__":
    with Store(sys.argv[1], read_only=True) as opened:
        ship(opened, Path(sys.argv[2]))
