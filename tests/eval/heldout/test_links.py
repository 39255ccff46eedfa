"""The held-out links: what they cover, that they repeat, and where runs on traces start."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from ccarena import _core
from ccarena.errors import ConfigError
from ccarena.eval.heldout import evaluate, links
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.one_run import perform
from tests.envs.acct import REPORT


def test_the_links_cover_the_stated_ranges_and_repeat(simulated: list[dict[str, Any]]) -> None:
    constant = links.build(["constant"], seeds=4)
    rates = [link.service["rate_mbps"] for link in constant]
    assert (min(rates), max(rates)) == links.RATE_MBPS
    assert all(links.RTT_MS[0] <= link.base_rtt_ms <= links.RTT_MS[1] for link in constant)
    steps = links.build(["steps"], seeds=2)
    assert [step["at_s"] for step in steps[0].service["steps"]] == [4.0 * k for k in range(15)]
    assert all(5 <= step["rate_mbps"] <= 100 for link in steps for step in link.service["steps"])
    assert len({json.dumps(link.service) for link in steps}) == len(steps)
    cellular = links.build(["cellular"], seeds=2, duration_s=1.0)
    assert [link.buffer_packets for link in cellular] == [100, 1000, 100, 1000]
    assert all(link.base_rtt_ms == 40 and link.service["type"] == "trace" for link in cellular)
    every = links.build(list(links.LINK_SETS), 2)
    assert every == links.build(list(links.LINK_SETS), 2)
    assert [link for link in every if link.link_set == "constant"] == constant[: len(constant) // 2]
    silent = [link for link in every if link.link_set == "silent"]
    assert [link.service for link in silent] == [link.service for link in constant[: len(constant) // 2]]
    assert not any(link.router for link in silent)


def test_a_sender_hears_what_each_router_lacks() -> None:
    heard = {}
    for link in links.build(["signals"], 1, 6.0):
        run = links.scenario(link, parse("acct=2"))
        reports = _core.simulate(json.dumps(run))["flows"][0]["reports"]
        heard[link.name] = set(reports[:, REPORT.advertised_mbps].tolist())
    assert set(heard) == set(links.ROUTERS)
    nothing = 10_000.0
    assert heard["silent"] == {nothing}
    assert nothing in heard["late"] and nothing in heard["often missing"] and len(heard["often missing"]) > 1
    assert len(heard["noisy"]) > 10 * len(heard["measured now and then"])
    # With two bits a rate is 1 or 1.5 times a power of two.
    for rate in heard["coarse"]:
        assert math.frexp(rate * 1e6 * (1 + 1e-7))[0] in (pytest.approx(0.5, rel=1e-6), pytest.approx(0.75, rel=1e-6))


def test_flows_beside_the_entrant_take_their_share() -> None:
    shares = {}
    for link in links.build(["l4s"], 1, 4.0):
        document = links.scenario(link, parse("prague"))
        assert document["links"][0]["queue"]["type"] == "dualpi2" and "router" in document["links"][0]
        flows = perform(document, SIM).result["flows"]
        assert len(flows) == 1 + len(link.others) and flows[0]["feedback"] == "accurate"
        total = sum(flow["delivered_bytes"] for flow in flows)
        shares[link.name] = flows[0]["delivered_bytes"] / total
    assert list(shares) == list(links.L4S)
    assert shares["alone"] == 1 and all(0.2 < share < 0.8 for name, share in shares.items() if "beside" in name)
    result = evaluate.run_lineup(links.build(["l4s"], 1, 2.0), [parse("prague")], {})
    labels = {
        row["link"]: {each["scheme"] for each in result.rows if each["link"] == row["link"]} for row in result.rows
    }
    assert labels["beside both"] == {"prague"} and len(labels["alone"]) == 3, "bounds are of a lone sender"


def test_opportunities_are_those_of_the_run(simulated: list[dict[str, Any]]) -> None:
    link = links.build(["cellular"], 1, duration_s=1.0)[0]
    moved = links.Link(**{**vars(link), "service": {**link.service, "offset_ms": 8500}})
    times = opportunities_ms(moved)
    assert times is not None
    # 250 of the first lap, which ends at 8998, and then the next lap's, shifted by that.
    assert times.tolist() == [ms - 8500 for ms in range(8500, 9000, 2)] + [498 + ms for ms in range(2, 503, 2)]
    assert opportunities_ms(links.build(["constant"], 1, 1.0)[0]) is None


def opportunities_ms(link: links.Link) -> Any:
    """Returns the delivery opportunities of a flow over this link."""
    run = perform(links.scenario(link, parse("reno")), SIM)
    return run.measured().flows[0].opportunities_ms


@pytest.mark.parametrize(
    ("link_sets", "seeds", "duration_s", "message"),
    [
        (["constnt"], 1, 1.0, 'unknown link set "constnt"; did you mean "constant"'),
        (["constant"], 0, 1.0, "seeds = 0"),
        (["constant"], 1, -1.0, "duration_s = -1:"),
        (["constant"], 1, math.nan, "duration_s = nan"),
    ],
)
def test_impossible_link_sets_are_refused(link_sets: list[str], seeds: int, duration_s: float, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        links.build(link_sets, seeds, duration_s)


def test_longer_paths_and_acknowledgements_over_the_other_direction(
    simulated: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for direction in ("down", "up"):
        (tmp_path / f"Verizon-LTE-short.{direction}").write_text("".join(f"{ms}\n" for ms in range(2, 9000, 2)))
    (tmp_path / "TMobile-LTE-driving.down").write_text("1\n9000\n")
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    far = links.build(["cellular-50ms"], 1, duration_s=1.0)
    assert {(link.base_rtt_ms, link.buffer_packets) for link in far} == {(100.0, 100)} and len(far) == 3
    both = links.build(["cellular-uplink"], 1, duration_s=1.0)
    assert [link.name.split(",")[0] for link in both] == ["Verizon-LTE-short.down", "Verizon-LTE-short.up"]
    document = links.scenario(both[0], parse("cubic"))
    _core.validate_scenario(json.dumps(document))
    assert document["links"][1]["service"]["file"].endswith("Verizon-LTE-short.up")
    assert document["flows"][0]["return_path"] == ["back"]
    only = links.build(["cellular", "constant"], 1, duration_s=1.0, recordings=["TMobile-LTE-driving.down"])
    assert {link.name.split(",")[0] for link in only if link.recorded} == {"TMobile-LTE-driving.down"}
    assert any(not link.recorded for link in only)
    with pytest.raises(ConfigError, match=r"eval\.recordings: unknown recording"):
        links.build(["cellular"], 1, recordings=["Verizon-LTE-shrt.down"])


def test_links_of_models_and_lossy_links_run() -> None:
    """Every link of the sets of today carries a flow, with the base RTT that it says and its own conditions."""
    chosen = links.build(["satellite", "5g", "wifi", "lossy"], 1, 4.0)
    assert len(chosen) == 15 and len({link.name for link in chosen}) == 15
    for link in chosen:
        document = links.scenario(link, parse("cubic"))
        (checked,) = json.loads(_core.validate_scenario(json.dumps(document)))["links"]
        assert 2 * checked["delay_ms"] == pytest.approx(link.base_rtt_ms)
        run = _core.simulate(json.dumps(document))
        assert run["flows"][0]["delivered_bytes"] > 0, link.name
    again = links.build(["satellite"], 2, 4.0)
    assert again[:4] == chosen[:4] and again[4].more != again[0].more
