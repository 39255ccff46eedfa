"""Page of `ccarena compete`: shares and harm of every pair as heat maps, and the table of all matches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.compete.tables import WIDE_HEAD, Matrix, interval, number, wide_cells
from ccarena.pages import Axis, Block, Chart, Choice, Figure, Items, Page, Section, Table, charts, terminal_plots
from ccarena.pages.terminal_plots import Cell
from ccarena.scenarios import backends

__all__ = ["HARM", "PANELS", "SHARES", "competition_page", "findings", "heat_maps", "shade", "text_plots", "where"]

# Orange and blue stay apart for colour-blind readers; the middle is a fair share.
SHARES = ("#b35806", "#f1a340", "#f7f7f7", "#67a9cf", "#2166ac")
HARM = ("#f7f7f7", "#fdae6b", "#a63603")
PANELS = (
    ("share", "Row's share (%)"),
    ("harm_throughput", "Harm to row's rate (%)"),
    ("harm_delay", "Harm to row's delay (%)"),
)
NEARLY_FAIR = 0.05
"""Largest distance from the fair share that counts as fair in the findings."""
FINDINGS = 5


def competition_page(
    meta: Mapping[str, Any],
    summary: Sequence[Mapping[str, Any]],
    found: Sequence[Matrix],
    repeat: Sequence[str],
    left_out: Sequence[str] = (),
) -> Page:
    """Returns the page of a result's `meta`, `summary` (entries of `summarise`), matrices and runs `left_out`."""
    names = [entrant["label"] for entrant in meta["entrants"]]
    sections = []
    if found:
        maps: dict[str, Sequence[Block]] = {
            figure.label: [figure] for figure in heat_maps(found)
        }  # a matrix's label is unique
        sections.append(
            Section(
                "Pairs",
                "What the row gets beside the column. White is a fair share, blue more, orange less. Harm is what the "
                "row loses beside the column, of what it has alone: 0 none, 100 all, below 0 a gain. Two equal flows "
                "that share fairly harm each other's rate by half; compare with the diagonal.",
                [Choice("Link", maps)],
            )
        )
    tables: dict[str, Sequence[Block]] = {}
    for link in dict.fromkeys(entry["link"] for entry in summary):
        rows = wide_cells([entry for entry in summary if entry["link"] == link])
        tables[link] = [Table(WIDE_HEAD, rows, words=2, grouped=True)]
    sections.append(
        Section(
            "All matches",
            "Means over seeds, each over all orders of starting; ± is half of the 95 % confidence interval (Student's "
            't), where there are several seeds. "If first" is the share of the flows that started first, "ever" the '
            "part of the flows that ever came to their fair share to stay, and Jain's index is of rates over weights.",
            [Choice("Link", tables)],
        )
    )
    return Page(
        title=" · ".join(names),
        kind="competition",
        lead="Congestion controls against each other on one bottleneck: what each gets, and what it takes from the "
        "others, over the time when all of a match's flows are active.",
        facts={
            "Written by": f"ccarena {meta['ccarena']}",
            "Backend": backends.find(meta["backend"]).title
            + (f", kernel {meta['kernel']}" if "kernel" in meta else ""),
            "Links": "; ".join(f"{link['name']} (base RTT {link['base_rtt_ms']:g} ms)" for link in meta["links"]),
            "Seeds": str(meta["seeds"]),
            "All together for": f"{meta['duration_s']:g} s",
            "Starts apart": f"{meta['stagger_s']:g} s",
        },
        repeat=repeat,
        findings=[Items(found_out)]
        if (found_out := [*findings(summary), *(f"In no mean: {each}" for each in left_out)])
        else [],
        sections=sections,
    )


def heat_maps(found: Sequence[Matrix]) -> list[Figure]:
    """Returns a figure for each matrix: shares, harm to rates and harm to delays, side by side."""
    return [Figure(where(matrix), [_map(matrix, *panel) for panel in PANELS], columns=3) for matrix in found]


def text_plots(matrix: Matrix) -> list[terminal_plots.Matrix]:
    """Returns the same maps for a terminal."""
    return [terminal_plots.Matrix(title, matrix.entrants, _cells(matrix, key)) for key, title in PANELS]


def _map(matrix: Matrix, key: str, title: str) -> Chart:
    value, names, shown = matrix.figures[key], matrix.entrants, _cells(matrix, key)
    size = len(names)
    cells = charts.cells(
        names,
        size,
        [[cell.colour if cell else "" for cell in row] for row in shown],
        [[cell.text if cell else "" for cell in row] for row in shown],
        [
            [f"{name} beside {other}: {number(100 * value[i, j], 1)} %" for j, other in enumerate(names)]
            for i, name in enumerate(names)
        ],
    )
    ticks = [at + 0.5 for at in range(size)]
    x = Axis("beside", low=0, high=size, ticks=ticks, labels=names)
    return Chart(x, Axis("", reversed=True, category=True), [cells], title, height=110 + 46 * size)


def _cells(matrix: Matrix, key: str) -> list[list[Cell | None]]:
    """Returns a figure of each pair in percent, with its colour; None of a pair that did not run."""
    value = matrix.figures[key]
    size = np.clip(value, 0.0, 1.0)
    shades, colours = shade(matrix, key), SHARES if key == "share" else HARM
    return [
        [
            Cell(number(100 * value[i, j], 0), size[i, j], charts.ramp(colours, shades[i, j]))
            if np.isfinite(value[i, j])
            else None
            for j in range(len(matrix.entrants))
        ]
        for i in range(len(matrix.entrants))
    ]


def findings(summary: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the pairs that are farthest from fair, in sentences; a pair whose interval includes the fair share is
    only counted. Empty if no pair was run.
    """
    pairs = [e for e in summary if len(e["match"].split("+")) == 2 and math.isfinite(e["share"]["mean"])]
    if not pairs:
        return []
    unfair, unsure = [], 0
    for entry in pairs:
        share = entry["share"]
        gain = share["mean"] - entry["fair_share"]
        if not gain > NEARLY_FAIR:
            continue
        if share["low"] < entry["fair_share"]:  # not if there is no interval, which is NaN
            unsure += 1
        else:
            unfair.append((gain, entry))
    unfair.sort(key=lambda item: -item[0])
    said = []
    for _, entry in unfair[:FINDINGS]:
        share = entry["share"]
        rtt = f" at {entry['base_rtt_ms']:g} ms" if len(set(entry["match_rtts_ms"].split("+"))) > 1 else ""
        said.append(
            f"{entry['entrant']}{rtt} gets {interval(share, 1, 100)} % of the rate beside {_other(entry)} on "
            f"{entry['link']}, where {100 * entry['fair_share']:.0f} % is fair."
        )
    if len(unfair) > FINDINGS:
        said.append(f"More pairs are unequal: {len(unfair) - FINDINGS}; see the heat maps.")
    if unsure:
        said.append(f"Pairs that look unequal, but whose intervals over seeds include the fair share: {unsure}.")
    failed = len(pairs) < sum(len(e["match"].split("+")) == 2 for e in summary)
    every = "every pair that has results" if failed else "every pair"
    return said or [f"In {every} each gets its fair share, to {100 * NEARLY_FAIR:.0f} percentage points."]


def _other(entry: Mapping[str, Any]) -> str:
    first, second = entry["match"].split("+")
    return str(second if first == entry["entrant"] else first)


def shade(matrix: Matrix, key: str) -> NDArray[np.float64]:
    """Returns the place of each cell's colour, 0 to 1, on `SHARES` or `HARM`."""
    value = matrix.figures[key]
    return _against_fair(value, matrix.fair) if key == "share" else np.clip(value, 0.0, 1.0)


def _against_fair(share: NDArray[np.float64], fair: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps shares to a scale on which 0.5 is fair: linear from 0 to fair and from fair to 1."""
    return np.where(share <= fair, 0.5 * share / fair, 0.5 + 0.5 * (share - fair) / (1.0 - fair))


def where(matrix: Matrix) -> str:
    """Returns the link and the base RTTs of a matrix."""
    row, column = matrix.rtts_ms
    if row == column:
        return f"{matrix.link}; base RTT {row:g} ms"
    return f"{matrix.link}; base RTT {row:g} ms of the row, {column:g} ms of the column"
