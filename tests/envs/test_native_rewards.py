"""The native rewards of shipped schemes, against their formulas in NumPy, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ccarena.configs import load_config
from ccarena.configs.schema import RewardConfig
from ccarena.envs.rewards import Columns, Reward
from ccarena.policies.spec import Spec, spec_of

Floats = NDArray[np.float32]


def acct(report: Any, privileged: Any, spec: Spec, omega: float, zeta: float, beta: float) -> Floats:
    values, scaled = np.asarray(spec.actions, np.float64), 1.0 + 0.1 * np.arange(len(spec.actions))
    burstiness = np.abs(np.interp(report.alpha, values, scaled) - np.interp(report.previous_alpha, values, scaled))
    hold = float(spec.actions[-1] + 1) - report.alpha - zeta * burstiness
    hold -= beta * report.delay_ratio * (report.zone == 3)
    return (np.where(report.zone == 0, report.alpha, hold) - omega * report.lost_packets).astype(np.float32)


def aurora(report: Any, privileged: Any, spec: Spec, throughput: float, latency: float, loss: float) -> Floats:
    packets_per_s = report.throughput_mbps * np.float32(1e6 / 12_000)
    return throughput * packets_per_s - latency * report.rtt_ms / 1e3 - loss * report.loss_ratio


def hyvar(report: Any, privileged: Any, spec: Spec, epsilon: float, lately: float, inference_ms: float) -> Floats:
    useful = report.throughput_mbps - epsilon * report.loss_mbps
    best = (report.throughput_lately_mbps if lately >= 0.5 else report.throughput_max_mbps) * report.rtt_ms
    power = useful * report.rtt_min_ms
    reward = np.divide(power, best, out=np.zeros_like(power), where=best > 0)
    return reward - inference_ms / np.maximum(report.interval_ms, 1.0) if inference_ms else reward


def l4s(report: Any, privileged: Any, spec: Spec, delay_ms: float) -> Floats:
    rate, share = np.maximum(privileged.own_mbps, 1e-3), np.maximum(privileged.fair_share_mbps, 1e-3)
    return np.minimum(rate, share) / np.maximum(rate, share) * delay_ms / (delay_ms + report.queueing_delay_ms)


@pytest.mark.parametrize(
    ("formula", "coefficients"),
    [
        (acct, {"omega": 10.0, "zeta": 1.0, "beta": 10.0}),
        (acct, {"omega": 0.3, "zeta": 5.7, "beta": 0.1}),
        (aurora, {"throughput": 10.0, "latency": 1000.0, "loss": 2000.0}),
        (hyvar, {"epsilon": 5.0, "lately": 0.0, "inference_ms": 0.0}),
        (hyvar, {"epsilon": 1.3, "lately": 1.0, "inference_ms": 0.7}),
        (l4s, {"delay_ms": 10.0}),
        (l4s, {"delay_ms": 0.3}),
    ],
)
def test_native_rewards_are_their_formulas(formula: Any, coefficients: dict[str, float]) -> None:
    spec = spec_of(load_config(formula.__name__))
    random = np.random.default_rng(1)
    report = (random.random((400, len(spec.report))) * 10.0 ** random.integers(-2, 3)).astype(np.float32)
    if formula is acct:
        report[:, spec.report.index("zone")] = random.integers(0, 4, 400)
        for alpha in ("alpha", "previous_alpha"):
            report[:, spec.report.index(alpha)] = random.choice([0.5, 1.7, *spec.actions, 500.0], 400)
    privileged = (random.random((400, len(spec.privileged))) * 50).astype(np.float32)
    report[::9], privileged[::7] = 0.0, 0.0
    columns = [Columns(table, {name: k for k, name in enumerate(names)}, "the test")
               for table, names in ((report, spec.report), (privileged, spec.privileged))]  # fmt: skip
    native = Reward(RewardConfig(name=formula.__name__, **coefficients), spec)(report, privileged)
    assert np.array_equal(native, formula(*columns, spec, **coefficients))
