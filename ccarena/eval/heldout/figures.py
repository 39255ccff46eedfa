"""`ccarena eval --record`: what a policy reached, and what others did, as entries of docs/measurements.json."""

from __future__ import annotations

from ccarena.core.measurements import Entry, Source
from ccarena.eval.heldout.expectations import Verdict
from ccarena.eval.heldout.worth import Trainings

__all__ = ["entries", "of_trainings"]

WORTH = "Learned policies beside the best rule without learning, on links that neither saw"


def entries(scheme: str, seed: int, verdict: Verdict, source: Source) -> list[Entry]:
    """Each expectation as a row; `scheme` trained with `seed`, CUBIC, no learning and a late oracle as columns.

    The comparison with the best rule without learning is a row of a table of its own, with all schemes' beside it.
    """
    out = []
    if verdict.worth is not None and verdict.worth.best is not None:
        worth = f"{verdict.worth.line} ({verdict.worth.links} links, {verdict.worth.seeds} seeds each)"
        name = f"learned/{scheme}/worth/seed-{seed}"
        out.append(Entry(name, "learned", f"{scheme}, training seed {seed}", worth, source, table=WORTH))
    for number, one in enumerate(verdict.expectations, start=1):
        if one.state == "not tested":
            continue
        columns = {
            f"seed {seed}": one.measured,
            "without learning": one.control,
            "CUBIC": one.baseline,
            "capacity known one RTT late": one.oracle,
        }
        for case, text in columns.items():
            if text:
                name = f"learned/{scheme}/{one.group}/{number}/{case}".replace(" ", "-")
                table = (
                    f"{scheme.upper() if scheme == 'acct' else scheme.capitalize()} on links that it was not trained on"
                )
                out.append(Entry(name, "learned", one.claim, text, source, target=one.target, table=table, case=case))
    return out


def of_trainings(trainings: Trainings, source: Source) -> list[Entry]:
    """Several trainings of a record together beside the best rule without learning, on all links and on each kind."""
    name = f"learned/{trainings.record}/worth"
    what = f"{trainings.record}, training seeds {', '.join(map(str, sorted(trainings.seeds)))}"
    entries = [Entry(name, "learned", what, trainings.line, source, table=WORTH)]
    for part in trainings.parts:
        ratios = f"throughput {part.throughput:.3g} ×, p95 signal delay {part.signal_delay_p95:.3g} × the rule's"
        on = f"{what}: links of the set `{part.link_set}`"
        entries.append(Entry(f"{name}/{part.link_set}", "learned", on, f"{part.said}; {ratios}", source, table=WORTH))
    return entries
