"""Runs of cells: entrants alone on a link, or beside each other. Functions of plain data, for any process to run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.compete.bottlenecks import Bottleneck
from ccarena.eval.compete.matches import Plan, compete
from ccarena.eval.heldout import links as held_out
from ccarena.eval.heldout.evaluate import best_window
from ccarena.eval.heldout.evaluation import BEST_WINDOW
from ccarena.eval.heldout.link import PACKET_BYTES
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.eval.leaderboard.cells import MEETING as TOGETHER
from ccarena.eval.leaderboard.cells import Cell, Measured
from ccarena.eval.leaderboard.entrants import LATE, Ranked
from ccarena.eval.leaderboard.figures import meeting, own_scores, solo
from ccarena.eval.leaderboard.links import SCENARIO, Place
from ccarena.eval.measure.queueing import bin_queueing_delay_ms
from ccarena.eval.measure.record import Subject
from ccarena.eval.measure.table import POWERS, normalised_power, row
from ccarena.eval.measure.throughput import bin_capacity_mbps, bin_throughput_mbps
from ccarena.scenarios import backends
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.one_run import Run, perform

__all__ = ["STAGGER_S", "Task", "measure", "tasks_of"]

STAGGER_S = 5.0
"""Time between the starts of two flows that meet, s."""
BIN_S = 0.5
"""Length of a bin of stored series, s."""
MOST_MEETINGS, MOST_IN_REAL_TIME = 24, 4
"""Most pairs of a task: each entrant's runs alone are shared within a task, and results are stored task by task."""


@dataclass(frozen=True)
class Task:
    """Task of cells of one place and seed that are run together, because they share runs."""

    place: Place
    seed: int
    cells: tuple[Cell, ...]
    series: bool = False
    """Store series over time."""

    @property
    def alone(self) -> bool:
        """Returns whether each entrant runs alone."""
        return self.cells[0].opponent is None


def tasks_of(cells: Sequence[Cell]) -> list[Task]:
    """Returns `cells` in tasks, in their order. Series are stored of the first seed of entrants alone."""
    groups: dict[tuple[str, int, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.scenario, cell.seed, cell.kind), []).append(cell)
    out = []
    for (_, seed, kind), mine in groups.items():
        if kind != TOGETHER:
            # In real time no run alone is shared, and what is finished is stored at once.
            one_by_one = backends.find(mine[0].backend).real_time
            for cells_ in [(cell,) for cell in mine] if one_by_one else [tuple(mine)]:
                out.append(Task(mine[0].place, seed, cells_, series=seed == 0))
            continue
        pairs: dict[tuple[str, ...], list[Cell]] = {}
        for cell in mine:  # a pair's two cells are one run
            pairs.setdefault(_pair(cell), []).append(cell)
        each = list(pairs.values())
        most = MOST_IN_REAL_TIME if backends.find(mine[0].backend).real_time else MOST_MEETINGS
        for start in range(0, len(each), most):
            together = (cell for pair in each[start : start + most] for cell in pair)
            out.append(Task(mine[0].place, seed, tuple(together)))
    return out


def measure(task: Task) -> list[Measured]:
    """Runs a task. The same task gives the same figures. Raises what the backend does."""
    return _alone(task) if task.alone else _together(task)


def _alone(task: Task) -> list[Measured]:
    link = task.place.link(task.seed)
    capacity: NDArray[np.float64] | None = None
    out = []
    # What is computed needs the capacity that a run was offered.
    for cell in sorted(task.cells, key=lambda cell: cell.entrant.computed):
        if cell.entrant.computed and capacity is None:
            probe = perform(held_out.scenario(link, Entrant("reno", {"scheme": "reno"})), backends.SIM)
            capacity = probe.measured().flows[0].capacity_mbps
        if cell.entrant.label == LATE:
            assert capacity is not None
            out.append(_one_rtt_late(cell, link, capacity, task.series))
            continue
        if cell.entrant.label == BEST_WINDOW:
            assert capacity is not None
            _, run = best_window(link, capacity)
        else:
            run = perform(task.place.scenario(task.seed, cell.entrant.sender), cell.backend)
        flow = run.measured().flows[task.place.entrant_flow]
        capacity = flow.capacity_mbps
        out.append(_of_run(cell, run, flow, task.series))
    return out


def _of_run(cell: Cell, run: Run, flow: Subject, series: bool) -> Measured:
    over_time = None
    if series:
        length_s = flow.record.duration_s
        rate = bin_throughput_mbps(flow.log, length_s, BIN_S)
        over_time = _series(
            flow.record.capacity_mbps(flow.link), rate, bin_queueing_delay_ms(flow.log, length_s, BIN_S)
        )
    figures = row(flow, solo())
    if cell.place.trace.moves == SCENARIO:
        figures |= own_scores(figures, flow.base_rtt_ms)
    error = backends.failure(run.result["flows"][flow.flow]) if flow.flow is not None else ""
    return Measured(cell, figures, run.valid and not error, run.lateness_p99_ms, over_time, error)


def _one_rtt_late(cell: Cell, link: held_out.Link, capacity: NDArray[np.float64], series: bool) -> Measured:
    limit = link.buffer_packets * PACKET_BYTES
    bound = one_rtt_late(capacity, 1.0, link.base_rtt_ms, limit, average_ms=link.capacity_window_ms)
    scores = {
        name: normalised_power(bound.utilisation, bound.queueing_delay_mean_ms, link.base_rtt_ms, powers)
        for name, powers in POWERS.items()
    }
    known = {**bound.figures(), "capacity_mbps": float(capacity.mean()), **scores}
    figures = {name: value for name, value in known.items() if name in solo()}
    over_time = None
    if series:
        per_bin = round(BIN_S * 1e3)
        worst = np.maximum.reduceat(bound.queueing_delay_ms, np.arange(0, bound.queueing_delay_ms.size, per_bin))
        over_time = _series(capacity, bin_capacity_mbps(bound.rate_mbps, per_bin), worst)
    return Measured(cell, figures, series=over_time)


def _series(capacity: NDArray[np.float64], rate: NDArray[np.float64], delay: NDArray[np.float64]) -> dict[str, Any]:
    known = bin_capacity_mbps(capacity, round(BIN_S * 1e3))
    lines = {"capacity_mbps": known, "rate_mbps": rate, "queueing_delay_ms": delay}
    short = {name: [float(f"{x:.3g}") if math.isfinite(x) else None for x in y.tolist()] for name, y in lines.items()}
    return {"bin_s": BIN_S, **short}


def _together(task: Task) -> list[Measured]:
    place, link = task.place, task.place.link(task.seed)
    queue = {"type": "droptail", "packets": place.buffer_packets}
    one_way = {"queue": queue, "delay_ms": place.delay_ms}
    forward = {"name": "bottleneck", "service": link.service, "router": True, **one_way, **link.more}
    back = ({"name": "back", "service": link.back, **one_way},) if link.back else ()
    bottleneck = Bottleneck(place.name, link.base_rtt_ms, (forward,), back)
    competitors = {e.digest: _competitor(e) for cell in task.cells for e in (cell.entrant, cell.opponent) if e}
    pairs = dict.fromkeys(_pair(cell) for cell in task.cells)
    plan = Plan(
        list(competitors.values()),
        [bottleneck],
        [],
        list(pairs),
        duration_s=place.duration_s,
        stagger_s=STAGGER_S,
        seeds=1,
        first_seed=task.seed + 1,
        backend=task.cells[0].backend,
    )
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in compete(plan, threads=1):
        rows.setdefault((each["entrant"], each["opponents"]), []).append(each)
    out = []
    for cell in task.cells:
        assert cell.opponent is not None
        mine = rows[cell.entrant.digest, cell.opponent.digest]
        late_ms = max((one["lateness_p99_ms"] for one in mine if "valid" in one), default=None)
        valid = all(backends.counts(one) for one in mine)
        error = next((one["error"] for one in mine if one.get("error")), "")
        # Rows name competitors by their digests.
        for ranked in (cell.entrant, cell.opponent):
            error = error.replace(ranked.digest, ranked.label)
        figures = {name: _mean([one.get(name, math.nan) for one in mine]) for name in meeting()}
        out.append(Measured(cell, figures, valid, late_ms, error=error))
    return out


def _competitor(ranked: Ranked) -> Entrant:
    """Returns the entrant labelled by its digest, because a label may contain the separator of labels."""
    return Entrant(ranked.digest, ranked.sender.flow)


def _pair(cell: Cell) -> tuple[str, ...]:
    assert cell.opponent is not None
    return tuple(sorted((cell.entrant.digest, cell.opponent.digest)))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else math.nan
