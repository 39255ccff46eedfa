"""Tables of the league at the end of docs/results.md; `make league` runs what is missing.

Scores are kept in docs/league.json. Finished parts, one per family and entrant, are kept in runs/league-docs: an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ccarena
from ccarena.core.files import write_atomically
from ccarena.core.learned_schemes import shipped_policies
from ccarena.envs.described import row
from ccarena.eval.heldout.evaluate import best_window
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.headroom import CAUSAL, ENOUGH, SCORE, Headroom, bounds, headroom, league_scores, score_of
from ccarena.eval.heldout.league import FAMILIES, family_of
from ccarena.eval.heldout.link import Link, scenario
from ccarena.eval.heldout.links import build
from ccarena.eval.heldout.summary import headroom_table, league_table
from ccarena.executors import Threads
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import Entrant, of_file, parse
from ccarena.scenarios.one_run import perform
from ccarena.scenarios.schemes import heuristics, registered

GENERATED = "<!-- Generated from docs/league.json by `make docs`; `make league` writes it. -->"
KEPT = Path(__file__).parents[1] / "league.json"
OUT = Path("runs", "league-docs")
MOST = 12
"""Most entrants in the table of scores."""
ORACLES = "oracles"
"""Part with both oracles."""


def entrants() -> list[Entrant]:
    """Returns the heuristics of the registry that need no router's help, CUBIC with ECN, and the shipped policies."""
    about = registered()
    plain = [name for name in heuristics() if not about[name]["assisted"] and not about[name]["alias_of"]]
    texts = [*(name for name in plain if name != "fixed"), "cubic@ecn=1"]
    return [*map(parse, texts), *(of_file(file) for file in shipped_policies().values())]


def _scores(link: Link, sender: Entrant) -> dict[str, float]:
    return {sender.label: score_of(link, perform(scenario(link, sender), SIM))}


def _oracles(link: Link) -> dict[str, float]:
    if not link.alone:
        return {}
    scores = bounds(link, _capacity_mbps(link))
    return {ORACLE: scores[SCORE], CAUSAL: scores[CAUSAL]}


def _window(link: Link) -> dict[str, float]:
    return {BEST_WINDOW: score_of(link, best_window(link, _capacity_mbps(link))[1])} if link.alone else {}


def _capacity_mbps(link: Link) -> NDArray[np.float64]:
    """Returns the link's capacity in each millisecond; every sender's run has the same."""
    return perform(scenario(link, parse("reno")), SIM).measured().flows[0].capacity_mbps


def run(threads: int = 2) -> None:
    """Runs every part that is missing, and writes the kept scores."""
    links = build(["league"], 1)
    who = entrants()
    parts: dict[str, Callable[[Link], dict[str, float]]] = {ORACLES: _oracles, BEST_WINDOW: _window}
    parts |= {sender.label: partial(_scores, sender=sender) for sender in who}
    scores: dict[str, list[float | None]] = {}
    for family in FAMILIES:
        mine = [at for at, link in enumerate(links) if family_of(link.group) == family]
        for label, work in parts.items():
            for at, found in zip(mine, _part(family, label, [links[k] for k in mine], work, threads), strict=True):
                for each, score in found.items():
                    scores.setdefault(each, [None] * len(links))[at] = score
    kept = {
        "version": ccarena.__version__,
        "links": [[link.group, link.name, link.synthetic, link.shared] for link in links],
        "entrants": {sender.label: _scheme(sender) for sender in who},
        "scores": scores,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items()]
    write_atomically(KEPT, "{\n" + ",\n".join(lines) + "\n}\n")


def _scheme(sender: Entrant) -> str:
    """Returns the registry's name of a heuristic; empty of a policy."""
    return sender.scheme if sender.policy_file is None else ""


def _part(
    family: str, label: str, links: Sequence[Link], work: Callable[[Link], dict[str, float]], threads: int
) -> list[dict[str, float]]:
    path = OUT / family / f"{label}.json"
    if path.is_file():
        kept: list[dict[str, float]] = json.loads(path.read_text("utf-8"))
        return kept
    found: list[dict[str, float]] = [{} for _ in links]
    with closing(Threads(threads).run(work, links)) as finished:
        for done in finished:
            found[done.index] = {who: float(f"{score:.5g}") for who, score in done.result().items()}
    write_atomically(path, json.dumps(found) + "\n")
    print(f"{family}: {label}", file=sys.stderr, flush=True)
    return found


def evaluation(kept: Mapping[str, Any]) -> Evaluation:
    """Returns kept scores as an evaluation."""
    rows = [
        {"group": group, "link": name, "seed": 0, "synthetic": synthetic, "shared": shared}
        | {"scheme": label, SCORE: scores[at], "link_set": "league"}
        for label, scores in kept["scores"].items()
        for at, (group, name, synthetic, shared) in enumerate(kept["links"])
        if scores[at] is not None
    ]
    return Evaluation(rows=rows, entrants={label: {"scheme": name} for label, name in kept["entrants"].items()})


def markdown() -> str:
    """Returns the two tables, and what the first says, after the [`GENERATED`] mark."""
    kept = json.loads(KEPT.read_text("utf-8"))
    result = evaluation(kept)
    known = headroom(result)
    head, rows = headroom_table(known)
    lines = [row(*head), row(*["---"] * len(head)), *(row(*cells) for cells in rows), "", *_finding(known), ""]
    scores = league_scores(result)
    shown = {who: each for at, (who, each) in enumerate(scores.items()) if at <= MOST or not kept["entrants"].get(who)}
    head, rows = league_table(shown)
    lines += [row(*head), row(*["---"] * len(head)), *(row(*cells) for cells in rows)]
    return "\n".join([GENERATED, "", *lines]) + "\n"


def _finding(known: Iterable[Headroom]) -> list[str]:
    whole = [each for each in known if ":" not in each.family]
    out = []
    for answer, text in (
        ("yes", "The oracle is more than 5 % above the best heuristic on"),
        ("undecided", "The interval contains 5 % on"),
        ("no", "At most 5 % is left on"),
    ):
        names = [f"`{each.family}`" for each in whole if each.answer == answer]
        out += [f"- {text} {', '.join(names)}."] if names else []
    for bound, text in (
        ("link", "The link is the bound on"),
        ("knowledge", "Only a sender that is told the capacity has more than 5 % left on"),
        ("controller", "An end-to-end controller that suits each link has more than 5 % left on"),
    ):
        names = [f"`{each.family}`" for each in whole if each.bound == bound]
        out += [f"- {text} {', '.join(names)}."] if names else []
    chosen = [f"`{each.family}`" for each in whole if each.gain_of_links < ENOUGH]
    return out + (
        [f"- A perfect chooser among the heuristics leaves less than 5 % on {', '.join(chosen)}."] if chosen else []
    )


if __name__ == "__main__":
    run()
