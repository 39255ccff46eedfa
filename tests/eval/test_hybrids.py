"""Hyvar's evaluation: its links, expectations and verdict, and the command that runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena.eval import hybrids
from ccarena.eval.evaluate import Evaluation
from ccarena.eval.hybrids import CONSTANTS, build, judge, unlearned
from ccarena.hyvar.spec import LAYOUTS
from tests.policies.made import continuous


def row(group: str, scheme: str, link: str = "a", **figures: float) -> dict[str, object]:
    known = {"throughput_mbps": 40.0, "queueing_delay_mean_ms": 20.0, "power": 100.0, "inferences_per_s": 5.0}
    return {"suite": group.split(",")[0], "group": group, "link": link, "seed": 0, "scheme": scheme, **known, **figures}


def evaluation(rows: list[dict[str, object]], scheme: str = "hyvar") -> Evaluation:
    return Evaluation(rows=rows, meta={"scheme": scheme})


def test_links_are_the_slides_and_the_held_out_ones() -> None:
    (slides,) = build(["slides"], seeds=1)
    assert (slides.service["rate_mbps"], slides.base_rtt_ms, slides.buffer_packets) == (48.0, 30.0, 120)
    both = build(["constant", "slides"], seeds=2, duration_s=5)
    assert [link.seed for link in both if link.suite == "slides"] == [0, 1]
    assert len([link for link in both if link.suite == "constant"]) == 18 and {link.duration_s for link in both} == {5}


@pytest.mark.parametrize(
    ("ours", "holds"),
    [
        ({"throughput_mbps": 36.0, "queueing_delay_mean_ms": 10.0}, True),
        ({"throughput_mbps": 35.9, "queueing_delay_mean_ms": 10.0}, False),
        ({"throughput_mbps": 40.0, "queueing_delay_mean_ms": 10.1}, False),
    ],
)
def test_wired_links_ask_for_throughput_and_delay(ours: dict[str, float], holds: bool) -> None:
    verdict = judge(evaluation([row("constant", "hyvar", **ours), row("constant", "cubic")]))
    assert [e.holds for e in verdict.expectations] == [holds] and verdict.learned == holds


def test_cellular_links_ask_for_power_on_the_median_trace() -> None:
    group = "cellular, 100 packets"
    rows = [row(group, "cubic", link) for link in "abc"]
    powers = {"a": 90.0, "b": 150.0, "c": 400.0}
    verdict = judge(evaluation(rows + [row(group, "hyvar", link, power=power) for link, power in powers.items()]))
    (expectation,) = verdict.expectations
    assert expectation.holds and expectation.values["power_ratio"] == pytest.approx(1.5)
    assert not judge(evaluation(rows + [row(group, "hyvar", link, power=140) for link in "abc"])).learned


def test_hyvar_alone_has_to_think_seldom() -> None:
    rows = [row("slides", "cubic"), row("slides", "hyvar", queueing_delay_mean_ms=5, inferences_per_s=10.5)]
    verdict = judge(evaluation(rows))
    assert [e.holds for e in verdict.expectations] == [True, False] and "10.5 inferences/s" in verdict.line
    orca = [row("slides", "cubic"), row("slides", "orca", queueing_delay_mean_ms=5, inferences_per_s=50)]
    assert judge(evaluation(orca, "orca")).learned


def test_a_reward_that_did_not_rise_is_said() -> None:
    rows = [row("constant", "hyvar", queueing_delay_mean_ms=5), row("constant", "cubic")]
    rising = [{"reward_mean": k / 100} for k in range(100)]
    assert judge(evaluation(rows), rising).learned
    verdict = judge(evaluation(rows), rising[::-1])
    assert not verdict.learned and "the reward did not rise" in verdict.line


@pytest.mark.parametrize("scheme", sorted(CONSTANTS))
def test_a_policy_is_evaluated_from_its_file(scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: nothing evaluated (run make)")
    pytest.importorskip("plotly", reason="PLOTLY NOT INSTALLED: the report is not written")
    from ccarena.cli import main

    env = {"id": f"ccarena/{scheme.title()}-v0", scheme: {}}
    made = continuous(LAYOUTS[scheme].id, 0.0, bias=-0.05, training={"env": env})
    made.save(tmp_path / "policy.safetensors")
    words = ["eval", str(tmp_path), "--suite", "slides", "--seeds", "1", "--duration-s", "3", "--schemes", "reno"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert f"{unlearned(scheme)} always" in shown and "verdict: " in shown
    results = json.loads((tmp_path / "eval" / "results.json").read_text())
    assert {r["scheme"] for r in results["rows"]} == {
        scheme,
        "cubic",
        "reno",
        unlearned(scheme),
        "oracle",
    }
    ours = [r for r in results["rows"] if r["scheme"] == scheme]
    assert ours[0]["inferences_per_s"] > 1
    page = (tmp_path / "eval" / "report.html").read_text()
    assert "ACCT" not in page.split("<body")[1].split("What the figures mean")[0]
    assert hybrids.SLIDES in page
