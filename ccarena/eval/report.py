"""The report of a run: one HTML page that needs no network, and the same in short for the terminal."""

from __future__ import annotations

import html
import json
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.eval.backends import SIM
from ccarena.eval.evaluate import ACCT, ORACLE, Evaluation, Progress, write_atomically
from ccarena.eval.expectations import Verdict
from ccarena.eval.metrics import FIGURES, confidence_interval, jain_index

__all__ = [
    "digest",
    "print_summary",
    "progress_bar",
    "read_progress",
    "repeat_commands",
    "summary_table",
    "write_report",
]

SUMMARY = (
    "utilisation",
    "throughput_mbps",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "share_within_budget",
    "share_within_5_packets",
    "loss_share",
)
DETAIL = (*SUMMARY, "signal_delay_p95_ms", "self_inflicted_delay_ms", "power", "goodput_mbps", "queueing_delay_p99_ms")


def write_report(
    path: Path,
    result: Evaluation,
    verdict: Verdict,
    *,
    name: str,
    progress: Sequence[Mapping[str, Any]] = (),
    config: str = "",
    repeat: Sequence[str] = (),
) -> None:
    """Write the page to `path`, atomically.

    `progress` are the lines of `progress.jsonl`, `config` is the effective configuration as YAML, and `repeat` the
    commands that give the same figures again. Raises MissingDependencyError without plotly.
    """
    try:
        import plotly.io as pio
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "train", "the report") from error
    from ccarena.eval import plots

    drawn: list[str] = []

    def figure(fig: Any, label: str) -> str:
        drawn.append(label)
        body = pio.to_html(
            fig,
            full_html=False,
            include_plotlyjs=False,
            div_id=f"figure-{len(drawn)}",
            config={"displayModeBar": False, "responsive": True},
        )
        return f'<div class="figure" role="img" aria-label="{html.escape(label)}">{body}</div>'

    parts = [_verdict_section(verdict), _expectation_table(verdict), _summary_section(result)]
    if progress:
        parts.append(
            _section(
                "How it learned",
                "The mean reward of a decision should rise, the policy's entropy fall as it makes up its mind, and "
                "decisions should move from the red zone (too much queue) to the yellow one (link full, queue short)."
                if any("entropy" in row for row in progress)
                else "The mean reward of a decision should rise.",
                figure(plots.learning_curve(progress), "learning curve"),
            )
        )
    if any(ACCT in by for by in result.actions.values()):
        parts.append(
            _section(
                "What it does",
                "ACCT's window grows by α packets per round trip; the policy chooses α once per window. A large "
                "α makes sense in the green zone (capacity is free), a small one elsewhere.",
                figure(plots.action_map(result), "actions by zone")
                + "<p>Share of decisions in each zone, beside ACCT with the same α always:</p>"
                + figure(plots.zone_shares(result), "zone shares"),
            )
        )
    for series in result.series:
        title = f"Over time: {series['group']} ({series['link']})"
        about = (
            f"Grey is the link's capacity. Base RTT {series['base_rtt_ms']:g} ms, "
            f"buffer {series['buffer_packets']} packets. The delay shown is the largest of each 100 ms; less than "
            "0.1 ms is drawn as 0.1. Click a name to show or hide it, drag to zoom, double-click to go back."
        )
        parts.append(_section(title, about, figure(plots.over_time(series), title)))
    if result.rows:
        parts.append(
            _section(
                "Throughput against delay",
                "Up and to the left is better. Small marks are runs, large ones the scheme's median. The oracle knows "
                "capacity exactly, one round trip late (the dotted line: with more in flight); what is above and left "
                "of it needs prediction.",
                figure(plots.throughput_delay(result), "throughput against delay"),
            )
        )
    if result.queue_ns:
        parts.append(
            _section(
                "Queue length",
                "For how much of the time at most so many packets were queued. Higher is better.",
                figure(plots.queue_cdf(result), "queue length distribution"),
            )
        )
    parts += [_rows_section(result), _definitions(), _repeat_section(result, config, repeat)]
    # No "</script" may stand inside a script element, whatever the library's text holds.
    script = get_plotlyjs().replace("</script", "<\\/script") if drawn else ""
    write_atomically(path, _page(f"ccarena: {name}", script, "\n".join(parts)))


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The lines of a `progress.jsonl`, oldest first; a last line cut short by a kill is left out. Empty if no file."""
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").splitlines()
    out = []
    for number, line in enumerate(lines, start=1):
        try:
            out.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}:{number}: not a line of JSON: {error}; delete the line") from error
    return out


def summary_table(result: Evaluation) -> tuple[list[str], list[list[str]]]:
    """(headings, rows): each group's schemes with the mean over links and seeds of the figures of `SUMMARY`."""
    head = ["links", "scheme", *(heading(figure) for figure in SUMMARY)]
    rows = []
    for group in result.groups():
        for scheme in result.schemes():
            runs = [row for row in result.of(group, scheme) if row.get("gain", 1.0) == 1.0]
            if runs:
                rows.append([group, _label(scheme), *(show(figure, _mean(runs, figure)) for figure in SUMMARY)])
    return head, rows


def digest(result: Evaluation, verdict: Verdict) -> dict[str, Any]:
    """The evaluation in short: verdict, and each group's and scheme's means, for a policy's metadata."""
    means = {
        group: {
            scheme: {figure: _mean(runs, figure) for figure in SUMMARY}
            for scheme in result.schemes()
            if (runs := [row for row in result.of(group, scheme) if row.get("gain", 1.0) == 1.0])
        }
        for group in result.groups()
    }
    return {"verdict": verdict.as_dict(), "means": means, "meta": result.meta}


@contextmanager
def progress_bar(title: str, unit: str = "links") -> Iterator[Progress]:
    """A progress bar on stderr, from the first link on; what is yielded is `evaluate`'s `progress`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


def print_summary(result: Evaluation, verdict: Verdict | None, report: Path | None = None) -> None:
    """Print the summary table, warnings and expectations. The verdict's line is left to the caller, as the last."""
    from rich.console import Console

    print_table("mean over links and seeds", *summary_table(result), left=2)
    console = Console(highlight=False, soft_wrap=True)
    if verdict is None:
        return
    for warning in verdict.notes:
        console.print(f"warning: {warning}", style="bold yellow", markup=False)
    for item in verdict.expectations:
        console.print(f"[{'holds' if item.holds else 'FAILS'}] {item.group}: {item.measured}", markup=False)
        console.print(f"        expected {item.target}", markup=False)
        console.print(f"        CUBIC: {item.cubic}", markup=False)
        console.print(f"        {verdict.unlearned}: {item.unlearned}", markup=False)
        if item.oracle:
            console.print(f"        knowing capacity one RTT late: {item.oracle}", markup=False)
    if report is not None:
        console.print(f"report: {report}", markup=False)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Print a table whose first `left` columns are words; a first cell that repeats the one above is left blank."""
    from rich.console import Console
    from rich.table import Table

    # Where the output is no terminal, rich's 80 columns would break every row.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(title=title, title_justify="left")
    for index, text in enumerate(head):
        table.add_column(text, justify="left" if index < left else "right")
    for index, row in enumerate(rows):
        first = index == 0 or rows[index - 1][0] != row[0]
        last = index + 1 < len(rows) and rows[index + 1][0] != row[0]
        table.add_row(row[0] if first else "", *row[1:], end_section=last and len(rows) > len({r[0] for r in rows}))
    console.print(table)


def fairness(rows: Sequence[Mapping[str, Any]]) -> float:
    """Jain's index of the rows' goodputs."""
    return jain_index([row["goodput_mbps"] for row in rows])


def _verdict_section(verdict: Verdict) -> str:
    state = "good" if verdict.learned else "bad"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in verdict.notes)
    faults = "".join(f"<li>{html.escape(fault)}</li>" for fault in verdict.faults)
    failed = [item for item in verdict.expectations if not item.holds]
    if verdict.learned:
        headline = "Learned: every expectation holds"
    elif not verdict.expectations:
        headline = "No verdict: no expectation was tested"
    else:
        held = len(verdict.expectations) - len(failed)
        headline = f"Not learned: {held} of {len(verdict.expectations)} expectations hold"
    return (
        f'<section class="verdict {state}"><h2>{html.escape(headline)}</h2>'
        "<p>This page shows what a congestion controller trained by reinforcement learning does on links that it was "
        "not trained on, beside the controllers that computers use today. A good controller keeps the link busy "
        "(utilisation) and the queue in front of it short (queueing delay).</p>"
        + (f"<p>Also off:</p><ul>{faults}</ul>" if faults else "")
        + (f'<ul class="warning">{notes}</ul>' if notes else "")
        + "</section>"
    )


def _expectation_table(verdict: Verdict) -> str:
    if not verdict.expectations:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(item.claim)}<br><small>{html.escape(item.detail)}</small></td>"
        f"<td>{html.escape(item.target)}</td><td><strong>{html.escape(item.measured)}</strong></td>"
        f'<td class="{"good" if item.holds else "bad"}">{"✓ holds" if item.holds else "✗ fails"}</td>'
        f"<td>{html.escape(item.cubic)}</td><td>{html.escape(item.unlearned)}</td><td>{html.escape(item.oracle)}</td></tr>"
        for item in verdict.expectations
    )
    head = "".join(
        f"<th>{text}</th>"
        for text in (
            "Claim",
            "Expected",
            "Measured",
            "Holds?",
            "CUBIC",
            html.escape(verdict.unlearned),
            "Knowing capacity one RTT late",
        )
    )
    return _section(
        "Expectations",
        f"{verdict.source} The last two columns say what is possible: for the scheme's own rules without learning, "
        "and, by physics, for a sender that learns of capacity one round trip late and knows everything else (packets' "
        "rounding is not in it).",
        f'<div class="scroll"><table class="words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
    )


def _summary_section(result: Evaluation) -> str:
    head, rows = summary_table(result)
    policy = _label(str(result.meta.get("scheme", ACCT)))
    return _section("All schemes", "Means over links and seeds.", _table(head, rows, emphasise=policy))


def _rows_section(result: Evaluation) -> str:
    head = ["link", "scheme", *(heading(figure) for figure in DETAIL)]
    blocks = []
    for group in result.groups():
        runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in result.valid_rows():
            if row["group"] == group:
                label = _label(row["scheme"]) + (f", gain {row['gain']:g}" if row.get("gain", 1.0) != 1.0 else "")
                runs.setdefault((row["link"], label), []).append(row)
        rows = [[*key, *(_with_interval(figure, repeats) for figure in DETAIL)] for key, repeats in runs.items()]
        blocks.append(
            f"<details><summary>{html.escape(group)}: {len(rows)} rows</summary>{_table(head, rows)}</details>"
        )
    return _section(
        "All rows",
        "Means over seeds; ± is half of the 95 % confidence interval (Student's t), where a link was repeated.",
        "".join(blocks),
    )


def _definitions() -> str:
    rows = [[figure.title, figure.unit, figure.definition] for figure in FIGURES.values()]
    table = _table(["figure", "unit", "definition"], rows, "words")
    return _section(
        "What the figures mean", "", f"<details><summary>definitions and sources</summary>{table}</details>"
    )


def _repeat_section(result: Evaluation, config: str, repeat: Sequence[str]) -> str:
    commands = "\n".join(repeat)
    meta = json.dumps(result.meta, indent=1, ensure_ascii=False)
    body = f"<p>To repeat:</p><pre>{html.escape(commands)}</pre>" if commands else ""
    body += f"<details open><summary>versions and seeds</summary><pre>{html.escape(meta)}</pre></details>"
    if config:
        body += f"<details><summary>training configuration</summary><pre>{html.escape(config)}</pre></details>"
    simulated = result.meta.get("backend", SIM) == SIM
    text = "The same configuration, seed and versions give the same figures." if simulated else ""
    return _section("Configuration", text, body)


def repeat_commands(
    config: Path | None,
    policy: Path | None,
    suites: Sequence[str],
    seeds: int,
    duration_s: float | None,
    backend: str = SIM,
) -> list[str]:
    """Shell lines that train the policy again (if `config` is known) and evaluate it again."""
    lines = [f"python train.py --config {shlex.quote(str(config))}"] if config is not None else []
    words = ["ccarena", "eval", *([shlex.quote(str(policy))] if policy is not None else []), "--suite", *suites]
    words += ["--seeds", str(seeds), *(["--duration-s", f"{duration_s:g}"] if duration_s else [])]
    words += ["--backend", backend] if backend != SIM else []
    return [*lines, " ".join(words)]


def _section(title: str, text: str, body: str) -> str:
    lead = f"<p>{html.escape(text)}</p>" if text else ""
    return f"<section><h2>{html.escape(title)}</h2>{lead}{body}</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "", emphasise: str = "") -> str:
    """A first cell that repeats the one above is left blank; rows that contain the cell `emphasise` are set off."""
    cells = []
    for index, row in enumerate(rows):
        rule = index > 0 and rows[index - 1][0] != row[0] and not kind
        classes = " ".join((["rule"] if rule else []) + (["ours"] if emphasise and emphasise in row else []))
        once = index > 0 and rows[index - 1][0] == row[0]
        shown = ["" if once else row[0], *row[1:]]
        cells.append(f'<tr class="{classes}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in shown) + "</tr>")
    headings = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{headings}</tr></thead>'
        f"<tbody>{''.join(cells)}</tbody></table></div>"
    )


def _label(scheme: str) -> str:
    known = {ACCT: "ACCT (policy)", "cubic": "CUBIC", "bbr": "BBR", "reno": "Reno", ORACLE: "one RTT late"}
    return known.get(scheme, scheme.replace("acct", "ACCT"))


def heading(figure: str) -> str:
    """A figure's title with its unit, for the head of a column."""
    about = FIGURES[figure]
    return f"{about.title} ({'%' if about.unit == 'share' else about.unit})"


def show(figure: str, value: float | None) -> str:
    """A value in the figure's unit, shares in percent; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    about = FIGURES[figure]
    return f"{100 * value:.{max(about.digits - 2, 1)}f}" if about.unit == "share" else f"{value:.{about.digits}f}"


def _with_interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> str:
    interval = confidence_interval([math.nan if row.get(figure) is None else row[figure] for row in rows])
    shown = show(figure, interval.mean)
    return f"{shown} ± {show(figure, interval.high - interval.mean)}" if math.isfinite(interval.high) else shown


def _mean(rows: Sequence[Mapping[str, Any]], figure: str) -> float:
    values = [row[figure] for row in rows if row.get(figure) is not None]
    return float(np.mean(values)) if values else math.nan


_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #f6f7f9; }
body { margin: 0 auto; max-width: 1240px; padding: 16px; }
h1 { font-size: 1.5rem; margin: .4em 0; }
h2 { font-size: 1.2rem; margin: 0 0 .3em; }
section { background: #fff; border: 1px solid #e1e4e8; border-radius: 8px; padding: 16px 20px; margin: 14px 0; }
.verdict.good { border-left: 8px solid #00795a; }
.verdict.bad { border-left: 8px solid #b54700; }
td.good, td.bad { font-weight: 600; white-space: nowrap; }
td.good { color: #00664c; }
td.bad { color: #a03c00; }
.warning { background: #fff4d6; border: 1px solid #d9a400; border-radius: 6px; font-weight: 600; }
.warning { padding: 8px 8px 8px 28px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 9px; border-bottom: 1px solid #e8eaed; text-align: right; vertical-align: top; }
th { background: #f1f3f5; font-weight: 600; vertical-align: bottom; }
th:nth-child(-n+2), td:nth-child(-n+2), .words td, .words th { text-align: left; }
table:not(.words) td:nth-child(-n+2) { white-space: nowrap; }
tr.rule td { border-top: 2px solid #9aa3ad; }
tr.ours td { background: #e8f2fa; font-weight: 600; }
summary { cursor: pointer; padding: 4px 0; }
pre { background: #f1f3f5; padding: 10px; overflow-x: auto; font-size: .85rem; }
small { color: #555; }
"""


def _page(title: str, script: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style><script>{script}</script></head><body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )
