"""Entries of docs/measurements.json for `ccarena eval --record`: figures of a policy and of others."""

from __future__ import annotations

from ccarena.core.measurements import Entry, Source
from ccarena.eval.heldout.expectations import Verdict
from ccarena.eval.heldout.gain import Trainings

__all__ = ["entries", "of_trainings"]

GAIN = "Learned policies beside the best rule without learning, on links that neither saw"


def entries(scheme: str, seed: int, verdict: Verdict, source: Source) -> list[Entry]:
    """Returns each expectation as a row; columns are `scheme` trained with `seed`, CUBIC, no learning and a late
    oracle.

    The comparison with the best rule without learning is a row of a separate table, shared by all schemes.
    """
    out = []
    if verdict.gain is not None and verdict.gain.best is not None:
        gain = f"{verdict.simple_rule.sentence} ({verdict.gain.links} links, {verdict.gain.seeds} seeds each)"
        name = f"learned/{scheme}/gain/seed-{seed}"
        out.append(Entry(name, "learned", f"{scheme}, training seed {seed}", gain, source, table=GAIN))
    for number, one in enumerate(verdict.expectations, start=1):
        if one.state == "not tested":
            continue
        columns = {
            f"seed {seed}": one.measured,
            "without learning": one.constant,
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
    """Returns entries of several trainings of a configuration beside the best rule, on all links and on each kind."""
    name = f"learned/{trainings.config}/gain"
    what = f"{trainings.config}, training seeds {', '.join(map(str, sorted(trainings.seeds)))}"
    entries = [Entry(name, "learned", what, trainings.line, source, table=GAIN)]
    for part in trainings.parts:
        ratios = f"throughput {part.throughput:.3g} ×, p95 signal delay {part.signal_delay_p95:.3g} × the rule's"
        on = f"{what}: links of the set `{part.link_set}`"
        entries.append(Entry(f"{name}/{part.link_set}", "learned", on, f"{part.said}; {ratios}", source, table=GAIN))
    return entries
