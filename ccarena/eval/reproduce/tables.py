"""Files of `ccarena reproduce` for each suite: a folder of results with a table of claims. `pages` writes docs/."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.plain_data import plain
from ccarena.errors import ConfigError
from ccarena.eval.reproduce.checks import Judged
from ccarena.eval.reproduce.suite import Loaded
from ccarena.scenarios.backends import BACKENDS, KERNEL, SIM

__all__ = [
    "backend_of",
    "beside_state",
    "cell",
    "claims_markdown",
    "command_of",
    "digest_of",
    "folder_of",
    "name_of",
    "print_suite",
    "quick_line",
    "read_folder",
    "remarks",
    "seeds_of",
    "technical",
    "write_suite",
]

CLAIMS = "claims.json"
UNSAID = {
    **{"headline": False, "aside": False, "discriminates": None, "under": "", "direction": False, "more": False},
    **{"at_bound": "", "required": "", "why": "", "seeds": 0, "labels": (), "intervals": ()},
}
"""Values that are left out of claims.json."""
HEAD = ("claim", "paper", "measured", "required", "holds?")


def folder_of(out: Path, name: str, backend: str = SIM) -> Path:
    """Returns the folder of results of the suite `PAPER/NAME`; another backend's is a folder within."""
    return out / name if backend == SIM else out / name / backend


def digest_of(loaded: Loaded, judged: Sequence[Judged], about: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a suite's claims.json.

    `about`: `quick`, `seeds`, `runs`, `failed` (a list of texts), `software`, `policies` (their provenance), `missing`
    (recorded traces that others replaced), and in real time `machine` (`kernel.about`).
    """
    suite = loaded.suite
    digest = {
        "suite": loaded.name,
        "title": suite.title,
        "paper": suite.paper,
        "summary": suite.summary,
        "conditions": suite.conditions,
        **about,
        **({"shorter": True} if about["quick"] and suite.scenario and suite.quick.constants else {}),
        "claims": [_entry(claim) for claim in judged],
    }
    return dict(plain(digest))


def write_suite(folder: Path, digest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes claims.json (`digest`, of `digest_of`), claims.md and rows.csv."""
    write_atomically(folder / CLAIMS, json.dumps(digest, indent=1, ensure_ascii=False) + "\n")
    write_atomically(folder / "claims.md", claims_markdown(digest))
    write_atomically(folder / "rows.csv", _csv(rows))


def _entry(claim: Judged) -> dict[str, Any]:
    return {key: value for key, value in asdict(claim).items() if key not in UNSAID or value != UNSAID[key]}


def claims_markdown(digest: Mapping[str, Any], level: int = 1) -> str:
    """Returns a suite's claims as Markdown: its conditions, the table, and a note for each claim that does not hold."""
    runs = f"{digest['runs']} runs, {seeds_of(digest)} per cell"
    lines = [f"{'#' * level} {name_of(digest)}: {digest['title']}", "", f"{digest['paper']}. {digest['summary']}", ""]
    if digest["quick"]:
        lines += [f"**{quick_line(digest)}.**", ""]
    if digest["conditions"]:
        lines += ["Conditions, and how they differ from the paper's:", ""]
        lines += [f"- {text}" for text in digest["conditions"]] + [""]
    if missing := digest.get("missing"):
        lines += [f"**Made-up capacity in the place of recorded traces that are not here: {', '.join(missing)}.**", ""]
    for text in technical(digest):
        lines += [text, ""]
    lines += [
        f"{runs}. `{command_of(digest)}`, software {digest['software']}.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|---" * len(HEAD) + "|",
    ]
    for claim in digest["claims"]:
        state = f"**{claim['state']}**{beside_state(claim)}"
        cells = [claim["claim"], claim["paper"], claim["measured"], claim.get("required", ""), state]
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    notes = _noted(digest["claims"])
    failed = [f"- FAILED: {text}" for text in digest["failed"]]
    return "\n".join([*lines, *([""] if notes or failed else []), *notes, *failed]) + "\n"


def quick_line(digest: Mapping[str, Any]) -> str:
    """Returns the warning above the results of a quick run. Notes of claims explain results of full runs."""
    runs = "few seeds and shorter runs" if digest.get("shorter") else "few seeds"
    return f"QUICK: {runs}, no basis for a conclusion; notes are about full runs"


def command_of(digest: Mapping[str, Any]) -> str:
    """Returns the command that repeats the suite."""
    backend = backend_of(digest)
    usual = f"ccarena reproduce {digest['suite']}" + (f" --backend {backend}" if backend != SIM else "")
    return str(digest.get("command", usual))


def seeds_of(digest: Mapping[str, Any]) -> str:
    """Returns the number of seeds in words, such as `10 to 40 seeds`."""
    most = digest["seeds"]
    least = min((claim["seeds"] for claim in digest["claims"] if claim.get("seeds")), default=most)
    return f"{f'{least} to ' if least < most else ''}{most} seed{'s' if most != 1 else ''}"


def beside_state(claim: Mapping[str, Any]) -> str:
    """Returns qualifications of a claim's state, in words that follow it."""
    words = [
        *(["and more"] if claim.get("more") else []),
        *(["not measured in the paper"] if claim.get("aside") else []),
        *([claim["under"]] if claim.get("under") else []),
        *(["holds or differs, whichever seeds are drawn"] if claim.get("direction") else []),
        *(
            [f"at the bound of the tolerance: {claim['at_bound']} in 95 % of the resamples"]
            if claim.get("at_bound")
            else []
        ),
        *(["does not discriminate: so it does with CUBIC"] if claim.get("discriminates") is False else []),
    ]
    return f" ({'; '.join(words)})" if words else ""


def technical(digest: Mapping[str, Any]) -> list[str]:
    """Returns sentences on the deciding policies, and on the machine's lateness."""
    lines = []
    for trained in digest.get("policies", []):
        links = " and ".join(trained["links"]) or "unknown"
        shipped = f"`{trained['shipped']}`, shipped, " if "shipped" in trained else ""
        lines.append(
            f"Policy of {trained['scheme']}: {shipped}configuration {trained['config']}, seed {trained['seed']}, "
            f"trained on {links} links; SHA-256 {trained['sha256'][:12]}."
        )
    if machine := digest.get("machine"):
        late_ms, bound_ms = machine["lateness_p99_ms"], machine["bound_ms"]
        late = "no run was on time" if late_ms is None else f"links were at most {late_ms:.2f} ms late (p99 of a run)"
        text = f"Linux {machine['kernel']}, in real time: {late}."
        if repeated := machine["repeated"]:
            runs_were = "1 run was" if repeated == 1 else f"{repeated} runs were"
            text += f" {runs_were} more than {bound_ms:g} ms late; late runs are repeated and not counted."
        if (answer_us := machine["answer_p99_us"]) is not None:
            text += f" User space answered within {answer_us / 1e3:.2f} ms (p99 of a run)."
            if machine["fallback_reports"]:
                text += (
                    f" {machine['fallback_reports']} reports came from flows that had waited too long for an answer "
                    "and ran the kernel's CUBIC meanwhile."
                )
        lines.append(text)
    return lines


def remarks(claims: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns the notes, each with its claims; a note that several share appears once."""
    about: dict[str, list[str]] = {}
    for claim in claims:
        why = claim.get("why") and f'the requirement is "{claim["required"]}" because {claim["why"]}'
        for text in (claim["differs_in"] and f"differs in that {claim['differs_in']}", claim["note"], why):
            if text:
                about.setdefault(text, []).append(claim["claim"])
    return about


def _noted(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns `remarks` as lines of a list."""
    lines = []
    for text, names in remarks(claims).items():
        if len(names) == 1:
            lines.append(f"- {names[0]}: {text}")
        else:
            lines += [f"- These {len(names)} claims: {text}", *(f"  - {name}" for name in names)]
    return lines


def print_suite(digest: Mapping[str, Any], files: Sequence[Path], policies: str = "") -> None:
    """Prints a suite's table of claims, its notes and the place of its files; `policies` name the deciding ones, if
    given.
    """
    from rich.console import Console

    from ccarena.core.terminal import print_table

    title = (
        f"{name_of(digest)} ({digest['paper']})"
        + (f"  with {policies}" if policies else "")
        + (f"  {quick_line(digest)}" if digest["quick"] else "")
    )
    rows = [
        [c["claim"], c["paper"], c["measured"], c.get("required", ""), c["state"] + beside_state(c)]
        for c in digest["claims"]
    ]
    print_table(title, HEAD, rows, left=len(HEAD))
    console = Console(highlight=False, soft_wrap=True)
    for note in _noted(digest["claims"]):
        console.print(f"  {note}", markup=False)
    for path in files:
        console.print(f"  {path}", markup=False)


def read_folder(folder: Path) -> dict[str, Any] | None:
    """Returns a suite's claims.json, None if it was never run. Raises ConfigError if the file is damaged."""
    path = folder / CLAIMS
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not the claims of a suite: {error}; delete it and run the suite again") from error


def name_of(digest: Mapping[str, Any]) -> str:
    """Returns `PAPER/NAME`, with the backend if it is not the simulator."""
    backend = backend_of(digest)
    return f"{digest['suite']}" + (f" {BACKENDS[backend].where}" if backend != SIM else "")


def backend_of(digest: Mapping[str, Any]) -> str:
    """Returns the backend of a suite's results."""
    machine = digest.get("machine")
    return str(machine.get("backend", KERNEL)) if machine else SIM


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a line per run, and one per flow of each run; empty where a measure is not that line's."""
    flat = []
    for row in rows:
        about = {**row["cell"], "seed": row["seed"]}
        flat.append({**about, "flow": "", **row["run"]})
        flat += [
            {**about, "flow": flow["name"], **{k: v for k, v in flow.items() if k != "name"}} for flow in row["flows"]
        ]
    names = list(dict.fromkeys(name for line in flat for name in line))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for line in flat:
        writer.writerow(_cell_csv(line.get(name)) for name in names)
    return out.getvalue()


def _cell_csv(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value


def cell(text: str) -> str:
    """Returns text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
