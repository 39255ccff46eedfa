"""Page of an evaluation, `page.html`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.core.terminal import duration
from ccarena.eval.heldout import plots
from ccarena.eval.heldout.evaluation import BEST_WINDOW, Evaluation
from ccarena.eval.heldout.expectations import Expectation, Verdict
from ccarena.eval.heldout.gain import Gain
from ccarena.eval.heldout.headroom import headroom, league_scores
from ccarena.eval.heldout.learned_actions import learned_actions
from ccarena.eval.heldout.summary import (
    SUMMARY,
    gain_table,
    headroom_table,
    label,
    league_table,
    parts_table,
    summary_table,
    with_interval,
)
from ccarena.eval.measure.figure_text import heading
from ccarena.pages import Block, Callout, Cell, Choice, Code, Details, Items, Page, Section, Table, Text, write
from ccarena.pages.page import anchor
from ccarena.pages.runnable import Repeat, Runnable
from ccarena.pages.states import state_of
from ccarena.policies.answers import GAINS, WHY
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.repeat import Unrepeatable, repeat_of
from ccarena.traces.given import TraceLinks

__all__ = ["evaluation_page", "repeat_command", "write_page"]

RULES = "Compared with rules without learning"
DETAIL = (*SUMMARY, "signal_delay_p95_ms", "self_inflicted_delay_ms", "power", "goodput_mbps", "queueing_delay_p99_ms")


def write_page(path: Path, result: Evaluation, verdict: Verdict, **about: Any) -> None:
    """Writes `evaluation_page`, which takes the keyword arguments, to `path`, atomically."""
    write(path, evaluation_page(result, verdict, **about))


def evaluation_page(
    result: Evaluation,
    verdict: Verdict,
    *,
    name: str,
    progress: Sequence[Mapping[str, Any]] = (),
    config: str = "",
) -> Page:
    """Returns the page. `progress` are the lines of `progress.jsonl`, `config` is the configuration as YAML."""
    sections = [_learning(result, progress)] if progress else []
    sections += learned_actions(result)
    sections += [] if not verdict.expectations else [_expectations(verdict)]
    sections += [] if verdict.gain is None else [_gain(verdict.gain)]
    sections += _league(result)
    sections.append(_summary(result))
    if result.series:
        sections.append(_over_time(result))
    if result.rows:
        sections.append(
            Section(
                "Throughput against delay",
                "Up and to the left is better. Small marks are runs, large ones the scheme's median. The oracle knows "
                "capacity exactly, one round trip late (the dotted line: with more in flight); what is above and left "
                "of it needs prediction.",
                [plots.throughput_delay(result)],
            )
        )
    if result.queue_ns:
        lead = "For how much of the time at most so many packets were queued. Higher is better."
        sections.append(Section("Queue length", lead, [plots.queue_cdf(result)]))
    sections.append(_rows(result))
    sections += [_again(result)] if result.scenarios else []
    sections += [_definitions(result), _configuration(result, config)]
    return Page(
        title=name,
        kind="evaluation",
        lead=_lead(result),
        facts={**_trained_for(progress), **_facts(result)},
        repeat=result.repeat,
        findings=_findings(verdict) if result.policies else [],
        sections=sections,
    )


def _learning(result: Evaluation, progress: Sequence[Mapping[str, Any]]) -> Section:
    lead = "The mean reward of a decision should rise"
    lead += ", and the entropy fall as the policy settles." if any("entropy" in row for row in progress) else "."
    return Section("Learning curve", lead, [plots.learning_curve(progress, result.meta.get("shares", {}))])


def _trained_for(progress: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the length of the training, in decisions and in time."""
    if not progress:
        return {}
    last = progress[-1]
    took = f" in {duration(last['elapsed_s'])}" if "elapsed_s" in last else ""
    return {"Trained for": f"{last['decisions']:,} decisions{took}"}


def _lead(result: Evaluation) -> str:
    names = ", ".join(result.policies)
    who, them = {
        0: ("Congestion controls", "learned ones are"),
        1: (f"A congestion controller trained by reinforcement learning ({names})", "it was"),
    }.get(len(result.policies), (f"Congestion controllers trained by reinforcement learning ({names})", "they were"))
    return (
        f"{who} on links that {them} not trained on, "
        "beside the congestion controls that computers use today. A good one keeps the link busy (utilisation) and "
        "the queue in front of it short (queueing delay)."
    )


def _facts(result: Evaluation) -> dict[str, str]:
    meta = result.meta
    durations = sorted({row["duration_s"] for row in result.rows if "duration_s" in row})
    return {
        "Backend": BACKENDS[meta.get("backend", SIM)].title,
        "Link sets": ", ".join([*meta.get("link_sets", []), *(["traces"] if "traces" in meta else [])]),
        "Seeds per link": str(meta.get("seeds", "")),
        "Time per run": f"{' or '.join(f'{s:g}' for s in durations)} s",
        "Runs": str(len(result.valid_rows())),
        **({"Training seed": str(meta["policy_seed"])} if meta.get("policy_seed") is not None else {}),
    }


def _findings(verdict: Verdict) -> list[Block]:
    """Returns the two answers, and notes that readers need to rely on them."""
    learned, rule = verdict.answers
    held = [f"{_sentence(e)}, as expected." for e in verdict.expectations if e.state == "holds"]
    off = [f"{_capital(detail)}." for detail in learned.details]
    findings: list[Block] = [
        Callout(learned.state, learned.headline, [Items(off + held)] if off or held else [], learned.question),
        Callout(
            rule.state, rule.headline, [*([Items(rule.details)] if rule.details else []), _why(verdict)], rule.question
        ),
    ]
    if verdict.notes:
        findings.append(
            Callout("plain", "Before you rely on this", [Items([_capital(note) for note in verdict.notes])])
        )
    return findings


def _why(verdict: Verdict) -> Text:
    """Returns why a rule may be enough, where a network gains, and a link to the comparison if the page has one."""
    link = (f"#{anchor(RULES)}", "The rules, and the network's gain over each") if verdict.gain is not None else None
    if verdict.simple_rule.answer == "no":
        return Text(f"No single rule fits all of these links (`{WHY}`).", link)
    return Text(
        f"If one rule fits all links, a network adds little (`{WHY}`). It gains where routers signal with faults or "
        f"not at all: `ccarena train --config {GAINS}`.",
        link,
    )


def _sentence(item: Expectation) -> str:
    return f"{_capital(item.group)}: {item.measured}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _expectations(verdict: Verdict) -> Section:
    head = ["Claim", "Expected", "Measured", "State", label(verdict.baseline)]
    head += [verdict.constant] if verdict.constant else []
    head.append("Knowing capacity one RTT late")
    rows = []
    for item in verdict.expectations:
        row = [Cell(item.claim, note=item.detail), Cell(item.target), Cell(item.measured)]
        row += [Cell(item.state, state_of(item.state)), Cell(item.baseline)]
        rows.append([*row, *([Cell(item.constant)] if verdict.constant else []), Cell(item.oracle)])
    lead = (
        "What the scheme's config expects of it. The last columns say what is possible: for the scheme's own rules "
        "without learning, and, by physics, for a sender that learns of capacity one round trip late and knows "
        "everything else (packets' rounding is not in it)."
    )
    return Section("Expectations", lead, [Table(head, rows, words=len(head))])


def _gain(gain: Gain) -> Section:
    head, rows = gain_table(gain)
    lead = (
        "The best ways to run the scheme without learning, each found by search on training links alone, and the "
        f"policy, on the links of this test ({gain.tested}). The gain is that of the "
        f"configuration's objective ({gain.objective}), in percent if the rule's score is surely positive, with a "
        "bootstrap interval over links and seeds."
    )
    tables = [Table(head, rows, words=1)]
    if gain.best is not None and gain.parts:
        lead += f" The second table has the gain over {gain.best.label} on each kind of links."
        head, rows = parts_table(gain.parts)
        tables.append(Table(head, rows, words=1))
    return Section(RULES, lead, tables)


def _summary(result: Evaluation) -> Section:
    head, rows = summary_table(result)
    table = Table(head, rows, words=2, grouped=True, emphasise=label(result.policy, result.policy))
    lead = "Means over links and seeds; ± is half of the 95 % confidence interval over seeds (Student's t)."
    if BEST_WINDOW in result.schemes():
        lead += (
            f" The {BEST_WINDOW} is the one with the most throughput over p95 signal delay, propagation included, on "
            "each link. The column Power is without propagation, where another window or scheme may have more."
        )
    return Section("All schemes", lead, [table])


def _league(result: Evaluation) -> list[Section]:
    known = headroom(result)
    if not known:
        return []
    lead = (
        "The headroom is the score of an oracle over that of the best heuristic, less 1: what is left to learn. A lone "
        "sender's score is normalised power, and its oracle knows capacity one round trip late. Where flows share a "
        "link, the oracle gives each its fair share without a queue. The best fixed window is chosen with hindsight "
        "on each link. The causal oracle knows of the capacity what its own packets showed: so much of the headroom is "
        "within reach of an end-to-end sender. Where flows share a link, the best heuristic of each link stands for "
        "it. The bound is the link if no sender has more than 5 % left, knowledge if only one that is told the "
        "capacity has, and else the controller. Scores are geometric means over links, with bootstrap intervals."
    )
    tables = [(Table(*headroom_table(known), words=1)), Table(*league_table(league_scores(result)), words=1)]
    return [Section("The league", lead, tables)]


def _over_time(result: Evaluation) -> Section:
    options: dict[str, Sequence[Block]] = {
        f"{series['group']}: {series['link']}": [plots.over_time(series, result)] for series in result.series
    }
    lead = (
        "Grey is the link's capacity. The delay is the largest of each 100 ms; less than 0.1 ms is drawn as 0.1. Click "
        "a name to show or hide it, drag to zoom, double-click to go back."
    )
    return Section("Over time", lead, [Choice("Link", options, first=len(options) // 2)])


def _rows(result: Evaluation) -> Section:
    figures = list(dict.fromkeys(figure for figure in DETAIL if figure in result.figures))
    head = ["link", "scheme", *(heading(figure) for figure in figures)]
    blocks: list[Block] = []
    for group in result.groups():
        runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in result.valid_rows():
            if row["group"] == group:
                gain = f", gain {row['gain']:g}" if row.get("gain", 1.0) != 1.0 else ""
                runs.setdefault((row["link"], label(row["scheme"]) + gain), []).append(row)
        rows = [[*key, *(with_interval(figure, repeats) for figure in figures)] for key, repeats in runs.items()]
        blocks.append(Details(f"{group}: {len(rows)} rows", [Table(head, rows, words=2, grouped=True)]))
    lead = "Means over seeds; ± is half of the 95 % confidence interval (Student's t), where a link was repeated."
    return Section("All links", lead, blocks)


def _again(result: Evaluation) -> Section:
    """Returns the runs of the first seed that a browser can repeat."""
    runs: list[Repeat] = []
    refused: list[str] = []
    version = str(result.meta.get("versions", {}).get("ccarena", ""))
    rows = {(row["group"], row["link"], row["scheme"]): row for row in result.valid_rows() if row["seed"] == 0}
    for each in result.scenarios:
        document = each["document"]
        first, *others = document["flows"]
        for label_, flow in result.entrants.items():
            row = rows.get((each["group"], each["link"], label_))
            if row is None:
                continue
            whole = {**document, "flows": [{**flow, **first}, *others]}
            axes = {"link": f"{each['group']}: {each['link']}", "scheme": label(label_)}
            stored = {str(first["name"]): {name: row.get(name) for name in result.figures}}
            try:
                runs.append(repeat_of(whole, axes, stored, version))
            except Unrepeatable as error:
                refused.append(f"{label(label_)} on {each['link']}: {error}.")
    lead = "Repeats one run of the first seed in this browser, and compares its figures with those of this evaluation."
    return Section("Run it here", lead, [Runnable(runs, refused)])


def _definitions(result: Evaluation) -> Section:
    rows = [[figure.title, figure.unit, figure.definition] for figure in result.figures.values()]
    return Section(
        "What the figures mean",
        "",
        [Details("Definitions and sources", [Table(["figure", "unit", "definition"], rows, 3)])],
    )


def _configuration(result: Evaluation, config: str) -> Section:
    simulated = not BACKENDS[result.meta.get("backend", SIM)].real_time
    text = "The same configuration, seed and versions give the same figures." if simulated else ""
    blocks: list[Block] = [Details("Versions and seeds", [Code(json.dumps(result.meta, indent=1, ensure_ascii=False))])]
    if config:
        blocks.append(Details("Training configuration", [Code(config)]))
    return Section("Configuration", text, blocks)


def repeat_command(entries: Sequence[Any], meta: Mapping[str, Any], over: TraceLinks | None = None) -> str:
    """Returns the shell line that evaluates `entries` again as `meta` says, for a page that no command requested."""
    named = [str(entry) for entry in entries]
    words = ["ccarena", "eval", *named]
    schemes = [name for name in meta["schemes"] if name not in named]
    words += ["--schemes", *schemes] if schemes else []
    words += ["--link-sets", *meta["link_sets"]] if meta["link_sets"] else []
    words += over.words() if over is not None else []
    words += ["--seeds", str(meta["seeds"])]
    words += ["--duration-s", f"{meta['duration_s']:g}"] if meta["duration_s"] else []
    words += ["--backend", meta["backend"]] if meta.get("backend", SIM) != SIM else []
    return shlex.join(words)
