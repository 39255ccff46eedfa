"""The table of assessed entrants in docs/assess.md: `make assessments` runs what is missing.

The states are kept in docs/assessments.json; finished runs are kept in runs/assess-docs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.eval.assess.assessment import read

PAGE = Path(__file__).parents[1] / "assess.md"
KEPT = PAGE.with_name("assessments.json")
OUT = Path("runs", "assess-docs")
ENTRANTS = (
    *("cubic", "reno", "bbr", "bbr3", "copa", "vegas", "vivace", "ledbat", "pilot", "prague@ecn=accurate"),
    *("hercules", "wcc-ai", "wcc-md", "acct", "xcp", "abc", "hyvar"),
)
START, END = "<!-- assessed -->", "<!-- /assessed -->"


def markdown(kept: Iterable[Mapping[str, Any]]) -> str:
    """A row per entrant: how many criteria pass, fail and are undecided, and the questions in which one fails."""
    lines = ["| entrant | pass | fail | undecided | fails in |", "|---|---|---|---|---|"]
    for each in kept:
        count = each["states"]
        failed = ", ".join(each["fails"]) or "–"
        lines.append(f"| `{each['entrant']}` | {count['pass']} | {count['fail']} | {count['undecided']} | {failed} |")
    return "\n".join(lines)


def kept_of(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """What is kept of the assessments in folders."""
    out = []
    for folder in folders:
        found = read(folder)
        fails = [
            answer["question"]
            for answer in found["answers"]
            if any(row["state"] == "fail" for row in answer["criteria"])
        ]
        out.append({**{key: found[key] for key in ("entrant", "software", "states")}, "fails": fails})
    return out


def main() -> int:
    """Runs the assessments and writes the page and the kept states; returns the exit code."""
    command = [sys.executable, "-m", "ccarena_command", "assess", *ENTRANTS, "--out", str(OUT)]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        kept = kept_of(OUT / entrant for entrant in ENTRANTS)
        write_atomically(KEPT, json.dumps(kept, indent=1) + "\n")
        text = PAGE.read_text("utf-8")
        before, after = text.partition(START)[0], text.partition(END)[2]
        write_atomically(PAGE, f"{before}{START}\n{markdown(kept)}\n{END}{after}")
    return code


if __name__ == "__main__":
    sys.exit(main())
