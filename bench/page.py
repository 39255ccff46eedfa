"""`python -m bench.page`: writes docs/measurements.md and the marked figures of pages from docs/measurements.json."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import growth, stale
from bench.simulator import GROWTH
from ccarena.core.files import write_atomically
from ccarena.core.measurements import FILE, GROUPS, Entry, Source, Target, load
from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError, did_you_mean

PAGE = Path("docs", "measurements.md")
README = Path("README.md")
"""Page whose figures have the marks of this one: it stands alone, and explains them."""
HEAD = """# Measurements

<!-- Generated from docs/measurements.json by `make measurements`; do not edit. -->

Look up every figure that the project measures, with its target and the command that measures it. These commands write
the figures: `make bench` (as root with the emulator and the kernel bridge), `make gain`, `ccarena fidelity --record`,
`ccarena eval --record` and `ccarena reproduce --write-docs`.

- **[N]** refers to [command, version, date and machine](#where-the-figures-come-from) at the end of the page.
  The commit follows the version, after a plus sign.
- **Target** is the project's own goal; a figure in bold misses it.
- **Ratio** compares two figures of the same run: of rates more is better, of costs and times less. Absolute speeds
  depend on the machine.
- **†** marks figures whose code has changed since. When `make measurements` wrote this page, files that they measure
  (`FOLDERS` of `bench/stale.py`) differed from the recorded commit.
- **‡** marks figures of which that is unknown. Their commit is not in the clone, or they were measured with
  changes that no commit has.
"""
MARK = re.compile(r"<!-- measured:(\S+?)(:ratio|:machine)? -->.*?<!-- /measured -->", flags=re.S)


def main() -> int:
    """Rewrites the pages, from the repository's root. Returns the exit code."""
    try:
        entries = load(FILE)
        write_atomically(PAGE, page(entries))
        for path in marked(Path()):
            write_atomically(path, filled(path.read_text("utf-8"), entries, str(path), marks=path == README))
        growth.draw(entries)
    except MissingDependencyError as error:
        print(f"{growth.IMAGE} is NOT DRAWN anew: {error}", file=sys.stderr)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def page(entries: Sequence[Entry]) -> str:
    """Returns the page as Markdown. The same entries give the same text."""
    sources = list(dict.fromkeys(map(_source_line, (entry.source for entry in entries))))
    number = {line: index for index, line in enumerate(sources, start=1)}
    parts = [HEAD]
    for group, title in GROUPS.items():
        of_group = [entry for entry in entries if entry.group == group]
        tables = list(dict.fromkeys(entry.table for entry in of_group))
        parts += [f"## {title}\n"] if of_group else []
        for table in sorted(tables, key=bool):  # the group's own table first
            rows = [entry for entry in of_group if entry.table == table]
            parts += [f"### {table}\n"] if table else []
            parts += [f"![{GROWTH}]({growth.IMAGE.relative_to(PAGE.parent)})\n"] if table == GROWTH else []
            rows = sorted(rows, key=_growing) if table == GROWTH else rows
            parts.append(_by_case(rows, number) if any(row.case for row in rows) else _plain(rows, number))
    parts.append("## Where the figures come from\n")
    parts.append("\n".join(f"{index}. {line}" for line, index in number.items()) + "\n")
    return "\n".join(parts)


def marked(root: Path) -> list[Path]:
    """Returns the pages of the repository at `root` with figures between marks, in order."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return [page for page in pages if MARK.search(page.read_text("utf-8"))]


def filled(text: str, entries: Sequence[Entry], where: str, marks: bool = False) -> str:
    """Returns `text`, the page `where`, with the entry's figure in each `<!-- measured:NAME -->...<!-- /measured -->`.

    `NAME:ratio` stands for its ratio, and `NAME:machine` for the processor that it was measured on. With `marks`,
    figures whose code has changed are marked (`stale.mark`). Raises ConfigError for a name that is not measured.
    """
    known = {entry.name: entry for entry in entries}

    def figure(match: re.Match[str]) -> str:
        name, part = match.group(1), match.group(2)
        entry = known.get(name)
        if entry is None:
            raise ConfigError(f"{where}: no measurement {name!r}{did_you_mean(name, known)}")
        shown = value_text(entry)
        if part == ":ratio":
            if entry.ratio is None:
                raise ConfigError(f"{where}: the measurement {name!r} has no ratio")
            shown = f"{number_text(entry.ratio.value)} ×"
        elif part == ":machine":
            shown = str(entry.source.machine.get("cpu", "unknown machine"))
        if marks and part != ":machine":
            shown += stale.mark(entry.group, entry.source)
        return f"<!-- measured:{name}{part or ''} -->{shown}<!-- /measured -->"

    return MARK.sub(figure, text)


def number_text(value: float) -> str:
    """Three significant digits; whole numbers and thousands in full."""
    if value == int(value) or abs(value) >= 1000:
        digits = value if abs(value) < 1000 else float(f"{value:.3g}")
        return f"{digits:,.0f}"
    return f"{value:.3g}"


def value_text(entry: Entry) -> str:
    """The figure with its unit."""
    if isinstance(entry.value, str):
        return entry.value
    return f"{number_text(entry.value)} {entry.unit}".rstrip()


def _plain(rows: Sequence[Entry], number: dict[str, int]) -> str:
    lines = ["| what | measured | target | ratio | |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = ""
        if row.ratio is not None:
            ratio = f"{number_text(row.ratio.value)} × {_compared(row)}{row.ratio.of}"
            if row.ratio.target is not None:
                ratio += f" (target {_target(row.ratio.target)})"
                ratio = ratio if row.ratio.target.met(row.ratio.value) else f"**{ratio}**"
        cells = [row.what, _marked(row), _target(row.target, row.unit), ratio, _reference(row, number)]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _compared(row: Entry) -> str:
    """Returns words before the name of a program that a figure is compared with: of rates more is better, of costs
    less.
    """
    return "the rate of " if row.unit.endswith("packets/s") else "the cost of " if row.unit == "ns" else ""


def _growing(row: Entry) -> tuple[str, float]:
    """Returns the place of `WHAT: NUMBER` among rows of that kind."""
    what, _, number = row.what.rpartition(": ")
    return what, float(number)


def _by_case(rows: Sequence[Entry], number: dict[str, int]) -> str:
    """A row per `what`, a column per `case`."""
    cases = list(dict.fromkeys(row.case for row in rows))
    with_targets = any(row.target is not None for row in rows)
    head = ["", *(["target"] if with_targets else []), *cases]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for what in dict.fromkeys(row.what for row in rows):
        of = {row.case: row for row in rows if row.what == what}
        targets = [_target(row.target, row.unit) for row in of.values() if row.target is not None]
        cells = [what, *([targets[0] if targets else ""] if with_targets else [])]
        cells += [_marked(of[case]) if case in of else "" for case in cases]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    sources = {number[_source_line(row.source)]: _reference(row, number) for row in rows}
    return "\n".join([*lines, "", f"Measured by {', '.join(sources[one] for one in sorted(sources))}."]) + "\n"


def _reference(row: Entry, number: dict[str, int]) -> str:
    """Returns the number of a figure's source, marked if its code has changed since."""
    return f"[{number[_source_line(row.source)]}]{stale.mark(row.group, row.source)}"


def _marked(row: Entry) -> str:
    missed = isinstance(row.target, Target) and isinstance(row.value, float | int) and not row.target.met(row.value)
    return f"**{value_text(row)}**" if missed else value_text(row)


def _target(target: Target | str | None, unit: str = "") -> str:
    if target is None or isinstance(target, str):
        return target or ""
    bounds = [("≥", target.at_least), ("≤", target.at_most)]
    return ", ".join(f"{sign} {number_text(bound)} {unit}".rstrip() for sign, bound in bounds if bound is not None)


def _source_line(source: Source) -> str:
    machine = source.machine
    where = f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}" if machine else "machine unknown"
    return f"`{source.command}`; version {source.version}, {source.date}; {where}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
