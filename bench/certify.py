"""`python -m bench.certify ENTRANT ...`: measures which share of the default properties' volume certificates decide.

Both forms of each policy are certified with the default budget of boxes. The figures go to docs/measurements.json;
`make measurements` writes them into the pages.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ccarena.core import measurements
from ccarena.core.measurements import Entry, Source
from ccarena.errors import CcarenaError
from ccarena.eval.certify.certificate import FORMS, Answer, certify, summary
from ccarena.eval.certify.defaults import default_properties
from ccarena.eval.certify.properties import read
from ccarena.policies import artifact
from ccarena.scenarios.entrants import find_policy

TABLE = "Certificates: share of the default properties' volume that is decided"


def entries(name: str, answers: Sequence[Answer], seconds: float, source: Source) -> list[Entry]:
    """Returns the figures of a policy for docs/measurements.json."""
    total = summary(answers)
    cells = {"all properties": f"{total['decided']:.2%} in {seconds:.0f} s of processor time"}
    for each in answers:
        if each.form == "float":
            cells[each.name] = f"{each.state}; {1 - each.undecided:.2%}"
    return [
        Entry(f"certify/{name}/{case.replace(' ', '-')}", "learned", case, value, source, table=TABLE, case=f"`{name}`")
        for case, value in cells.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Certifies and records. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.certify", description="Measure what certificates decide.")
    parser.add_argument("policies", nargs="*", default=["acct", "hyvar"], metavar="ENTRANT", help="(acct hyvar)")
    parser.add_argument("--record", type=Path, default=measurements.FILE, metavar="FILE", help="(%(default)s)")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="the day that is recorded (today)")
    args = parser.parse_args(arguments)
    source = measurements.source("python -m bench.certify", args.date)
    try:
        for given in args.policies:
            policy = artifact.load(find_policy(given))
            began = time.process_time()
            document = read(default_properties(policy), policy, "default properties")
            answers = [certify(prop, FORMS[form](policy)) for form in FORMS for prop in document.properties]
            found = entries(Path(given).name, answers, time.process_time() - began, source)
            measurements.merge(args.record, found)
            print(f"{given}\n" + "\n".join(f"  {entry.what:<32}{entry.value}" for entry in found), flush=True)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
