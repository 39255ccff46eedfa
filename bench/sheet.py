"""A sheet of figures: printed as they are measured, kept for docs/measurements.json."""

from __future__ import annotations

from ccarena.core.measurements import Entry, Ratio, Source, Target


class Sheet:
    """The figures of one run of the benchmarks, all from one source."""

    def __init__(self, source: Source) -> None:
        self.entries: list[Entry] = []
        self._source = source

    def add(
        self,
        name: str,
        what: str,
        value: float,
        unit: str = "",
        target: Target | None = None,
        ratio: Ratio | None = None,
        table: str = "",
        case: str = "",
    ) -> None:
        """Keeps one figure and prints it beside its target. The first part of `name` is its group."""
        entry = Entry(name, name.partition("/")[0], what, value, self._source, unit, target, ratio, table, case)
        self.entries.append(entry)
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
        beside = f"  {ratio.value:.2f} × {ratio.of}" if ratio else ""
        print(
            f"{', '.join(filter(None, (what, case))):<64} {shown:>12} {unit:<12}{_verdict(value, target)}{beside}",
            flush=True,
        )


def _verdict(value: float, target: Target | None) -> str:
    if target is None:
        return ""
    bounds = (("≥", target.at_least), ("≤", target.at_most))
    text = ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
    return f"(target {text}: {'reached' if target.met(value) else 'NOT reached'})"
