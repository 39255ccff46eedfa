"""The leaderboard's pages: a site whose files need no network, made whole or one by one.

index.html          ranks by any score, utilisation against delay, who wins against whom, competition, every cell
entrant/ID.html     a scheme, policy or baseline: its card, ranks, traces, and who it wins against
trace/ID.html       a trace: its ranks, and everyone on it, over time
cell.html           one cell, PLACE-ENTRANT after the #: rate, capacity and delay over time, and its runs
data/, assets/      rows, series and repeatable runs with their files; style and scripts
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

from ccarena.core.files import digest, write_atomically
from ccarena.errors import ConfigError
from ccarena.eval.heldout.plots import learning_curve
from ccarena.eval.leaderboard import plots as drawing
from ccarena.eval.leaderboard.entrants import TRACKS
from ccarena.eval.leaderboard.figures import BESIDE, RIVAL, SCORE, SCORES, SHARING, TERMS, definitions, heading, solo
from ccarena.eval.leaderboard.links import SCENARIO
from ccarena.eval.leaderboard.listing import Line, agreement_of, lines, rank_of, score_of, short_names, visible_of
from ccarena.eval.leaderboard.ranking import OVERALL, UNSEEN, first_of, seen_by
from ccarena.eval.leaderboard.ranks import Groups, ranks_script
from ccarena.eval.leaderboard.repeats import AXES, Repeats
from ccarena.eval.leaderboard.reported import means_of
from ccarena.eval.leaderboard.run import failures_of
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.table import FIGURES
from ccarena.pages import Block, Callout, Cell, Choice, Details, Items, Page, Section, Table, Text, render
from ccarena.pages.grid import Grid, Links, Numbers, Rows, Words, data_script
from ccarena.pages.markdown import blocks_of
from ccarena.pages.page import assets
from ccarena.pages.runnable import RunLater, data_of, packed
from ccarena.policies.curve import Curve, points_of
from ccarena.policies.curve import read as read_curve
from ccarena.scenarios.backends import BACKENDS

__all__ = ["CELL", "MOST_CELLS", "Site", "write_site"]

MOST_CELLS = 100_000
"""Most rows of the table of all cells, best first."""
SHOWN = ("utilisation", "throughput_mbps", "queueing_delay_mean_ms", "queueing_delay_p95_ms", "signal_delay_p95_ms",
         "self_inflicted_delay_ms", "power", "loss_share")  # fmt: skip
"""Figures shown beside the score."""
CELL = ("place", "entrant", "runs", "invalid", "score", *SHOWN, "capacity_mbps")
"""Columns of the store in a table of cells."""
_PATHS = re.compile(r"(?:(entrant|trace)/([0-9]{1,18})\.html|data/(place|runs)-([0-9]{1,18})\.js)")
_FILE = re.compile(r"data/file-([0-9a-f]{16})\.js")


def write_site(
    store: Store,
    out: Path,
    command: str = "",
    policies: Sequence[str] | None = None,
    scenarios: Sequence[str] = (),
) -> int:
    """Writes all pages to the folder `out`, and returns the number of files. Raises ConfigError.

    `command` is the shell line of the call, for the pages; `policies` and `scenarios` are as for `Repeats`.
    """
    site = Site(store, command, policies, scenarios)
    paths = site.paths()
    for path in paths:
        text = site.render(path)
        assert text is not None, path
        write_atomically(out / path, text)
    return len(paths)


class Site:
    """Site over the current content of a store. Raises ConfigError if nothing was ranked yet."""

    def __init__(
        self,
        store: Store,
        command: str = "",
        policies: Sequence[str] | None = None,
        scenarios: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._given = (policies, scenarios)
        self._repeat = [*store.commands(), *([command] if command else [])]
        found = store.ranking()
        if not found or not found["names"]:
            what = "runs are not ranked; `ccarena leaderboard rank` ranks them"
            none = "no runs are stored; `ccarena leaderboard run` makes some"
            raise ConfigError(f"{store.where}: {what if store.counts()['runs'] else none}")
        self._head = found
        self._backend = str(found["backend"])

    @cached_property
    def _entrants(self) -> dict[int, dict[str, Any]]:
        return {entrant["id"]: entrant for entrant in self._store.entrants()}

    @cached_property
    def _names(self) -> dict[int, str]:
        """Returns the short name of each entrant."""
        return {number: name for number, (name, _) in short_names(self._entrants).items()}

    @cached_property
    def _places(self) -> dict[int, dict[str, Any]]:
        return {place["id"]: place for place in self._store.places()}

    @cached_property
    def _traces(self) -> dict[str, list[int]]:
        """Returns places by trace."""
        out: dict[str, list[int]] = {}
        for number, place in self._places.items():
            out.setdefault(place["trace"], []).append(number)
        return out

    def paths(self) -> list[str]:
        """Returns every file of the site."""
        return [
            *("index.html", "cell.html", "data/ranks.js", "data/ranking.js", "data/cells.js"),
            *(f"entrant/{number}.html" for number in self._entrants),
            *(f"trace/{places[0]}.html" for places in self._traces.values()),
            *(f"data/{kind}-{number}.js" for kind in ("place", "runs") for number in self._places),
            *(f"data/file-{key}.js" for key in self._files),
            *(f"assets/{name}" for name in (*assets(), *_SCRIPTS)),
        ]

    def render(self, path: str) -> str | None:
        """Returns the file at `path`; None if there is none."""
        whole: Mapping[str, Callable[[], str]] = {
            "index.html": lambda: render(self._index()),
            "cell.html": lambda: render(self._cell_page()),
            "data/ranks.js": lambda: ranks_script(self._groups, self._entrants),
            "data/ranking.js": lambda: data_script("ranking", self._ranking_rows()),
            "data/cells.js": lambda: data_script("cells", self._cell_rows()),
            **{f"assets/{name}": partial(_own_script, name) for name in _SCRIPTS},
        }
        if path in whole:
            return whole[path]()
        if path.startswith("assets/"):
            return assets().get(path.removeprefix("assets/"))
        if shared := _FILE.fullmatch(path):
            return self._file_script(shared[1]) if shared[1] in self._files else None
        if not (match := _PATHS.fullmatch(path)):
            return None
        kind, number = match[1] or match[3], int(match[2] or match[4])
        if kind == "entrant" and number in self._entrants:
            return render(self._entrant_page(self._entrants[number]))
        if kind == "trace" and (name := next((n for n, own in self._traces.items() if own[0] == number), None)):
            return render(self._trace_page(name))
        if number not in self._places:
            return None
        return self._runs_script(number) if kind == "runs" else self._place_script(number) if kind == "place" else None

    # What pages consist of.

    @cached_property
    def _groups(self) -> Groups:
        """Returns the groups of links without those of single traces, the first shown first, by score."""
        names = [name for name in self._head["names"] if not name.startswith(("trace ", f"{SCENARIO} "))]
        first = first_of(names)
        names.sort(key=lambda name: name != first)
        return {
            name: {score: group for score in SCORES if (group := self._store.group(name, score)) is not None}
            for name in names
        }

    def _index(self) -> Page:
        groups = {name: scores[SCORE] for name, scores in self._groups.items()}
        counts = self._store.counts()
        label = self._names
        scatter: dict[str, Sequence[Block]] = {
            name: [drawing.scatter(name, group["rows"], self._entrants, label)] for name, group in groups.items()
        }
        wins: dict[str, Sequence[Block]] = {
            name: [drawing.win_map(name, group, self._competitors())] for name, group in groups.items() if group["wins"]
        }
        sections = [
            Section(
                "Ranks",
                "Entrants of a track are in the order of their scores, and in groups: nobody in a group is surely "
                "worse than its best. A rank is the group's places in the order. The score is the geometric mean over "
                "links and seeds, with its 95 % interval.",
                [_Place("ranks-of-board")],
            ),
            Section(
                "Utilisation against delay",
                "Each mark is the mean over the links of the group, as in the table of every figure; its ellipse is "
                "one standard error of that mean. Up and left is better. The line joins those that nobody beats in "
                "both, oracles left out. A click on a name in the legend shows baselines and oracles.",
                [Choice("Traces", scatter)],
            ),
        ]
        if wins:
            lead = "In percent, how often the row's score is higher than the column's on the same link and seed."
            sections.append(Section("Who wins against whom", lead, [Choice("Traces", wins)]))
        met = self._store.means(alone=False, backend=self._backend)
        rival = next((number for number, entrant in self._entrants.items() if entrant["label"] == RIVAL), None)
        if meetings := drawing.competition(met, self._places, label, rival):
            lead = (
                "Two flows on one link, in both orders of starting. White is a fair share, blue more, orange less; "
                "harm is what the row loses beside the column, of what it has alone."
            )
            sections.append(Section("Competition", lead, [Choice("Shown", meetings)]))
        lead = "Means over the seeds of each entrant on each link; that of the score is geometric, as in the ranks. "
        lead += "The first column opens the cell: over time, and its runs."
        if rows := means_of(self._store.reported()):
            sections.append(_reported(rows))
        figures = "All figures of the ranked groups of links, single traces included. A heading sorts, arrow keys move "
        figures += "from row to row, and Enter opens one."
        sections += [
            Section("Every figure", figures, [Grid("ranking", "figures")]),
            Section("Every cell", lead, [Grid("cells", "cells")]),
            _definitions(),
        ]
        return Page(
            "Congestion control on links that change",
            "leaderboard",
            "Schemes and trained policies on the same links, recorded, fitted to recordings or of models: who is best, "
            "and how sure that is. Nobody has a rank on what it was trained on.",
            {
                "Entrants": str(len(self._entrants)),
                "Traces": str(len(self._traces)),
                "Links": str(len(self._places)),
                "Runs": f"{counts['runs']:,}",
                "Invalid": f"{counts['invalid']:,}",
                "Backend": BACKENDS[self._backend].title,
            },
            self._findings(self._groups, counts["invalid"]),
            self._repeat,
            sections,
            shared="assets/",
            scripts=("data/ranks.js", "data/ranking.js", "data/cells.js", "assets/ranks.js"),
            home="index.html",
        )

    def _competitors(self) -> dict[int, str]:
        """Returns the short names of all entrants that are no baselines."""
        return {number: name for number, name in self._names.items() if self._entrants[number]["kind"] != "baseline"}

    def _findings(self, groups: Groups, invalid: int) -> list[Block]:
        said = []
        for name in [name for name in groups if name in (UNSEEN, OVERALL, first_of(list(groups)))]:
            group, title = groups[name][SCORE], f"{name[0].upper()}{name[1:]}"
            for track in TRACKS:
                mine = [row for row in group["rows"] if self._entrants[row["entrant"]]["track"] == track]
                first = [self._names[row["entrant"]] for row in mine if row["rank"] == 1]
                if len(first) == 1:
                    said.append(f"{title}, {track}: {first[0]} leads.")
                elif first:
                    said.append(f"{title}, {track}: {first[0]} leads; {', '.join(first[1:])} cannot be told from it.")
        out: list[Block] = [Items(said)] if said else []
        if changes := self._changes():
            out.append(Details("does another score change the order?", [Items(changes)]))
        compared = [text for number, each in self._entrants.items() for text in self._beside(number, each)]
        if compared:
            out.append(Details("policies and their baseline rules", [Items(compared)]))
        if invalid:
            why = "because the emulator was late or a program failed"
            out.append(Callout("partly", f"{invalid:,} runs are invalid, {why}, and count nowhere"))
        return out + [Callout("partly", each) for each in failures_of(self._store, self._backend)]

    def _changes(self) -> list[str]:
        """Returns sentences on how far other scores give another order, on the group of links that is shown first."""
        name = first_of(list(self._groups))
        by_score = self._groups[name] if name else {}
        return [
            f"{FIGURES[score].title}, {text}"
            for score, group in by_score.items()
            if score != SCORE
            for track in TRACKS
            if (text := agreement_of(group, by_score[SCORE], self._entrants, track))
        ]

    def _beside(self, number: int, entrant: Mapping[str, Any]) -> list[str]:
        """Returns sentences that compare a policy with its baselines, over all traces."""
        if entrant["kind"] != "policy" or OVERALL not in self._groups:
            return []
        wins = drawing.wins_of(self._groups[OVERALL][SCORE])
        out = []
        for other, baseline in self._entrants.items():
            share = wins.get((number, other))
            if baseline["beside"] == entrant["label"] and share is not None:
                seen = " (on links that both were fitted to, in part)" if entrant["trained_on"] else ""
                out.append(f"{entrant['label']} beats {self._names[other]} in {100 * share:.0f} % of the runs{seen}.")
        return out

    def _ranking_rows(self) -> Rows:
        table: list[tuple[str, dict[str, Any]]] = []
        for name in self._head["names"]:
            group = self._store.group(name)
            table += [(name, row) for row in (group or {"rows": []})["rows"]]
        who = [self._entrants[row["entrant"]] for _, row in table]
        links = {self._names[number]: f"entrant/{number}.html" for number in self._entrants}
        kinds = ["baseline or oracle" if entrant["kind"] == "baseline" else "entrant" for entrant in who]
        columns: list[Words | Numbers] = [
            Words("Entrant", [self._names[row["entrant"]] for _, row in table], links),
            Words("Rank", [rank_of(row) for _, row in table]),
            _numbers("score", [row["score"] for _, row in table]),
            Numbers("Low", [row["low"] for _, row in table], 3),
            Numbers("High", [row["high"] for _, row in table], 3),
            *(_numbers(name, [row["figures"][name] for _, row in table]) for name in SHOWN),
            *(
                Numbers(title, [row.get("beside", {}).get(name) for _, row in table], 2, BESIDE[title])
                for title, name in zip(BESIDE, ("share", SHARING, "harm_throughput", "harm_delay"), strict=True)
            ),
            _numbers("cpu_ns", [entrant["cpu_ns"] for entrant in who]),
            Words("Traces", [name for name, _ in table], choose=True, first=first_of(self._head["names"]) or ""),
            Words("Track", [entrant["track"] for entrant in who], choose=True),
            Words("Kind", kinds, choose=True, first="entrant" if "entrant" in kinds else ""),
            Words("No rank because", [row["why"] for _, row in table]),
        ]
        return Rows(columns, "-Score")

    def _cell_rows(self) -> Rows:
        return self._means_rows("", most=MOST_CELLS)

    def _means_rows(self, up: str, **which: Any) -> Rows:
        """Returns cells alone, the best first; `which` is as for `Store.columns_of_means`."""
        means = self._store.columns_of_means(CELL, backend=self._backend, **{"most": MOST_CELLS} | which)
        who = [self._entrants[number] for number in means["entrant"]]
        where = [self._places[number] for number in means["place"]]
        traces = {name: f"{up}trace/{own[0]}.html" for name, own in self._traces.items()}
        columns: list[Words | Numbers] = [
            Words("Entrant", [self._names[number] for number in means["entrant"]], choose=True),
            Words("Trace", [place["trace"] for place in where], traces, choose=True),
            Words("Class", [place["moves"] for place in where], choose=True),
            Numbers("Base delay (ms)", [place["delay_ms"] for place in where], 0),
            Numbers("Buffer (packets)", [place["buffer_packets"] for place in where], 0),
            *(_numbers(name, means[name]) for name in ("score", *SHOWN, "capacity_mbps")),
            Numbers("Runs", means["runs"], 0),
            Numbers("Invalid", means["invalid"], 0),
            Words("Trained on it", [self._seen(e, p) for e, p in zip(who, where, strict=True)], choose=True),
        ]
        return Rows(columns, "-Score", Links(f"{up}cell.html", means["place"], means["entrant"]))

    def _seen(self, entrant: Mapping[str, Any], place: Mapping[str, Any]) -> str:
        return "yes" if entrant["trained_on"] and seen_by(entrant, place) else "no"

    def _entrant_page(self, entrant: Mapping[str, Any]) -> Page:
        number, label = entrant["id"], str(entrant["label"])
        groups = {name: self._store.group(name) for name in self._head["names"]}
        ranks = []
        for name, group in groups.items():
            row = next((row for row in (group or {"rows": []})["rows"] if row["entrant"] == number), None)
            if row is not None:
                ranks.append([name, rank_of(row), score_of(row), row["why"]])
        blocks: list[Block] = [Table(("traces", "rank", "score [95 %]", "no rank because"), ranks, words=1)]
        sections = [Section("Ranks", "Among those on its track.", blocks)]
        if well := drawing.where_it_stands(number, {n: g for n, g in groups.items() if g is not None}):
            sections.append(Section("Where it wins and loses", well[0], [Items(well[1])]))
        overall = groups.get(OVERALL)
        if overall is not None and (bars := drawing.win_bars(number, overall, self._names)) is not None:
            lead = "On the same link with the same seed: how often its score is the higher one."
            sections.append(Section("Against each other entrant", lead, [bars]))
        grid = Grid("mine", f"cells of {label}", self._means_rows("../", entrant=number))
        sections.append(Section("On every link", "The first column opens the cell.", [grid]))
        if entrant["kind"] == "policy":
            sections.append(_training(read_curve(entrant["curve"])))
        sections.append(Section("Card", "What is known of it.", blocks_of(entrant["card"]) or [Text("Nothing.")]))
        trained = [f"{each.get('kind')} {each.get('name')}" for each in entrant["trained_on"]]
        own = entrant["cpu_ns"]
        cost = "none: computed" if own is None else "less than 1 ns" if own < 1 else f"{own:,.0f} ns"
        return Page(
            label,
            str(entrant["kind"]),
            f"Beside the policy {entrant['beside']}." if entrant["beside"] else "",
            {
                **{"Track": str(entrant["track"]), "Digest": str(entrant["digest"])},
                **({"Policy": str(entrant["policy_digest"])} if entrant["policy_digest"] else {}),
                "CPU per decision": cost,
                **({"Trained on": ", ".join(trained)} if trained else {}),
            },
            sections=[*sections, _definitions()],
            shared="../assets/",
            home="../index.html",
        )

    def _trace_page(self, name: str) -> Page:
        places = [self._places[number] for number in self._traces[name]]
        kind = SCENARIO if places[0]["moves"] == SCENARIO else "trace"
        group = self._store.group(f"{kind} {name}") or {"rows": []}
        best = [row["entrant"] for row in group["rows"] if self._entrants[row["entrant"]]["kind"] != "baseline"]
        clouds: dict[str, Sequence[Block]] = {}
        courses: dict[str, Sequence[Block]] = {}
        for place in places:
            names = ("entrant", "valid", "queueing_delay_mean_ms", "throughput_mbps")
            runs = [run for run in self._store.runs_at(place["id"], self._backend, names=names) if run["valid"]]
            clouds[place["name"]] = [drawing.cloud(place["name"], runs, self._entrants, self._names)]
            series = self._store.courses_of(place["id"], self._backend)
            if series:
                courses[place["name"]] = [drawing.over_time_of(place["name"], series, self._names, best[:3])]
        sections = [
            Section(
                "Ranks",
                f"Over the links of this {kind}, among those on a track.",
                self._rank_tables(group, "../"),
            ),
            Section(
                "Throughput against delay",
                "Each mark is the mean over seeds, its ellipse one standard deviation of them. Up and left is better.",
                [Choice("Link", clouds)],
            ),
            *([Section("Over time", "The first seed.", [Choice("Link", courses)])] if courses else []),
            Section(
                "Every cell",
                "The first column opens the cell.",
                [Grid("trace", f"cells of {name}", self._means_rows("../", place=self._traces[name]))],
            ),
        ]
        first = places[0]
        fitted = {"Stands for": first["origin"]} if first["origin"] != name else {}
        means = self._store.columns_of_means(["capacity_mbps"], place=self._traces[name], backend=self._backend)
        capacity = [mbps for mbps in means["capacity_mbps"] if mbps is not None]
        return Page(
            name,
            kind,
            "",
            {
                "Class": first["moves"],
                **fitted,
                "Mean capacity": f"{math.fsum(capacity) / max(len(capacity), 1):.2f} Mbit/s",
                "Acknowledgements": "over the recorded uplink" if first["uplink"] else "pure delay",
                "Digest": first["trace_digest"],
            },
            sections=[*sections, _definitions()],
            shared="../assets/",
            home="../index.html",
        )

    def _rank_tables(self, group: Mapping[str, Any], up: str) -> list[Block]:
        """Returns a table of ranks for each track of a group of links, and baselines and oracles folded away."""
        if not group["rows"]:
            return []

        def table(listed: Sequence[Line]) -> Table:
            rows = [
                [
                    line.rank,
                    Cell(line.name, note=line.detail, link=f"{up}entrant/{line.row['entrant']}.html"),
                    self._entrants[line.row["entrant"]]["track"],
                    score_of(line.row),
                    line.why,
                ]
                for line in listed
            ]
            return Table(("rank", "entrant", "track", "score [95 %]", "no rank because"), rows, words=3, grouped=True)

        ranked = [line for track in TRACKS for line in lines(group, self._entrants, track)]
        others = {
            line.row["entrant"]: line
            for track in TRACKS
            for line in lines(group, self._entrants, track, baselines=True)
            if line not in ranked
        }
        seen = [f"{track}: {text}" for track in TRACKS if (text := visible_of(group, track))]
        out: list[Block] = [table(ranked), *([Items(seen)] if seen else [])]
        return [*out, Details("baselines, rules and oracles", [table([*others.values()])])] if others else out

    def _cell_page(self) -> Page:
        return Page(
            "One cell",
            "cell",
            "An entrant on a link. The figure shows the first seed; a click on a name shows another entrant beside it.",
            sections=[
                Section("Over time", "", [_Place("over-time-of-cell")]),
                Section("Runs", "", [_Place("runs-of-cell")]),
                Section("Run it here", _AGAIN, [RunLater("again-of-cell")]),
            ],
            shared="assets/",
            scripts=("assets/cell.js",),
            home="index.html",
        )

    def _place_script(self, number: int) -> str:
        """Returns the data of a place for `cell.js`: its figure, and all runs."""
        place = self._places[number]
        series = self._store.courses_of(number, self._backend)
        runs: dict[int, list[list[Any]]] = {}
        names = solo()
        columns = ("entrant", "seed", "valid", "error", "version", "machine", *names)
        for run in self._store.runs_at(number, self._backend, names=columns):
            figures = [None if run[name] is None else round(run[name], FIGURES[name].digits) for name in names]
            about = [
                run["seed"],
                "yes" if run["valid"] else f"NO: {run['error'] or 'late'}",
                *figures,
                run["version"],
                run["machine"],
            ]
            runs.setdefault(run["entrant"], []).append(about)
        figure = drawing.over_time_of(place["name"], series, self._names, []) if series else None
        data = {
            "name": place["name"],
            "head": ["seed", "valid", *(heading(name) for name in names), "version", "machine"],
            "label": {entrant: self._names[entrant] for entrant in runs},
            "runs": runs,
            "parts": [{**chart.plain(), "title": chart.title} for chart in figure.charts] if figure else [],
        }
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return f"(window.ccarenaPlaces ??= {{}})[{number}] = JSON.parse({json.dumps(text)});\n"

    @cached_property
    def _repeats(self) -> Repeats:
        return Repeats(self._store, self._backend, *self._given)

    @cached_property
    def _files(self) -> dict[str, tuple[str, bytes]]:
        """Returns policies, by the names of their scripts: a digest, as no name of a file may be a path."""
        return {digest(name.encode()): (name, data) for name, data in self._repeats.files.items()}

    def _file_script(self, key: str) -> str:
        name, data = self._files[key]
        return f"(window.ccarenaFiles ??= {{}})[{json.dumps(name)}] = {json.dumps(packed(data))};\n"

    def _runs_script(self, number: int) -> str:
        """Returns the runs of a place that `cell.js` offers to repeat, by entrant, and why the others are not."""
        found, refused = self._repeats.at(self._places[number])
        shared = self._repeats.files
        files = {name: data for runs in found.values() for run in runs for name, data in run.files.items()}
        own = {name: packed(data) for name, data in files.items() if name not in shared}
        runs = {entrant: data_of(mine)["runs"] for entrant, mine in found.items()}
        scripts = {name: key for key, (name, _) in self._files.items()}
        data = {"axes": AXES, "runs": runs, "refused": refused, "files": own, "scripts": scripts}
        text = packed(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())
        return f"(window.ccarenaRuns ??= {{}})[{number}] = {json.dumps(text)};\n"


class _Place:
    """Block that a script fills."""

    def __init__(self, name: str) -> None:
        self._name = name

    def html(self, drawn: Any) -> str:
        """See `Block`."""
        return f'<div id="{self._name}"></div>'


def _numbers(name: str, cells: Sequence[float | None]) -> Numbers:
    return Numbers(heading(name), cells, FIGURES[name].digits, FIGURES[name].definition)


def _reported(rows: Sequence[Mapping[str, Any]]) -> Section:
    lead = "Results that others report, as they give them: means over their seeds. They were not run here, and have no "
    lead += "ranks; their links, and what they call delay, are their own."
    cells = [
        [
            *(str(row[name]) for name in ("link", "entrant", "source")),
            *(f"{row[name]:.4g}" for name in ("throughput_mbps", "delay_ms")),
            str(row["results"]),
        ]
        for row in rows
    ]
    head = ("link", "entrant", "source", "throughput (Mbit/s)", "delay (ms)", "results")
    return Section("Reported by others", lead, [Table(head, cells, words=3)])


def _training(curve: Curve) -> Section:
    if not curve:
        said = "Its artifact holds no learning curve: versions of before kept that in the run's folder alone."
        return Section("Training", "", [Text(said)])
    lead = "What the artifact keeps of its learning curve: the mean reward of a decision"
    lead += ", and the entropy, which falls as the policy settles." if "entropy" in curve else "."
    return Section("Training", lead, [learning_curve(points_of(curve), {})])


def _definitions() -> Section:
    rows = [[f"{figure.title} ({figure.unit})", figure.definition] for figure in definitions().values()]
    rows += [[term, definition] for term, definition in (*BESIDE.items(), *TERMS.items())]
    return Section(
        "What the figures mean",
        "",
        [Details("definitions and sources", [Table(("figure", "definition"), rows, words=2)])],
    )


_AGAIN = (
    "Repeats one run of this cell, in this browser: the same scenario, link and seed. Figures that are equal to the "
)
_AGAIN += "stored ones are marked so."


_SCRIPTS = ("cell.js", "ranks.js")


def _own_script(name: str) -> str:
    return resources.files("ccarena.eval.leaderboard").joinpath("assets").joinpath(name).read_text("utf-8")
