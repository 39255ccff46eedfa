"""Observations of the published controllers equal a computation of their own from a run's packets, number by number.

The weights play no part: a flow runs the controller's spec under a constant action.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ccarena import _core
from ccarena.policies.published import spec_text
from ccarena.scenarios.backends import simulate
from tests.policies.packet_log import MSS, Heard, heard

SEEN_ONLY = ("history", "offset", "scale", "clip")
"""Fields of an observed signal that a column of a report has not."""
MTU = 1500


def recorded(
    name: str, action: float, loss: float = 0.004, **flow: Any
) -> tuple[list[Heard], dict[str, NDArray[np.float64]]]:
    """Returns what a flow's packets say, and what its controller reported at each decision, with the number of segments
    that had left by then.
    """
    spec = json.loads(spec_text(name))
    spec.pop("start", None)
    signals = spec["observe"]["signals"]
    columns = [{key: value for key, value in each.items() if key not in SEEN_ONLY} for each in signals]
    named = {each.get("as", each.get("signal")) for each in columns}
    spec["report"] = columns + [each for each in ("cwnd_packets", "loss_mbps", "interval_ms") if each not in named]
    link = {
        "service": {"type": "constant", "rate_mbps": 12},
        "delay_ms": 20.0137,
        "queue": {"type": "droptail", "packets": 60},
        "loss": loss,
    }
    flow = {"scheme": spec, "policy": {"constant": action}, "initial_window": 40, **flow}
    record = {"transmissions": True, "reports": True}
    found = simulate({"duration_s": 4, "seed": 4, "links": [link], "flows": [flow], "record": record})["flows"][0]
    assert found["retransmitted_packets"] > 3 or not loss
    reports = np.asarray(found["reports"], float)
    out = dict(zip(_core.learned(json.dumps(spec))["report"], reports.T, strict=True))
    sent = found["transmissions"]
    ends_ms = np.round(np.cumsum(out["interval_ms"]), 3)
    places = np.searchsorted(sent["sent_ns"] / 1e6, ends_ms, side="right")
    out["sent_by_period"] = np.maximum.accumulate(sent["sequence"])[places - 1] + 1.0
    return heard(found), out


def periods(acks: list[Heard], ends: list[int]) -> list[list[Heard]]:
    """Divides acknowledgements into periods, each of which ends before one of `ends`."""
    return [acks[first:end] for first, end in itertools.pairwise([0, *ends])]


def mean_rates(each: list[list[Heard]]) -> NDArray[np.float64]:
    """Returns the mean delivery-rate sample of each period in Mbit/s; 0 without one."""
    rates = [[ack.rate_bps / 1e6 for ack in acks if ack.rate_bps is not None] for acks in each]
    return np.array([np.mean(of_period) if of_period else 0.0 for of_period in rates])


def last_of(acks: list[Heard], ends: list[int], field: str) -> NDArray[np.float64]:
    """Returns a field of the newest acknowledgement at the end of each period; 0 before one."""
    return np.array([getattr(acks[end - 1], field) if end else 0.0 for end in ends], float)


def equal(found: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    """Compares in single precision, which reports have."""
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-9)


def over(x: NDArray[np.float64], y: NDArray[np.float64], default: float = 0.0) -> NDArray[np.float64]:
    """Returns x / y, and `default` where y is 0."""
    return np.where(y == 0, default, x / np.where(y == 0, 1, y))


def test_orcas_features() -> None:
    acks, found = recorded("orca", 0.0)
    begun_ns, ends = 0, []
    for place, ack in enumerate(acks):
        if ack.time_ns >= begun_ns + 30_000_000:
            ends.append(place + 1)
            begun_ns = ack.time_ns
    equal(found["interval_ms"], np.diff(last_of(acks, ends, "time_ns"), prepend=0) / 1e6)
    each = periods(acks, ends)
    rate, window = mean_rates(each), found["cwnd_packets"]
    best = np.maximum.accumulate(rate)
    srtt_ns, rtt_min_ns = (last_of(acks, ends, field) for field in ("srtt_ns", "rtt_min_ns"))
    equal(found["rate_ratio"], over(rate, best))
    equal(found["pacing_ratio"], over(window * MTU * 8e3 / srtt_ns, best))
    equal(found["loss_ratio_5"], over(found["loss_mbps"], best))
    equal(found["samples_ratio"], np.array([sum(ack.rtt_ns is not None for ack in acks) for acks in each]) / window)
    equal(found["rtt_min_share"], rtt_min_ns / srtt_ns)
    equal(found["delay_metric"], rtt_min_ns / srtt_ns)


def test_astraeas_features() -> None:
    acks, found = recorded("astraea", 0.0)
    count = len(found["rate_ratio"])
    equal(found["interval_ms"], np.full(count, 30.0))
    ends = np.searchsorted([ack.time_ns for ack in acks], 30_000_000 * np.arange(1, count + 1), side="right").tolist()
    each = periods(acks, ends)
    rate, window = mean_rates(each), found["cwnd_packets"]
    best = np.maximum.accumulate(rate)
    srtt_ns, rtt_min_ns = (last_of(acks, ends, field) for field in ("srtt_ns", "rtt_min_ns"))
    rtts = [[ack.rtt_ns for ack in acks if ack.rtt_ns is not None] for acks in each]
    rtt_ns = np.array([np.mean(of_period) if of_period else 0.0 for of_period in rtts])
    equal(found["rate_ratio"], np.where(rate == 0, 0.5, over(rate, best)))
    equal(found["rtt_ratio"], np.where(rtt_ns == 0, 2, over(rtt_ns, rtt_min_ns)))
    equal(found["srtt_ratio"], np.where(srtt_ns == 0, 2, over(srtt_ns, rtt_min_ns)))
    # The network sees 9.344 of this: window x 1460 x 8 / smallest RTT in s / best in bytes/s / 10.
    shares = over(over(window * 1460 * 8, rtt_min_ns / 1e9), best * 1e6 / 8) / 10
    equal(found["window_share"] * 9.344, shares)
    equal(found["rate_max"], best)
    equal(found["rtt_min_ms"], rtt_min_ns / 1e6)
    equal(found["loss_ratio"], over(found["loss_mbps"], best))
    equal(found["pacing_ratio"], over(over(window * MTU * 8e3, srtt_ns), best))
    sent = found["sent_by_period"]
    equal(found["outstanding_ratio"], (sent - last_of(acks, ends, "cumulative")) / window)
    equal(found["retransmitted_ratio"], last_of(acks, ends, "repeated") / window)
    assert found["retransmitted_ratio"].max() > 0


# With delayed acknowledgements a loss makes two at one time, between which the records do not order departures.
@pytest.mark.parametrize(("delayed_ack", "loss"), [(False, 0.004), (True, 0.0)])
def test_indigos_features(delayed_ack: bool, loss: float) -> None:
    acks, found = recorded("indigo", 2, loss, delayed_ack=delayed_ack)

    def ms(time_ns: int) -> int:
        return time_ns // 1_000_000

    begun, ends = ms(acks[0].time_ns), []
    for place, ack in enumerate(acks):
        if ms(ack.time_ns) - begun > 10:
            ends.append(place + 1)
            begun = ms(ack.time_ns)
    equal(found["interval_ms"], np.diff(last_of(acks, ends, "time_ns"), prepend=0) / 1e6)
    rtt_min, rows, last = 10**9, [], [0.0, 0.0, 0.0]
    for of_period in periods(acks, ends):
        average: list[float] | None = None
        for ack in of_period:
            if ack.newest is None:
                continue
            rtt = ms(ack.time_ns) - ms(ack.newest.time_ns)
            rtt_min = min(rtt_min, rtt)
            delivered = (ack.delivered - ack.newest.delivered) * MSS
            sent = (ack.sent - ack.newest.sent_before) * MSS
            since = ms(ack.time_ns) - ms(ack.newest.delivered_ns)
            new = [rtt - rtt_min, 0.008 * delivered / max(1, since), 0.008 * sent / max(1, rtt)]
            average = new if average is None else [0.875 * a + 0.125 * x for a, x in zip(average, new, strict=True)]
        last = last if average is None else average
        rows.append(last)
    for name, expected in zip(("delay", "delivery", "send"), np.array(rows).T, strict=True):
        equal(found[name], expected)
    equal(found["cwnd_packets"], np.full(len(rows), 40.0))
