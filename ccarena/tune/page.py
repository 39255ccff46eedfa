"""Page of a sweep: every trial with its setting and its scores by seed, the best first."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.terminal import print_table
from ccarena.eval.measure.sample import confidence_interval
from ccarena.pages import Axis, Block, Callout, Chart, Figure, Items, Page, Section, Table
from ccarena.pages import write as write_page
from ccarena.pages.charts import STYLES, Interval, line
from ccarena.tune.population import Comparison
from ccarena.tune.trial import Trials

__all__ = ["PAGE", "ROWS", "rows_of", "show", "write"]

ROWS, PAGE, BEST = "trials.csv", "page.html", "best.json"
"""Files that a sweep writes: a row per trial and seed; the page; the best setting."""

DRAWN = len(STYLES)
"""Most trials whose validations are drawn; more cannot be told apart."""

LEAD = (
    "Each trial is one setting, trained with the same seeds as every other one. The score is that of the last "
    "validation that all of a trial's seeds have reached, the mean over seeds with its 95 % interval (Student's t). "
    "Validation links are neither trained on nor tested: the links of an evaluation have not been opened."
)

COPIES = (
    "After a validation, each member of the worst quarter went on with the training of a member of the best quarter, "
    "with every value of its setting perturbed. The curve of such a member is that of the training which it copied."
)


def rows_of(trials: Trials, found: Sequence[Mapping[str, Any]], seeds: int, last: int) -> list[dict[str, Any]]:
    """Returns a row per trial, the best first.

    Keys: `trial`, `state`, `setting`, `validation`, `decisions`, `scores` by seed, their `mean`, `low` and `high`, and
    `curve`. A point of the curve is (decisions, mean, low, high) of one validation. `last` is the number of validations
    of a whole training.
    """
    rows = []
    for each in found:
        reached = trials.validations(each["trial"], range(1, seeds + 1))
        scores = [float(row["score"]) for row in reached[-1]] if reached else []
        interval = confidence_interval(scores)
        intervals = [confidence_interval([float(row["score"]) for row in rows]) for rows in reached]
        decisions = [max(int(row["decisions"]) for row in rows) for rows in reached]
        state = "failed" if each["error"] else "whole" if len(reached) >= last else "ended early"
        rows.append(
            {
                "trial": each["trial"],
                "state": state,
                "error": each["error"],
                "setting": dict(each["setting"]),
                "validation": len(reached),
                "decisions": decisions[-1] if decisions else 0,
                "scores": scores,
                "mean": interval.mean,
                "low": interval.low,
                "high": interval.high,
                "curve": [(at, each.mean, each.low, each.high) for at, each in zip(decisions, intervals, strict=True)],
            }
        )
    # A trial that was ended early has been beaten at its last validation, whatever its score was then.
    order = {"whole": 0, "ended early": 1, "failed": 2}
    return sorted(rows, key=lambda row: (order[row["state"]], -row["mean"] if math.isfinite(row["mean"]) else math.inf))


def table_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, cells)."""
    keys = list(dict.fromkeys(key for row in rows for key in row["setting"]))
    head = ["trial", "state", *keys, "decisions", "validation score", "seeds"]
    cells = []
    for row in rows:
        half = row["high"] - row["mean"]
        score = f"{row['mean']:.3f}" if math.isfinite(row["mean"]) else "–"
        score += f" ± {half:.3f}" if math.isfinite(half) else ""
        values = [_short(row["setting"].get(key)) for key in keys]
        cells.append([row["trial"], row["state"], *values, f"{row['decisions']:,}", score, str(len(row["scores"]))])
    return head, cells


def _copies(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, cells) of all copies."""
    keys = list(dict.fromkeys(key for each in comparisons for copy in each.copies for key in copy.setting))
    cells = [
        [str(each.validation), *(f"{name} ({each.scores[name]:.3f})" for name in (copy.member, copy.source))]
        + [_short(copy.setting[key]) for key in keys]
        for each in comparisons
        for copy in each.copies
    ]
    return ["validation", "member (score)", "copied (score)", *keys], cells


def _ancestry(member: str, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Returns the copies that led to the weights of `member`, oldest first."""
    found = []
    for each in reversed(comparisons):
        for copy in each.copies:
            if copy.member == member:
                found.append({"validation": each.validation, **asdict(copy)})
                member = copy.source
                break
    return found[::-1]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write(
    out: Path,
    trials: Trials,
    rows: Sequence[Mapping[str, Any]],
    config: str,
    repeat: str,
    facts: Mapping[str, str],
    comparisons: Sequence[Comparison] = (),
) -> None:
    """Writes the files of [`ROWS`] to `out`; `comparisons` are those of a population.

    Raises ConfigError if the folder cannot be written.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row["setting"]))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "state", *keys, "validation", "decisions", "seed", "score"])
    for row in rows:
        values = [row["setting"].get(key) for key in keys]
        for seed, score in enumerate(row["scores"], start=1):
            about = [row["trial"], row["state"], *values, row["validation"], row["decisions"]]
            table.writerow([*about, seed, score])
    write_atomically(out / ROWS, text.getvalue())
    best = next((row for row in rows if row["state"] == "whole"), None)
    if best is not None:
        runs = [trials.run(best["trial"], seed) for seed in range(1, len(best["scores"]) + 1)]
        copies = {"copies": _ancestry(best["trial"], comparisons)} if comparisons else {}
        write_atomically(out / BEST, json.dumps({**best, "runs": runs, **copies}, indent=1) + "\n")
    head, cells = table_of(rows)
    sections = [Section("Trials", "Whole trainings first, the best first among them.", [Table(head, cells, words=2)])]
    if any(row["curve"] for row in rows):
        lead = f"The mean over seeds at each validation, of the first {DRAWN} trials; the best with its interval."
        sections.append(Section("Validations", lead, [_curves(rows[:DRAWN])]))
    if comparisons:
        sections.append(Section("Copies", COPIES, [Table(*_copies(comparisons), words=3)]))
    page = Page(config, "sweep", LEAD, facts=facts, repeat=[repeat], findings=_findings(rows, best), sections=sections)
    write_page(out / PAGE, page)


def _findings(rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None) -> list[Block]:
    found: list[Block] = []
    if best is None:
        found.append(Callout("neutral", "No trial was trained to its end."))
    else:
        setting = ", ".join(f"{key} = {_short(value)}" for key, value in best["setting"].items())
        score = f"validation score {best['mean']:.3f}"
        found.append(Callout("good", f"Best of the whole trainings: {setting}; {score} (trial {best['trial']})."))
    failed = [f"{row['trial']}: {row['error']}" for row in rows if row["error"]]
    return (
        [*found, Callout("bad", f"Failed: {len(failed)} of {len(rows)} trials.", [Items(failed)])] if failed else found
    )


def _curves(rows: Sequence[Mapping[str, Any]]) -> Figure:
    lines = []
    for at, (row, look) in enumerate(zip(rows, STYLES, strict=False)):
        if row["curve"]:
            decisions, means, low, high = zip(*row["curve"], strict=True)
            interval = Interval(low, high) if at == 0 else None
            lines.append(line(row["trial"], decisions, means, look, markers=True, interval=interval))
    return Figure("validation score of each trial", [Chart(Axis("decisions"), Axis("validation score"), lines)])


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints the table."""
    print_table("trials: mean over seeds ± half of the 95 % interval", *table_of(rows), left=2)
    for row in rows:
        if row["error"]:
            print(f"FAILED {row['trial']}: {row['error']}")
