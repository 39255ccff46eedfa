"""Comparison of ACCT's best table, network and clairvoyants by setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import gain, page
from bench.clairvoyant import Clairvoyant, climb, schedule_policy
from ccarena.configs import load_config
from ccarena.core import measurements
from ccarena.envs.trials import Candidate, Trials
from ccarena.policies.spec import Spec, spec_of

SEED = 5
TABLE = [9, 2, 0, 4]
SHORT = {**gain.ALIKE, "env.episode_s": [2, 2], "env.link.signal": 0.5}


def trials_of(**changes: object) -> tuple[Trials, Spec]:
    config = load_config("acct-signals", {**SHORT, **{f"env.{key}": value for key, value in changes.items()}})
    return Trials(config, spec_of(config), 1), spec_of(config)


def clairvoyant(trials: Trials, spec: Spec) -> Clairvoyant:
    return Clairvoyant(trials, spec, "zone", [0, 4, 9, 14], {}, SEED, rounds=4, width=4)


def test_a_climb_ends_where_no_single_step_gains() -> None:
    target = (3.0, 0.0, 2.0)

    def score(points: list[tuple[float, ...]]) -> list[float]:
        return [-sum(abs(x - y) for x, y in zip(point, target, strict=True)) for point in points]

    assert climb((0.0, 0.0, 0.0), [[0.0, 1.0, 2.0, 3.0]] * 3, score) == (target, 0.0)
    # No choice is better than the start.
    assert climb(target, [[0.0, 1.0]] * 3, score) == (target, 0.0)


def test_a_schedule_of_one_piece_is_its_table() -> None:
    trials, spec = trials_of()
    schedule = schedule_policy(spec, "zone", np.tile(np.array(TABLE), (10, 1)), {}).encode()
    table, same = trials.run([Candidate(("zone", [float(at) for at in TABLE])), Candidate(schedule)], SEED, 4)
    assert np.array_equal(table.scores, same.scores)
    assert len(np.unique(table.reports[:, spec.report.index("zone")])) > 1


def test_a_schedule_changes_its_actions_at_its_pieces() -> None:
    trials, spec = trials_of()
    actions = np.array([[1] * 4] * 3 + [[7] * 4] * 2 + [[0] * 4])
    (run,) = trials.run([Candidate(schedule_policy(spec, "zone", actions, {}).encode())], SEED, 1)
    alpha = run.reports[:, spec.report.index("alpha")]
    assert alpha[:5].tolist() == [spec.actions[at] for at in (1, 1, 1, 7, 7)]
    assert set(alpha[5:].tolist()) == {spec.actions[0]}


def test_a_clairvoyant_is_never_below_the_table_it_starts_from() -> None:
    trials, spec = trials_of()
    search = clairvoyant(trials, spec)
    known = [search(link, TABLE) for link in range(3)]
    (run,) = trials.run([Candidate(("zone", [float(at) for at in TABLE]))], SEED, 3)
    assert [each.table for each in known] == run.by_trial.tolist()
    assert all(each.table <= each.own_table <= each.schedule <= gain.LARGEST_REWARD for each in known)
    assert any(each.own_table > each.table for each in known)
    assert search(0, TABLE) == known[0]


def test_a_clairvoyant_earns_the_largest_reward_on_a_link_that_is_never_full() -> None:
    # Without a signal and a queue every interval is green, where α itself is the reward.
    trials, spec = trials_of(**{"link.rate_mbps": [2000, 2000], "link.rtt_ms": [100, 100], "link.signal": 0})
    known = clairvoyant(trials, spec)(0, TABLE)
    assert known.table == spec.actions[TABLE[0]]
    assert known.own_table == known.schedule == gain.LARGEST_REWARD


@pytest.mark.parametrize("name", gain.SETTINGS)
def test_every_setting_is_a_configuration_with_links(name: str, tmp_path: Path) -> None:
    measured = gain.Measured(gain.SETTINGS[name], tmp_path, 1)
    (run,) = Trials(measured.config, measured.spec, 1).run([Candidate(("zone", [0.0] * 4))], gain.TESTED_ON, 1)
    assert np.isfinite(run.score)


KEPT = {
    "table": {"actions": [14.0, 0.0, 0.0, 4.0], "silent_at": 0.5},
    "links": {
        "1": {"table": 50.0, "own_table": 60.0, "schedule": 70.0},
        "0": {"table": 30.0, "own_table": 36.0, "schedule": 36.0},
    },
    "runs": {
        "table": {"scores": [30.0, 50.0, 1.0], "utilisation": 0.7, "queueing_delay_p95_ms": 4.0},
        "seed-1": {"scores": [30.0, 58.0, 9.0], "utilisation": 0.9, "queueing_delay_p95_ms": 6.0},
        "seed-2": {"scores": [30.0, 50.0, 9.0], "utilisation": 0.8, "queueing_delay_p95_ms": 5.0},
    },
}


def test_figures_of_a_setting_are_means_over_its_links_and_gains_over_the_table() -> None:
    source = measurements.Source("make gain", "0", "2026-01-01")
    spec = spec_of(load_config("acct"))
    found = {entry.case: entry for entry in gain.entries("late", gain.SETTINGS["late"], KEPT, spec, source)}
    assert found["best table"].value == "40.0"
    # Links are paired by number: the network's first two scores belong to the links that a clairvoyant knows.
    assert str(found["network"].value).startswith("42.0: +2.0 [0.0, ")
    assert str(found["clairvoyant: own table"].value).startswith("48.0: +8.0 [6.0, 10.0]")
    assert str(found["clairvoyant: schedule"].value).startswith("53.0: +13.0 [6.0, 20.0]")
    assert found["at most"].value == "100: +60.0"
    assert found["α of the best table"].value == "green 100, yellow 1, red 1, blue 5; `silent_at` 0.5"
    assert found["utilisation, p95 queueing delay"].value == "table 70 %, 4.0 ms; network 85 %, 5.5 ms"
    text = page.page(list(found.values()))
    assert f"### {gain.TABLE}" in text and "| signals 50-250 ms late | 40.0 |" in text
    assert page.filled(
        "<!-- measured:learned/acct/by-setting/late/best-table --><!-- /measured -->", list(found.values()), "a page"
    ) == ("<!-- measured:learned/acct/by-setting/late/best-table -->40.0<!-- /measured -->")


def test_finished_parts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain, "TUNING_LINKS", 1)
    monkeypatch.setattr(gain, "COARSE", (1.0, 100.0))
    monkeypatch.setattr(gain, "SILENT_AT", (0.0, 1.0, 2.0))
    short = gain.Setting("short", {"env.episode_s": [1, 1]})
    first = gain.Measured(short, tmp_path, 1)
    first.tune()
    first.know(1)
    first.test(1)
    again = gain.Measured(short, tmp_path, 1)
    assert again.kept == {
        **first.kept,
        "table": {**first.kept["table"], "actions": list(first.kept["table"]["actions"])},
    }
    monkeypatch.setattr(gain.Clairvoyant, "__call__", lambda self, link, table: pytest.fail("searched again"))
    again.tune()
    again.know(1)
