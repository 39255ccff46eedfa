"""Command `ccarena traces`: lists, describes, generates, converts, fetches and checks traces."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.arguments import Unused, refuse
from ccarena.core.outputs import Output, folder
from ccarena.core.reader import LARGEST_TRACE_BYTES
from ccarena.core.terminal import command_line, heartbeat, print_table
from ccarena.errors import ConfigError, MissingDependencyError, TraceError
from ccarena.traces import convert, fetch, files, formats, manifest, plot, presets, stats
from ccarena.traces.clock import UNITS as TIME_UNITS
from ccarena.traces.opportunities import PACKET_BITS
from ccarena.traces.recording import GAPS, MAX_MBPS, Gaps, Part
from ccarena.traces.tables import UNITS, Condition, Table, column_of

__all__ = ["add_parser", "run"]


def _writes_steps(args: argparse.Namespace) -> bool:
    return args.action == "convert" and args.out is not None and args.out.suffix == ".json"


UNUSED = (
    Unused(("seed",), lambda args: args.action == "convert" and args.burstiness == 0, "without --burstiness"),
    Unused(("burstiness", "seed"), _writes_steps, "on rates (--out NAME.json)"),
    Unused(("max_gap",), lambda args: args.action == "convert" and args.gaps == "hold", "with --gaps hold"),
)


def add_parser(subparsers: Any, **options: Any) -> None:
    """Adds the command and its own commands to those of the `ccarena` command line."""
    parser = subparsers.add_parser("traces", **options)
    parser.set_defaults(traces_parser=parser)
    actions = parser.add_subparsers(dest="action", title="commands", metavar="COMMAND")

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
        added.add_argument("--json", action="store_true", help="print JSON instead of a table")
        return added

    action("list", "list the traces found, the generated presets and the sets that can be fetched")

    sub = action("stats", "describe traces: rate, variability, autocorrelation, outages")
    _add_traces(sub)

    sub = action("validate", "check that files are traces; exit code 3 if one is not")
    sub.add_argument("traces", nargs="+", metavar="TRACE", help="name or path")

    sub = action("plot", "draw capacity over time and its distribution")
    _add_traces(sub)
    sub.add_argument(
        "--out", type=Output(".html"), default=Path("trace.html"), help=".html, .svg, .png or .pdf (%(default)s)"
    )
    sub.add_argument(
        "--window-ms", type=int, help=f"averaging window (100, or more for more than {plot.MOST_WINDOWS} windows)"
    )

    sub = action("generate", "draw a synthetic cellular trace from a preset")
    sub.add_argument("preset", help="preset from `ccarena traces list`")
    _add_generator(sub)
    sub.add_argument("--out", type=Output(), help="file to write (PRESET-SEED.trace)")

    sub = action("convert", "turn a table of rates, or another tool's log or trace, into a trace")
    _add_convert(sub)

    sub = action("fetch", "download a public set, checked and resumable")
    sub.add_argument("set", nargs="?", help=f"one of {', '.join(manifest.sets())}, or all (default)", default="all")
    sub.add_argument("--from", dest="source", type=Path, metavar="DIR", help="copy from here instead of downloading")
    sub.add_argument("--to", type=folder, metavar="DIR", help=f"default {files.data_dir()}")


def _add_convert(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("table", type=Path, help="CSV, TSV or white-space separated file, or a file in a --format")
    sub.add_argument(
        "--out",
        type=Output(),
        help="default: the table's name with .trace; NAME.json takes the rates, as a service of steps",
    )
    known = "; ".join(f"{known.name}: {known.summary}" for known in formats.FORMATS)
    sub.add_argument("--format", help=f"format of the file, if it is not recognised ({known})")
    sub.add_argument(
        "--from", dest="start", default="", metavar="TIME", help="start of the part, in seconds or as in --time"
    )
    sub.add_argument("--until", dest="end", default="", metavar="TIME", help="end of the part, as --from")
    sub.add_argument(
        "--max-mbps", type=float, default=MAX_MBPS, help="refuse rates above this, as faults (%(default)g)"
    )
    sub.add_argument("--burstiness", type=float, default=0.0, help="CV of the rate within a row (%(default)s: even)")
    sub.add_argument("--seed", type=int, default=0, help="seed of --burstiness (%(default)s)")
    tables = sub.add_argument_group("tables", "which change what the format says")
    tables.add_argument("--rate", metavar="COLUMN", help="column of the rate: header name, or number from 0")
    tables.add_argument("--unit", choices=(*UNITS, "bytes"), help="unit of the rate; bytes: per row")
    tables.add_argument("--interval", metavar="COLUMN", help="column of each row's length")
    tables.add_argument("--time", metavar="COLUMN", help="column of each row's start: numbers or date-times")
    tables.add_argument("--time-unit", choices=tuple(TIME_UNITS), help="unit of --interval, and of numbers in --time")
    tables.add_argument(
        "--time-format", metavar="FORMAT", help="format of --time for strptime: %%d/%%m/%%Y %%H:%%M:%%S"
    )
    tables.add_argument("--interval-s", type=float, help="length of all rows, if no column has it")
    tables.add_argument("--delimiter", help="separator of columns: comma (default), tab, or space for any white space")
    tables.add_argument("--header", action=argparse.BooleanOptionalAction, default=None, help="the first row has names")
    condition = "COLUMN=VALUE, or != < <= > >= in place of =; may be repeated"
    tables.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="CONDITION",
        help=f"leave out other rows, time included: {condition}",
    )
    tables.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="CONDITION",
        help="leave out rows for which this holds, time included",
    )
    gaps = "; ".join(f"{name}: {what}" for name, what in GAPS.items())
    tables.add_argument("--gaps", choices=tuple(GAPS), default="refuse", help=f"treatment of gaps in --time ({gaps})")
    tables.add_argument(
        "--max-gap",
        type=float,
        default=Gaps().longer_than,
        metavar="N",
        help="a gap is longer than N medians (%(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    """Runs one of the commands and returns its exit code."""
    if args.action is None:
        args.traces_parser.print_help()
        return 0
    actions = {
        "list": _list,
        "stats": _stats,
        "validate": _validate,
        "plot": _plot,
        "generate": _generate,
        "convert": _convert,
        "fetch": _fetch,
    }
    return actions[args.action](args)


def _add_traces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="name, path or preset (default: all that are found)")
    _add_generator(parser)


GENERATOR = ("duration_s", "seed", "mean_mbps")
"""Options for generated traces alone."""


def _add_generator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--duration-s", type=float, default=300.0, help="length of a generated trace (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of a generated trace (%(default)s)")
    parser.add_argument("--mean-mbps", type=float, help="scales a generated trace's rates to this mean")


def _list(args: argparse.Namespace) -> int:
    found = files.available()
    generated, problem = _presets()
    if args.json:
        _print_json(
            {
                "traces": [{"name": name, "path": str(path)} for name, path in found.items()],
                "presets": generated,
                "sets": {name: [dataclasses.asdict(e) for e in _entries(name)] for name in manifest.sets()},
            }
        )
        return 0
    print_table("traces found", ("name", "file"), [(name, str(path)) for name, path in found.items()], left=2)
    print()
    print_table(
        "generated presets",
        ("name", "what", "Mbit/s"),
        [(p["name"], p["summary"], f"{p.get('mean_mbps', float('nan')):.2f}") for p in generated],
        left=2,
    )
    if problem:
        print(f"  ({problem})")
    print()
    rows = []
    for name in manifest.sets():
        entries = _entries(name)
        size_mb = sum(entry.bytes for entry in entries) / 1e6
        rows.append((name, entries[0].licence, str(len(entries)), f"{size_mb:.1f}"))
    print_table("public sets (ccarena traces fetch SET)", ("set", "licence", "files", "MB"), rows, left=2)
    return 0


def _stats(args: argparse.Namespace) -> int:
    described = {name: _described(name, chunks) for name, chunks in _traces(args).items()}
    if args.json:
        _print_json({name: one.to_dict() for name, one in described.items()})
        return 0
    print_table("traces", stats.HEAD, [stats.cells(name, one) for name, one in described.items()], left=1)
    return 0


def _described(name: str, chunks: Iterable[NDArray[np.uint32]]) -> stats.TraceStats:
    counter = stats.Counter()
    with heartbeat(lambda: f"{name}: {counter.opportunities} opportunities"):
        for times in chunks:
            counter.add(times)
    return counter.stats()


def _validate(args: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    for trace in args.traces:
        try:
            opportunities, last = 0, 0
            for times in files.chunks(trace):
                opportunities, last = opportunities + times.size, int(times[-1])
            rows.append({"trace": trace, "valid": True, "opportunities": opportunities, "duration_ms": last})
        except TraceError as error:
            rows.append({"trace": trace, "valid": False, "error": str(error)})
    if args.json:
        _print_json(rows)
    else:
        for row in rows:
            good = (
                f"{row['trace']}: valid, {row['opportunities']} opportunities in {row['duration_ms']} ms"
                if row["valid"]
                else ""
            )
            print(good or f"error: {row['error']}", file=sys.stdout if row["valid"] else sys.stderr)
    return 0 if all(row["valid"] for row in rows) else TraceError.exit_code


def _plot(args: argparse.Namespace) -> int:
    traces = {name: np.concatenate(list(chunks)) for name, chunks in _traces(args).items()}
    path = plot.plot(traces, args.out, args.window_ms, [command_line(args)])
    _report(args, {"path": str(path)}, f"wrote {path}")
    return 0


def _generate(args: argparse.Namespace) -> int:
    times = presets.generate(args.preset, args.duration_s, args.seed, args.mean_mbps)
    path = files.save(args.out or Path(f"{args.preset}-{args.seed}.trace"), times)
    one = stats.describe(times, str(path))
    _report(args, {"path": str(path), **one.to_dict()}, _in_short(path, one))
    return 0


def _convert(args: argparse.Namespace) -> int:
    known = _format(args)
    if isinstance(known.source, Table):
        known = dataclasses.replace(known, source=_table(args, known.source))
    else:
        refuse(args, TABLE_OPTIONS, f"on a file of the format {known.name}")
    if not 0 < args.max_mbps < float("inf"):
        raise ConfigError(f"--max-mbps is {args.max_mbps}; expected above 0")
    if not 1 <= args.max_gap < float("inf"):
        raise ConfigError(f"--max-gap is {args.max_gap}; expected 1 or more median intervals")
    out = args.out or args.table.with_suffix(".trace")
    gaps = Gaps(args.gaps, args.max_gap)
    found = convert.recordings(args.table, known, gaps, Part(args.start, args.end), args.max_mbps)
    reports = []
    for number, recording in enumerate(found, 1):
        path = out if len(found) == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")
        if path.exists() and path.samefile(args.table):
            raise ConfigError(f"{path}: is the table itself; name another file with --out")
        if path.suffix == ".json":
            steps = convert.write_steps(path, recording)
            text = f"wrote {path}: {steps} rates, {recording.duration_s:.1f} s, {recording.mean_mbps:.2f} Mbit/s"
            data = {"steps": steps, "duration_s": recording.duration_s, "mean_mbps": recording.mean_mbps}
        elif len(found) > 1 and recording.mean_mbps * recording.duration_s * 1e6 < PACKET_BITS:
            text = f"left out the session from line {recording.lines[0]}: it carries less than one packet"
            data = {"left_out_line": int(recording.lines[0])}
        else:
            one = convert.write_trace(path, recording, args.burstiness, args.seed)
            text, data = _in_short(path, one), one.to_dict()
            if path.stat().st_size > LARGEST_TRACE_BYTES:
                print(f"note: {path}: {TOO_LARGE}", file=sys.stderr)
        reports.append({"path": str(path), "format": known.name, **data})
        if not args.json:
            print(text + (f" (read as {known.name})" if args.format is args.rate is None else ""))
    if args.json:
        _print_json(reports[0] if len(found) == 1 else reports)
    return 0


TOO_LARGE = (
    f"above {LARGEST_TRACE_BYTES / 1e6:.0f} MB, which no scenario takes: write the rates with --out NAME.json, "
    "or a part with --from and --until"
)
TABLE_OPTIONS = (
    *("rate", "unit", "interval", "time", "time_unit", "time_format", "interval_s", "delimiter", "header"),
    *("keep", "drop", "gaps", "max_gap"),
)
"""Options of `convert` for reading tables."""


def _format(args: argparse.Namespace) -> formats.Format:
    """Returns the format in the options, else the format that the file looks like, else a table's."""
    if args.format is not None:
        return formats.find_format(args.format)
    found = None if args.rate is not None else formats.detect(args.table)
    return found or formats.FORMATS[0]


def _table(args: argparse.Namespace, table: Table) -> Table:
    """Returns a format's table, changed by the options."""
    changes: dict[str, Any] = {
        key: getattr(args, key)
        for key in ("unit", "time_unit", "time_format", "interval_s", "header")
        if getattr(args, key) is not None
    }
    for key in ("rate", "interval", "time"):
        if getattr(args, key) is not None:
            changes[key] = column_of(getattr(args, key))
    if args.unit is not None:
        changes["unit_column"] = None
    if args.interval is not None:
        refuse(args, ("time", "interval_s"), f"beside the column {args.interval} of each row's length")
        changes["time"] = None
    elif args.time is not None or args.interval_s is not None:
        changes["interval"] = None
        if args.time is None:
            changes["time"] = None
        else:
            changes.setdefault("time_unit", None)  # the format's was that of its intervals
    if args.interval_s is not None and not 0 < args.interval_s < float("inf"):
        raise ConfigError(f"--interval-s is {args.interval_s}; expected above 0")
    if args.delimiter is not None:
        changes["delimiter"] = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ","}.get(
            args.delimiter, args.delimiter
        )
        if len(changes["delimiter"]) != 1:
            raise ConfigError(f'--delimiter is "{args.delimiter}"; expected one character, tab or space')
    keep = tuple(Condition.of(text, "--keep") for text in args.keep)
    named = {condition.column for condition in keep}  # what the format keeps of other columns stays
    changes["keep"] = (*(condition for condition in table.keep if condition.column not in named), *keep)
    changes["drop"] = (*table.drop, *(Condition.of(text, "--drop") for text in args.drop))
    table = dataclasses.replace(table, **changes)
    if table.interval is None and table.time is None:
        refuse(args, ("time_unit",), "without --interval or --time")
    if table.time is None or table.interval is not None:
        refuse(args, ("time_format", "gaps", "max_gap"), "without --time")
    return table


def _fetch(args: argparse.Namespace) -> int:
    show = sys.stderr.isatty()

    def progress(entry: manifest.Entry, done: int) -> None:
        if show:
            print(f"\r\033[K{entry.set}/{entry.name}  {done / entry.bytes:4.0%}", end="", file=sys.stderr)

    done: list[fetch.Fetched] = []
    try:
        for name in manifest.sets() if args.set == "all" else [args.set]:
            done += fetch.fetch(name, args.to, args.source, progress=progress)
    finally:
        if show:
            print("\r\033[K", end="", file=sys.stderr)
    if args.json:
        _print_json([{"set": f.entry.set, "name": f.entry.name, "path": str(f.path), "action": f.action} for f in done])
        return 0
    print_table("fetched", ("file", "what"), [(str(f.path), f.action) for f in done], left=2)
    for licence in sorted({f"{f.entry.set}: {f.entry.licence}" for f in done}):
        print(f"licence of {licence}")
    return 0


def _traces(args: argparse.Namespace) -> dict[str, Iterable[NDArray[np.uint32]]]:
    """Returns the chosen traces, in chunks: files first, then presets of that name."""
    if not args.traces:
        found = files.available()
        if not found:
            where = ", ".join(str(folder) for folder in files.search_path())
            raise TraceError(f"no traces found in {where}; name a preset, or get some with `ccarena traces fetch`")
        refuse(args, GENERATOR, "on recorded traces; name a preset")
        return {name: files.chunks(path) for name, path in found.items()}
    known, problem = _presets()
    generated = [preset["name"] for preset in known]
    traces: dict[str, Iterable[NDArray[np.uint32]]] = {}
    recorded: list[str] = []
    for name in args.traces:
        try:
            file = files.find(name, generated)
        except TraceError as error:
            if name not in generated:
                raise TraceError(f"{error}{problem and f'; no presets: {problem}'}") from error
            traces[name] = [presets.generate(name, args.duration_s, args.seed, args.mean_mbps)]
        else:
            traces[name] = files.chunks(file)
            recorded.append(name)
    if len(recorded) == len(args.traces):
        refuse(args, GENERATOR, "on recorded traces; name a preset")
    return traces


def _presets() -> tuple[list[dict[str, Any]], str]:
    """Returns the presets, or the reason why there are none: recorded traces work without the extension."""
    try:
        return presets.all_presets(), ""
    except MissingDependencyError as error:
        return [], str(error)


def _entries(name: str) -> list[manifest.Entry]:
    return [entry for entry in manifest.manifest() if entry.set == name]


def _in_short(path: Path, one: stats.TraceStats) -> str:
    return f"wrote {path}: {one.opportunities} opportunities, {one.duration_s:.1f} s, {one.mean_mbps:.2f} Mbit/s"


def _report(args: argparse.Namespace, data: Any, text: str) -> None:
    if args.json:
        _print_json(data)
    else:
        print(text)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, allow_nan=False))
