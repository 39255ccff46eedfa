"""Command `ccarena fit`: a scenario of the path that runs were measured on, and how far the simulator then is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena.core.files import check_file, write_atomically
from ccarena.core.outputs import Output
from ccarena.core.plain_data import plain
from ccarena.core.terminal import command_line, print_table
from ccarena.errors import ConfigError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("fit", **kwargs)
    parser.add_argument("runs", type=Path, metavar="DIR", help="folder that `ccarena remote run --out DIR` wrote")
    parser.add_argument("--out", type=Output(".yaml"), metavar="FILE.yaml", help="scenario to write (DIR/fitted.yaml)")
    parser.add_argument(
        "--json", type=Output(), metavar="FILE", help="write the fit, and every flow's figures measured and simulated"
    )


def run(args: argparse.Namespace) -> int:
    """Fits, writes the scenario, simulates the runs on it and prints the difference."""
    from ccarena.remote.distance import distances, summary
    from ccarena.remote.fit import fit, is_exact, scenario_of
    from ccarena.remote.records import load_folder
    from ccarena.remote.run import AXIS, DIRECTION

    every = load_folder(args.runs)
    out = args.out if args.out is not None else args.runs / "fitted.yaml"
    for path in (out, args.json):
        if path is not None:
            check_file(path)
    runs = [(each, given) for each, given in every if is_exact(each)]
    without = "runs with flows of the kernel's TCP, whose packets have no times of their own"
    if not runs:
        raise ConfigError(
            f"{args.runs}: holds {without}, and no others; measure with an entrant over QUIC, such as cubic"
        )
    fitted = fit([each for each, _ in runs])
    first, given = runs[0]
    document = scenario_of(fitted, given)
    whose = first.axes.get(AXIS)
    flows = [f"flows: those of the run with {whose}"] if whose else []
    flows += (
        ["direction: reverse, from the other machine to this one"] if first.axes.get(DIRECTION) == "reverse" else []
    )
    write_atomically(out, _yaml(document, [command_line(args), *fitted.sentences(), *flows]))
    rows = distances(fitted, runs)
    if args.json is not None:
        result = {"fit": vars(fitted), "scenario": document, "figures": rows}
        write_atomically(args.json, json.dumps(plain(result), indent=1) + "\n")
    for sentence in [*fitted.sentences(), *flows]:
        print(sentence)
    print_table("measured and simulated on the fitted link", *_table(rows), left=3)
    for line in summary(rows):
        print(line)
    if len(runs) < len(every):
        print(f"left out: {len(every) - len(runs)} {without}")
    print(f"wrote {out}")
    return 0


def _table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    from ccarena.eval.measure.figure_text import heading, show
    from ccarena.remote.distance import FIGURES

    head = ["run", "flow", "scheme"]
    for figure in FIGURES:
        head += [f"{heading(figure)}, measured", "simulated"]
    cells: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        key = (str(row["run"]), row["flow"], row["scheme"])
        cells.setdefault(key, []).extend(show(row["figure"], row[of]) for of in ("measured", "simulated"))
    return head, [[*key, *values] for key, values in cells.items()]


def _yaml(document: dict[str, Any], comments: list[str]) -> str:
    import yaml

    head = "".join(f"# {line}\n" for line in comments)
    return head + str(yaml.safe_dump(plain(document), sort_keys=False, allow_unicode=True))
