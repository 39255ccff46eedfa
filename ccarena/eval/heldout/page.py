"""The page of an evaluation: one HTML file that needs no network, `report.html`."""

from __future__ import annotations

import html
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.backends import SIM
from ccarena.errors import MissingDependencyError
from ccarena.eval.figure_text import heading, show
from ccarena.eval.given_traces import TraceLinks
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.expectations import Verdict
from ccarena.eval.heldout.summary import SUMMARY, label, summary_table
from ccarena.eval.metrics import FIGURES, confidence_interval
from ccarena.files import write_atomically

__all__ = ["repeat_commands", "write_page"]

DETAIL = (*SUMMARY, "signal_delay_p95_ms", "self_inflicted_delay_ms", "power", "goodput_mbps", "queueing_delay_p99_ms")


def write_page(
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
        raise MissingDependencyError.for_extra("plotly", "train", "the page") from error
    from ccarena.eval.heldout import plots

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
                "The mean reward of a decision should rise, and the policy's entropy fall as it makes up its mind."
                if any("entropy" in row for row in progress)
                else "The mean reward of a decision should rise.",
                figure(plots.learning_curve(progress, result.meta.get("shares", {})), "learning curve"),
            )
        )
    if any(result.policy in by for by in result.actions.values()):
        parts.append(
            _section(
                "What it does",
                f"Which action the policy of {result.policy} chose after intervals of each category.",
                figure(plots.action_map(result), "actions by category")
                + "<p>Share of decisions in each category, beside the same action always:</p>"
                + figure(plots.category_shares(result), "category shares"),
            )
        )
    for series in result.series:
        title = f"Over time: {series['group']} ({series['link']})"
        about = (
            f"Grey is the link's capacity. Base RTT {series['base_rtt_ms']:g} ms, "
            f"buffer {series['buffer_packets']} packets. The delay shown is the largest of each 100 ms; less than "
            "0.1 ms is drawn as 0.1. Click a name to show or hide it, drag to zoom, double-click to go back."
        )
        parts.append(_section(title, about, figure(plots.over_time(series, result), title)))
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
    # The text "</script" would end the script element early.
    script = get_plotlyjs().replace("</script", "<\\/script") if drawn else ""
    write_atomically(path, _page(f"ccarena: {name}", script, "\n".join(parts)))


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
        "not trained on, beside the congestion controls that computers use today. A good one keeps the link busy "
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
        f"<td>{html.escape(item.baseline)}</td><td>{html.escape(item.control)}</td><td>{html.escape(item.oracle)}</td></tr>"
        for item in verdict.expectations
    )
    head = "".join(
        f"<th>{text}</th>"
        for text in (
            "Claim",
            "Expected",
            "Measured",
            "Holds?",
            html.escape(label(verdict.baseline)),
            html.escape(verdict.control),
            "Knowing capacity one RTT late",
        )
    )
    return _section(
        "Expectations",
        "What the scheme's record expects of it. The last two columns say what is possible: for the scheme's own rules "
        "without learning, "
        "and, by physics, for a sender that learns of capacity one round trip late and knows everything else (packets' "
        "rounding is not in it).",
        f'<div class="scroll"><table class="words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
    )


def _summary_section(result: Evaluation) -> str:
    head, rows = summary_table(result)
    policy = label(result.policy, result.policy)
    return _section("All schemes", "Means over links and seeds.", _table(head, rows, emphasise=policy))


def _rows_section(result: Evaluation) -> str:
    head = ["link", "scheme", *(heading(figure) for figure in DETAIL)]
    blocks = []
    for group in result.groups():
        runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in result.valid_rows():
            if row["group"] == group:
                gain = f", gain {row['gain']:g}" if row.get("gain", 1.0) != 1.0 else ""
                runs.setdefault((row["link"], label(row["scheme"]) + gain), []).append(row)
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
    config: Path | None, policies: Sequence[Path], meta: Mapping[str, Any], over: TraceLinks | None = None
) -> list[str]:
    """Shell lines that train the policy again (if `config` is known) and evaluate again what `meta` says."""
    lines = [f"python train.py --config {shlex.quote(str(config))}"] if config is not None else []
    words = ["ccarena", "eval", *map(str, policies), *([] if policies else meta["schemes"])]
    words += ["--schemes", *meta["schemes"]] if policies and meta["schemes"] else []
    words += ["--link-sets", *meta["link_sets"]] if meta["link_sets"] else []
    words += over.words() if over is not None else []
    words += [
        "--seeds",
        str(meta["seeds"]),
        *(["--duration-s", f"{meta['duration_s']:g}"] if meta["duration_s"] else []),
    ]
    words += ["--backend", meta["backend"]] if meta.get("backend", SIM) != SIM else []
    return [*lines, shlex.join(words)]


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


def _with_interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> str:
    interval = confidence_interval([math.nan if row.get(figure) is None else row[figure] for row in rows])
    shown = show(figure, interval.mean)
    return f"{shown} ± {show(figure, interval.high - interval.mean)}" if math.isfinite(interval.high) else shown


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
