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
from ccarena.core.seeds import check_seed
from ccarena.core.terminal import command_line, heartbeat, print_table
from ccarena.errors import ConfigError, MissingDependencyError, TraceError, did_you_mean
from ccarena.traces import (
    compare,
    conditions,
    conditions_page,
    convert,
    fetch_sets,
    files,
    formats,
    manifest,
    models,
    plot,
    presets,
    public_sets,
    replays,
    stats,
)
from ccarena.traces.clock import UNITS as TIME_UNITS
from ccarena.traces.opportunities import PACKET_BITS
from ccarena.traces.recorded import find_trace
from ccarena.traces.recording import GAPS, MAX_MBPS, Gaps, Part, Recording
from ccarena.traces.tables import LOSS_UNITS, UNITS, Condition, Table, column_of

__all__ = ["add_parser", "run"]


def _writes_steps(args: argparse.Namespace) -> bool:
    return args.action == "convert" and args.out is not None and args.out.suffix in (".json", ".csv")


UNUSED = (
    Unused(("seed",), lambda args: args.action == "convert" and args.burstiness == 0, "without --burstiness"),
    Unused(("burstiness", "seed"), _writes_steps, "on rates (--out NAME.json or NAME.csv)"),
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

    sub = action("stats", "describe traces: rate, variability, autocorrelation, outages; delay and loss of conditions")
    _add_traces(sub)

    sub = action("validate", "check that files are traces; exit code 3 if one is not")
    sub.add_argument("traces", nargs="+", metavar="TRACE", help="name or path")

    sub = action("plot", "draw capacity over time and its distribution; delay and loss of conditions traces")
    _add_traces(sub)
    sub.add_argument(
        "--out", type=Output(".html"), default=Path("trace.html"), help=".html, .svg, .png or .pdf (%(default)s)"
    )
    sub.add_argument(
        "--window-ms", type=int, help=f"averaging window (100, or more for more than {plot.MOST_WINDOWS} windows)"
    )

    sub = action("generate", "draw a trace from a cellular preset, or a conditions trace from a link model")
    sub.add_argument("preset", help="preset or link model from `ccarena traces list`")
    _add_generator(sub)
    sub.add_argument("--out", type=Output(), help="file to write (PRESET-SEED.trace, or MODEL-SEED.csv)")

    sub = action("compare", "compare a link model with measured tables: rate, memory, outages, delay, loss")
    sub.add_argument("model", help="link model from `ccarena traces list`")
    sub.add_argument("tables", nargs="+", type=Path, metavar="TABLE", help="table of a measurement, as `convert` takes")
    sub.add_argument(
        "--sessions",
        choices=tuple(SESSIONS),
        default="all",
        help="sessions of each table (%(default)s); others: kept apart",
    )
    _add_columns(sub)

    sub = action("convert", "turn a table of rates, or another tool's log or trace, into a trace")
    _add_convert(sub)

    sub = action("fetch", "download a public set, checked and resumable, and convert it")
    sub.add_argument(
        "set", nargs="?", help=f"one of {', '.join(public_sets.set_names())}, or all of traces (default)", default="all"
    )
    sub.add_argument("--from", dest="source", type=Path, metavar="DIR", help="copy from here instead of downloading")
    sub.add_argument("--to", type=folder, metavar="DIR", help=f"default {files.data_dir()}")


def _add_convert(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "table",
        type=Path,
        help="CSV, TSV or white-space separated file, a file in a --format, or a folder of LeoCC or CellReplay",
    )
    sub.add_argument(
        "--out",
        type=Output(),
        help="default: the table's name with .trace, or .conditions.csv for delays and losses; NAME.json takes the "
        "rates, as a service of steps, NAME.csv a conditions trace",
    )
    sub.add_argument(
        "--from", dest="start", default="", metavar="TIME", help="start of the part, in seconds or as in --time"
    )
    sub.add_argument("--until", dest="end", default="", metavar="TIME", help="end of the part, as --from")
    sub.add_argument(
        "--max-mbps", type=float, default=MAX_MBPS, help="refuse rates above this, as faults (%(default)g)"
    )
    sub.add_argument("--burstiness", type=float, default=0.0, help="CV of the rate within a row (%(default)s: even)")
    sub.add_argument("--seed", type=int, default=0, help="seed of --burstiness (%(default)s)")
    _add_columns(sub)
    gaps = "; ".join(f"{name}: {what}" for name, what in GAPS.items())
    sub.add_argument("--gaps", choices=tuple(GAPS), default="refuse", help=f"treatment of gaps in --time ({gaps})")


def _add_columns(sub: argparse.ArgumentParser) -> None:
    """Adds the options that say how to read a table."""
    known = "; ".join(f"{known.name}: {known.summary}" for known in formats.FORMATS)
    sub.add_argument("--format", help=f"format of the file, if it is not recognised ({known})")
    tables = sub.add_argument_group("tables", "these override what the format says")
    tables.add_argument("--rate", metavar="COLUMN", help="column of the rate: header name, or number from 0")
    tables.add_argument("--unit", choices=(*UNITS, "bytes"), help="unit of the rate; bytes: per row")
    tables.add_argument("--delay", metavar="COLUMN", help="column of the one-way delay")
    tables.add_argument("--rtt", metavar="COLUMN", help="column of round-trip times, half of which is the delay")
    tables.add_argument("--delay-unit", choices=tuple(TIME_UNITS), help="unit of --delay or --rtt (ms)")
    tables.add_argument("--loss", metavar="COLUMN", help="column of the loss")
    tables.add_argument("--loss-unit", choices=tuple(LOSS_UNITS), help="unit of --loss: share (0 to 1) or percent")
    tables.add_argument(
        "--fill", action="store_true", help="a delay or loss that is no number takes the value before it"
    )
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
        "compare": _compare,
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
    drawn = [] if problem else models.all_models()
    if args.json:
        _print_json(
            {
                "traces": [{"name": name, "path": str(path)} for name, path in found.items()],
                "presets": generated,
                "models": drawn,
                "sets": {known.name: dataclasses.asdict(known) for known in public_sets.catalogue()},
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
    shown = [
        (m["name"], m["family"], m["summary"], f"{m['mean_mbps']:.0f}", f"{m['base_delay_ms'][0]:g}") for m in drawn
    ]
    print_table("link models", ("name", "family", "what", "Mbit/s", "least delay, ms"), shown, left=3)
    print()
    rows = []
    for known in public_sets.catalogue():
        size = "by hand" if known.by_hand else "?" if known.bytes is None else f"{known.bytes / 1e6:.1f}"
        rows.append((known.name, known.content, known.licence, size))
    print_table("public sets (ccarena traces fetch SET)", ("set", "what", "licence", "MB"), rows, left=3)
    return 0


def _stats(args: argparse.Namespace) -> int:
    if known := _conditions(args):
        about = {name: conditions_page.describe(trace) for name, trace in known.items()}
        if args.json:
            _print_json(about)
            return 0
        rows = [row for name, one in about.items() for row in conditions_page.cells(name, one)]
        print_table("conditions traces", conditions_page.HEAD, rows, left=1)
        return 0
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
            if (file := _conditions_file(trace)) is not None:
                period_ms = conditions.load(file).period_ms
                rows.append({"trace": trace, "valid": True, "conditions": True, "duration_ms": period_ms})
                continue
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
            good = ""
            if row["valid"]:
                what = "conditions" if "conditions" in row else f"{row['opportunities']} opportunities"
                length = "for ever" if row["duration_ms"] is None else f"in {row['duration_ms']:g} ms"
                good = f"{row['trace']}: valid, {what} {length}"
            print(good or f"error: {row['error']}", file=sys.stdout if row["valid"] else sys.stderr)
    return 0 if all(row["valid"] for row in rows) else TraceError.exit_code


def _plot(args: argparse.Namespace) -> int:
    if known := _conditions(args):
        refuse(args, ("window_ms",), "on conditions traces, which are drawn as they are")
        path = conditions_page.plot(known, args.out, [command_line(args)])
        _report(args, {"path": str(path)}, f"wrote {path}")
        return 0
    traces = {name: np.concatenate(list(chunks)) for name, chunks in _traces(args).items()}
    path = plot.plot(traces, args.out, args.window_ms, [command_line(args)])
    _report(args, {"path": str(path)}, f"wrote {path}")
    return 0


def _generate(args: argparse.Namespace) -> int:
    known_models = [known["name"] for known in models.all_models()]
    if args.preset in known_models:
        return _generate_conditions(args)
    known_presets = [known["name"] for known in presets.all_presets()]
    if args.preset not in known_presets:
        nearest = did_you_mean(args.preset, [*known_presets, *known_models])
        raise ConfigError(f'unknown cellular preset or link model "{args.preset}"{nearest}')
    times = presets.generate(args.preset, args.duration_s, args.seed, args.mean_mbps)
    path = files.save(args.out or Path(f"{args.preset}-{args.seed}.trace"), times)
    one = stats.describe(times, str(path))
    _report(args, {"path": str(path), **one.to_dict()}, _in_short(path, one))
    return 0


def _generate_conditions(args: argparse.Namespace) -> int:
    rows = models.draw(args.preset, args.duration_s, args.seed, args.mean_mbps)
    path = models.write(args.out or Path(f"{args.preset}-{args.seed}.csv"), rows)
    figures = {
        "rows": len(rows),
        "duration_s": (rows[-1, 0] + rows[1, 0]) / 1000,
        "mean_mbps": float(rows[:, 1].mean()),
        "delay_ms": [float(rows[:, 2].min()), float(np.median(rows[:, 2])), float(rows[:, 2].max())],
        "mean_loss": float(rows[:, 3].mean()),
    }
    text = (
        f"wrote {path}: {len(rows)} rows, {figures['duration_s']:.1f} s, {figures['mean_mbps']:.2f} Mbit/s, "
        "delay {:.1f} to {:.1f} ms".format(*np.percentile(rows[:, 2], (5, 95)))
    )
    _report(args, {"path": str(path), **figures}, text)
    return 0


SESSIONS = {"all": slice(None), "odd": slice(0, None, 2), "even": slice(1, None, 2)}
"""Sessions of a table: all of them, the first, third, ... or the second, fourth, ..."""


def _compare(args: argparse.Namespace) -> int:
    sessions = []
    for table in args.tables:
        found = convert.recordings(table, _reader(args, table), Gaps("split", args.max_gap))
        sessions += [
            compare.session(one.spans_s, one.rates_mbps, one.beside.get("delay_ms"), one.beside.get("loss"))
            for one in found[SESSIONS[args.sessions]]
        ]
    result = compare.compare(args.model, sessions)
    if args.json:
        _print_json(dataclasses.asdict(result))
        return 0
    rows = [
        (
            f.name,
            f.unit,
            f"{f.table:.3g}",
            f"{f.median:.3g}",
            f"{f.low:.3g}",
            f"{f.high:.3g}",
            "yes" if f.agrees else "no",
        )
        for f in result.figures
    ]
    head = ("figure", "unit", "table", "model", "p5", "p95", "agrees")
    print_table(f"{args.model} and {result.sessions} sessions, {result.duration_s:.0f} s", head, rows, left=2)
    print(
        f"{result.agreeing} of {len(rows)} figures of the tables lie between the 5th and 95th percentile of "
        f"{compare.DRAWS} draws of the model; distance of the rates' distributions {result.distance:.2f}"
    )
    return 0


def _convert(args: argparse.Namespace) -> int:
    if args.table.is_dir():
        return _convert_folder(args)
    known = _reader(args, args.table)
    if not 0 < args.max_mbps < float("inf"):
        raise ConfigError(f"--max-mbps is {args.max_mbps}; expected above 0")
    if not 1 <= args.max_gap < float("inf"):
        raise ConfigError(f"--max-gap is {args.max_gap}; expected 1 or more median intervals")
    check_seed(args.seed, "--seed")
    gaps = Gaps(args.gaps, args.max_gap)
    found = convert.recordings(args.table, known, gaps, Part(args.start, args.end), args.max_mbps)
    out = args.out or args.table.with_suffix(".conditions.csv" if found[0].beside else ".trace")
    if found[0].beside and out.suffix != ".csv":
        raise ConfigError(f"--out is {out}; a trace has no delays and losses: expected NAME.csv, a conditions trace")
    reports = []
    for number, recording in enumerate(found, 1):
        path = out if len(found) == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")
        if path.exists() and path.samefile(args.table):
            raise ConfigError(f"{path}: is the table itself; name another file with --out")
        if path.suffix == ".csv":
            text, data = _write_conditions(path, recording)
        elif path.suffix == ".json":
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


def _convert_folder(args: argparse.Namespace) -> int:
    refuse(args, (*TABLE_OPTIONS, *OF_FILES), "on the folder of another tool, whose files say it")
    out = args.out or args.table.with_name(f"{args.table.resolve().name}.conditions.csv")
    if out.suffix != ".csv":
        raise ConfigError(f"--out is {out}; expected NAME.csv, a conditions trace, from a folder with delays")
    reports = []
    for name, recording in replays.in_folder(args.table).items():
        path = out.with_name(f"{out.stem}.{name}{out.suffix}" if name else out.name)
        text, data = _write_conditions(path, recording.check())
        reports.append({"path": str(path), **data})
        if not args.json:
            print(text)
    if args.json:
        _print_json(reports[0] if len(reports) == 1 else reports)
    return 0


def _write_conditions(path: Path, recording: Recording) -> tuple[str, dict[str, Any]]:
    rows = convert.write_conditions(path, recording)
    columns = [*(["rate_mbps"] if recording.has_rates else []), *recording.beside]
    text = f"wrote {path}: {rows} rows of {', '.join(columns)}, {recording.duration_s:.1f} s"
    return text, {"rows": rows, "columns": columns, "duration_s": recording.duration_s}


TOO_LARGE = (
    f"above {LARGEST_TRACE_BYTES / 1e6:.0f} MB, which no scenario takes: write the rates with --out NAME.json, "
    "or a part with --from and --until"
)
TABLE_OPTIONS = (
    *("rate", "unit", "interval", "time", "time_unit", "time_format", "interval_s", "delimiter", "header"),
    *("delay", "rtt", "delay_unit", "loss", "loss_unit", "fill"),
    *("keep", "drop", "gaps", "max_gap"),
)
"""Options of `convert` for reading tables."""
OF_FILES = ("format", "start", "end", "max_mbps", "burstiness", "seed")
"""Options of `convert` for one file."""


def _reader(args: argparse.Namespace, path: Path) -> formats.Format:
    """Returns the format in the options, else the format that the file looks like, else a table's, as the options
    change it.

    A table of which only delays or losses are named has no rates.
    """
    if args.format is not None:
        known = formats.find_format(args.format)
    else:
        found = None if args.rate is not None else formats.detect(path)
        beside = any(getattr(args, name) is not None for name in ("delay", "rtt", "loss"))
        alone = found is None and args.rate is None and beside
        known = formats.Format("table", "", Table(None)) if alone else found or formats.FORMATS[0]
    if isinstance(known.source, Table):
        return dataclasses.replace(known, source=_table(args, known.source))
    refuse(args, TABLE_OPTIONS, f"on a file of the format {known.name}")
    return known


def _table(args: argparse.Namespace, table: Table) -> Table:
    """Returns a format's table, changed by the options."""
    changes: dict[str, Any] = {
        key: getattr(args, key)
        for key in ("unit", "delay_unit", "loss_unit", "time_unit", "time_format", "interval_s", "header")
        if getattr(args, key) is not None
    }
    for key in ("rate", "delay", "rtt", "loss", "interval", "time"):
        if getattr(args, key) is not None:
            changes[key] = column_of(getattr(args, key))
    if args.delay is not None:
        refuse(args, ("rtt",), f"beside the column {args.delay} of the delay")
    if args.delay is args.rtt is None:
        refuse(args, ("delay_unit",), "without --delay or --rtt")
    if args.loss is None:
        refuse(args, ("loss_unit",), "without --loss")
    if args.delay is args.rtt is args.loss is None:
        refuse(args, ("fill",), "without --delay, --rtt or --loss")
    changes["fill"] = args.fill
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

    def progress(entry: manifest.RemoteFile, done: int) -> None:
        if show:
            size = f"{done / entry.bytes:4.0%}" if entry.bytes else f"{done / 1e6:.1f} MB"
            print(f"\r\033[K{entry.set}/{entry.name}  {size}", end="", file=sys.stderr)

    done: list[fetch_sets.FetchedSet] = []
    try:
        for name in manifest.sets() if args.set == "all" else [args.set]:
            done.append(fetch_sets.fetch_set(name, args.to, args.source, progress=progress))
    finally:
        if show:
            print("\r\033[K", end="", file=sys.stderr)
    got = [file for each in done for file in each.files]
    made = [path for each in done for path in each.converted]
    if args.json:
        rows = [{"set": f.entry.set, "name": f.entry.name, "path": str(f.path), "action": f.action} for f in got]
        _print_json([*rows, *({"path": str(path), "action": "converted"} for path in made)])
        return 0
    print_table("fetched", ("file", "what"), [(str(f.path), f.action) for f in got], left=2)
    for each in done:
        if each.converted:
            skipped = f", {len(each.skipped)} empty recordings left out" if each.skipped else ""
            print(f"converted: {len(each.converted)} recordings in {each.folder}{skipped}")
        if each.set.by_hand:
            print(f"by hand: {each.set.by_hand}; `ccarena traces fetch {each.set.name} --from DIR` converts them")
        print(f"licence of {each.set.name}: {each.set.licence}")
    return 0


def _conditions(args: argparse.Namespace) -> dict[str, conditions.Conditions]:
    """Returns the conditions traces, if those are what the command is about. Raises ConfigError for a mixture."""
    found = {name: file for name in args.traces if (file := _conditions_file(name)) is not None}
    if found and len(found) < len(args.traces):
        other = next(name for name in args.traces if name not in found)
        raise ConfigError(f"{other} is no conditions trace and {next(iter(found))} is; expected one kind at a time")
    if found:
        refuse(args, GENERATOR, "on recorded traces; name a preset")
    return {name: conditions.load(file) for name, file in found.items()}


def _conditions_file(name: str) -> Path | None:
    file = find_trace(name)
    return file if file is not None and conditions.is_conditions(file) else None


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


def _in_short(path: Path, one: stats.TraceStats) -> str:
    return f"wrote {path}: {one.opportunities} opportunities, {one.duration_s:.1f} s, {one.mean_mbps:.2f} Mbit/s"


def _report(args: argparse.Namespace, data: Any, text: str) -> None:
    if args.json:
        _print_json(data)
    else:
        print(text)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, allow_nan=False))
