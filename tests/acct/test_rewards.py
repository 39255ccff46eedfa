"""The paper's equations 5-7, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ccarena.configs.schema import RewardConfig
from ccarena.envs.rewards import Reward
from tests.envs.acct import ACTIONS, REPORT, REPORT_FIELDS, SPEC, Zone, rewards


def report(**fields: float) -> np.ndarray:
    row = np.zeros((1, len(REPORT_FIELDS)), dtype=np.float32)
    for name, value in fields.items():
        row[0, getattr(REPORT, name)] = value
    return row


@pytest.mark.parametrize(
    ("zone", "alpha", "previous", "lost", "delay_ratio", "expected"),
    [
        (Zone.GREEN, 100, 1, 0, 0.3, 100.0),  # A
        (Zone.GREEN, 30, 30, 2, 0.9, 30 - 10 * 2),  # A - 10 L, delay and burstiness do not matter
        (Zone.YELLOW, 1, 1, 0, 0.5, 100.0),  # 101 - 1
        (Zone.YELLOW, 100, 1, 0, 0.5, 101 - 100 - 1.4),  # all of the scaled-down space: |2.4 - 1|
        (Zone.YELLOW, 10, 5, 1, 0.5, 101 - 10 - 10 - 0.1),  # neighbours in the action space, whatever their values
        (Zone.RED, 5, 100, 0, 7.0, 101 - 5 - 1.0),  # Red is Yellow, delay does not matter
        (Zone.BLUE, 1, 1, 0, 2.0, 101 - 1 - 10 * 2.0),
        (Zone.BLUE, 2, 3, 3, 1.5, 101 - 2 - 10 * 1.5 - 10 * 3 - 0.1),
    ],
)
def test_hand_computed(zone: Zone, alpha: int, previous: int, lost: int, delay_ratio: float, expected: float) -> None:
    row = report(zone=zone, alpha=alpha, previous_alpha=previous, lost_packets=lost, delay_ratio=delay_ratio)
    assert rewards(row) == pytest.approx([expected], rel=1e-6)


def test_weights_are_parameters() -> None:
    row = report(zone=Zone.BLUE, alpha=20, previous_alpha=10, lost_packets=4, delay_ratio=3)
    assert Reward(RewardConfig(name="acct", omega=2, zeta=5, beta=0.5), SPEC)(row) == pytest.approx(
        [101 - 20 - 1.5 - 8 - 0.5]
    )


def test_rows_are_independent() -> None:
    rows = np.concatenate([report(zone=z, alpha=a, previous_alpha=1) for z in Zone for a in ACTIONS])
    together = rewards(rows)
    assert together.dtype == np.float32
    assert np.array_equal(together, np.concatenate([rewards(row[None]) for row in rows]))


def test_best_action_of_each_zone_is_worth_100() -> None:
    """The paper: "to reach a similar maximum value when the agent behaves optimally"."""
    for zone, best in ((Zone.GREEN, 100), (Zone.YELLOW, 1), (Zone.RED, 1), (Zone.BLUE, 1)):
        values = [rewards(report(zone=zone, alpha=a, previous_alpha=a))[0] for a in ACTIONS]
        assert ACTIONS[int(np.argmax(values))] == best
        assert max(values) == 100


def test_an_initial_alpha_between_actions() -> None:
    """7 lies at 2/5 between the actions 5 and 10, whose scaled-down values are 1.4 and 1.5."""
    assert rewards(report(zone=Zone.YELLOW, alpha=1, previous_alpha=7)) == pytest.approx([100 - 0.44])
