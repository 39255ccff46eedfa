"""Rewards and discounts, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ccarena.agents.semi_markov import discounted
from ccarena.configs import load_config
from ccarena.configs.schema import RewardConfig
from ccarena.envs.rewards import Reward
from ccarena.policies.spec import Spec, spec_of

HYBRID, AURORA = spec_of(load_config("hyvar")), spec_of(load_config("aurora"))
hyvar, aurora = Reward(RewardConfig(name="hyvar"), HYBRID), Reward(RewardConfig(name="aurora"), AURORA)


def report(spec: Spec, **fields: float) -> np.ndarray:
    row = np.zeros((1, len(spec.report)), dtype=np.float32)
    for name, value in fields.items():
        row[0, spec.report.index(name)] = value
    return row


@pytest.mark.parametrize(
    ("throughput", "loss", "rtt", "expected"),
    [
        (48, 0, 30, 1.0),  # the highest throughput, empty queues
        (48, 0, 60, 0.5),
        (24, 0, 30, 0.5),
        (40, 2, 45, (40 - 5 * 2) / 48 * 30 / 45),
        (10, 10, 30, (10 - 50) / 48),
    ],
)
def test_hyvar(throughput: float, loss: float, rtt: float, expected: float) -> None:
    fields = {"throughput_mbps": throughput, "loss_mbps": loss, "rtt_ms": rtt}
    row = report(HYBRID, throughput_max_mbps=48, rtt_min_ms=30, **fields)
    assert hyvar(row) == pytest.approx([expected], rel=1e-6)


def test_nothing_has_arrived_yet() -> None:
    assert np.array_equal(hyvar(report(HYBRID)), [0])


def test_epsilon_is_a_parameter() -> None:
    row = report(HYBRID, throughput_mbps=10, loss_mbps=1, rtt_ms=20, throughput_max_mbps=10, rtt_min_ms=20)
    assert Reward(RewardConfig(name="hyvar", epsilon=2), HYBRID)(row) == pytest.approx([0.8])


def test_the_highest_throughput_may_be_forgotten() -> None:
    fields = {"throughput_mbps": 10, "rtt_ms": 20, "rtt_min_ms": 20, "throughput_max_mbps": 40}
    row = report(HYBRID, throughput_lately_mbps=20, **fields)
    assert hyvar(row) == pytest.approx([0.25])
    assert Reward(RewardConfig(name="hyvar", lately=1), HYBRID)(row) == pytest.approx([0.5])


def test_an_inference_may_cost_something() -> None:
    row = report(HYBRID, throughput_mbps=10, rtt_ms=20, rtt_min_ms=20, throughput_max_mbps=10, interval_ms=40)
    assert Reward(RewardConfig(name="hyvar", inference_ms=2), HYBRID)(row) == pytest.approx([0.95])
    assert Reward(RewardConfig(name="hyvar", inference_ms=2), HYBRID)(report(HYBRID)) == pytest.approx([-2])


def test_aurora() -> None:
    # 12 Mbit/s are 1000 packets/s.
    row = report(AURORA, throughput_mbps=12, rtt_ms=50, loss_ratio=0.02)
    assert aurora(row) == pytest.approx([10 * 1000 - 1000 * 0.05 - 2000 * 0.02])


def test_rows_are_independent() -> None:
    rows = np.random.default_rng(1).uniform(0.1, 50, (20, len(HYBRID.report))).astype(np.float32)
    assert np.array_equal(hyvar(rows), np.concatenate([hyvar(row[None]) for row in rows]))
    assert hyvar(rows).dtype == np.float32


def test_one_unit_of_time_is_the_naive_rule() -> None:
    worth, discount = discounted(np.array([0.7]), np.array([0.02]), gamma=0.99, unit_s=0.02)
    assert worth == pytest.approx([0.7]) and discount == pytest.approx([0.99])


def test_how_time_is_cut_does_not_change_what_it_is_worth() -> None:
    """A constant reward over 200 ms: as one interval, as ten, and as three of different lengths."""
    totals = []
    for cuts in ([0.2], [0.02] * 10, [0.01, 0.15, 0.04]):
        total, so_far = 0.0, 1.0
        for length in cuts:
            worth, discount = discounted(np.array([0.8]), np.array([length]), gamma=0.98, unit_s=0.02)
            total += so_far * float(worth[0])
            so_far *= float(discount[0])
        totals.append((total, so_far))
    assert totals[1] == pytest.approx(totals[0], rel=1e-5) and totals[2] == pytest.approx(totals[0], rel=1e-5)
