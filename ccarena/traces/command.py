"""`ccarena traces`: lists, describes, generates, converts, fetches and checks traces."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.arguments import Unused, refuse
from ccarena.errors import ConfigError, MissingDependencyError, TraceError
from ccarena.outputs import Output, folder
from ccarena.terminal import command_line, print_table
from ccarena.traces import convert, fetch, files, manifest, plot, presets, stats

__all__ = ["add_parser", "run"]


UNUSED = (Unused(("seed",), lambda args: args.action == "convert" and args.burstiness == 0, "without --burstiness"),)


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
    sub.add_argument("--window-ms", type=int, default=100, help="averaging window (%(default)s)")

    sub = action("generate", "draw a synthetic cellular trace from a preset")
    sub.add_argument("preset", help="a name that `ccarena traces list` shows")
    _add_generator(sub)
    sub.add_argument("--out", type=Output(), help="default PRESET-SEED.trace")

    sub = action("convert", "turn a table of rates into a trace")
    sub.add_argument("table", type=Path, help="CSV, TSV or white-space separated file")
    sub.add_argument("--out", type=Output(), help="default: the table's name with .trace")
    formats = "; ".join(f"{known.name}: {known.summary}" for known in convert.FORMATS)
    sub.add_argument("--format", default="mbps-csv", help=f"the starting point for the options below ({formats})")
    sub.add_argument("--rate", metavar="COLUMN", help="column of the rate: header name, or number from 0")
    sub.add_argument("--unit", choices=("bps", "kbps", "mbps", "gbps", "bytes"), help="of the rate; bytes: per row")
    sub.add_argument("--interval", metavar="COLUMN", help="column of each row's length")
    sub.add_argument("--time", metavar="COLUMN", help="column of each row's start")
    sub.add_argument("--time-unit", choices=("s", "ms"), help="of --interval and --time")
    sub.add_argument("--interval-s", type=float, help="length of all rows, without such columns")
    sub.add_argument("--delimiter", help="default comma; tab; space for any white space")
    sub.add_argument("--header", action=argparse.BooleanOptionalAction, default=None, help="the first row has names")
    sub.add_argument("--keep", metavar="COLUMN=VALUE", help="leave out all other rows, time included")
    sub.add_argument("--burstiness", type=float, default=0.0, help="CV of the rate within a row (%(default)s: even)")
    sub.add_argument("--seed", type=int, default=0, help="of --burstiness (%(default)s)")

    sub = action("fetch", "download a public set, checked and resumable")
    sub.add_argument("set", nargs="?", help=f"one of {', '.join(manifest.sets())}, or all (default)", default="all")
    sub.add_argument("--from", dest="source", type=Path, metavar="DIR", help="copy from here instead of downloading")
    sub.add_argument("--to", type=folder, metavar="DIR", help=f"default {files.data_dir()}")


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
"""Options of a generated trace alone."""


def _add_generator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--duration-s", type=float, default=300.0, help="length of a generated trace (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of a generated trace (%(default)s)")
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
    described = {name: stats.describe(times, name) for name, times in _traces(args).items()}
    if args.json:
        _print_json({name: one.to_dict() for name, one in described.items()})
        return 0
    print_table("traces", stats.HEAD, [stats.cells(name, one) for name, one in described.items()], left=1)
    return 0


def _validate(args: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    for trace in args.traces:
        try:
            times = files.load(trace)
            rows.append({"trace": trace, "valid": True, "opportunities": times.size, "duration_ms": int(times[-1])})
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
    path = plot.plot(_traces(args), args.out, args.window_ms, [command_line(args)])
    _report(args, {"path": str(path)}, f"wrote {path}")
    return 0


def _generate(args: argparse.Namespace) -> int:
    times = presets.generate(args.preset, args.duration_s, args.seed, args.mean_mbps)
    path = files.save(args.out or Path(f"{args.preset}-{args.seed}.trace"), times)
    _report_trace(args, path, times)
    return 0


def _convert(args: argparse.Namespace) -> int:
    table = convert.find_format(args.format)
    changes: dict[str, Any] = {
        key: getattr(args, key)
        for key in ("unit", "time_unit", "interval_s", "header")
        if getattr(args, key) is not None
    }
    for key in ("rate", "interval", "time"):
        if getattr(args, key) is not None:
            changes[key] = _column(getattr(args, key))
    if args.unit is not None:
        changes["unit_column"] = None
    if args.interval_s is not None and not 0 < args.interval_s < float("inf"):
        raise ConfigError(f"--interval-s is {args.interval_s}; expected above 0")
    if args.delimiter is not None:
        changes["delimiter"] = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ","}.get(
            args.delimiter, args.delimiter
        )
        if len(changes["delimiter"]) != 1:
            raise ConfigError(f'--delimiter is "{args.delimiter}"; expected one character, tab or space')
    if args.keep is not None:
        column, equals, value = args.keep.partition("=")
        if not equals:
            raise ConfigError(f'--keep is "{args.keep}"; expected COLUMN=VALUE')
        changes["keep"] = (_column(column), value)
    table = dataclasses.replace(table, **changes)
    if table.interval is not None:
        refuse(args, ("time", "interval_s"), f"beside the column {table.interval} of each row's length")
    elif table.time is None:
        refuse(args, ("time_unit",), "without --interval or --time")
    times = convert.convert(args.table, table, burstiness=args.burstiness, seed=args.seed)
    out = args.out or args.table.with_suffix(".trace")
    if out.exists() and out.samefile(args.table):
        raise ConfigError(f"{out}: is the table itself; name another file with --out")
    path = files.save(out, times)
    _report_trace(args, path, times)
    return 0


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


def _traces(args: argparse.Namespace) -> dict[str, NDArray[np.uint32]]:
    """The traces asked for: files first, then presets of that name."""
    if not args.traces:
        found = files.available()
        if not found:
            where = ", ".join(str(folder) for folder in files.search_path())
            raise TraceError(f"no traces found in {where}; name a preset, or get some with `ccarena traces fetch`")
        refuse(args, GENERATOR, "on recorded traces; name a preset")
        return {name: files.load(path) for name, path in found.items()}
    known, problem = _presets()
    generated = [preset["name"] for preset in known]
    traces: dict[str, NDArray[np.uint32]] = {}
    recorded: list[str] = []
    for name in args.traces:
        try:
            file = files.find(name, generated)
        except TraceError as error:
            if name not in generated:
                raise TraceError(f"{error}{problem and f'; presets are out of reach: {problem}'}") from error
            traces[name] = presets.generate(name, args.duration_s, args.seed, args.mean_mbps)
        else:
            traces[name] = files.load(file)
            recorded.append(name)
    if len(recorded) == len(args.traces):
        refuse(args, GENERATOR, "on recorded traces; name a preset")
    return traces


def _presets() -> tuple[list[dict[str, Any]], str]:
    """The presets, and why there are none if the extension is missing: recorded traces work without it."""
    try:
        return presets.all_presets(), ""
    except MissingDependencyError as error:
        return [], str(error)


def _entries(name: str) -> list[manifest.Entry]:
    return [entry for entry in manifest.manifest() if entry.set == name]


def _column(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def _report_trace(args: argparse.Namespace, path: Path, times: NDArray[np.uint32]) -> None:
    one = stats.describe(times, str(path))
    text = f"wrote {path}: {one.opportunities} opportunities, {one.duration_s:.1f} s, {one.mean_mbps:.2f} Mbit/s"
    _report(args, {"path": str(path), **one.to_dict()}, text)


def _report(args: argparse.Namespace, data: Any, text: str) -> None:
    if args.json:
        _print_json(data)
    else:
        print(text)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, allow_nan=False))
