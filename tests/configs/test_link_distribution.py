"""Domain randomisation: what is drawn stays within what was configured, and names that mean nothing are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from ccarena import _core
from ccarena.configs import load_config, shipped
from ccarena.configs.link_distribution import trained_on, with_link_files
from ccarena.configs.schema import EnvConfig
from ccarena.envs import LearnedVectorEnv, distribution_json
from ccarena.errors import ConfigError, ScenarioError, TraceError
from tests.envs.acct import REPORT, AcctVectorEnv, Zone

CONSTANT = {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0}
WIRE_BITS = 1500 * 8


def reports(action: int = 5, worlds: int = 128, steps: int = 25, **link: Any) -> np.ndarray:
    """Reports `[steps, worlds, columns]` of the first episode of many worlds, nobody else on the link."""
    overrides = {f"env.link.{key}": value for key, value in {"kinds": CONSTANT, "signal": 1, **link}.items()}
    config = load_config("acct", {**overrides, "env.cross_traffic.probability": 0, "env.episode_s": 1000})
    envs = LearnedVectorEnv(config, worlds, seed=1)
    envs.reset()
    return np.array([envs.step(np.full(worlds, action))[4]["reports"] for _ in range(steps)])


def test_rates_and_round_trip_times_are_drawn_from_their_ranges() -> None:
    last = reports(rate_mbps=[7, 70], rtt_ms=[20, 80], buffer_bdp=4)[-1]
    rate, rtt = last[:, REPORT.advertised_mbps], last[:, REPORT.rtt_min_ms]
    assert rate.min() >= 7 * 0.999 and rate.max() <= 70 * 1.001 and rate.min() < 8 and rate.max() > 60
    # One packet's serialisation comes on top of the propagation.
    serialisation_ms = WIRE_BITS / (rate * 1e3)
    assert (rtt >= 20).all() and (rtt - 2 * serialisation_ms <= 80).all() and rtt.min() < 25 and rtt.max() > 70
    # Log-uniform: half of the draws are below the geometric mean.
    assert 0.35 < (rate < np.sqrt(7 * 70)).mean() < 0.65


def test_a_single_value_is_no_distribution() -> None:
    last = reports(rate_mbps=24, rtt_ms=40, worlds=8)[-1]
    assert np.ptp(last[:, REPORT.advertised_mbps]) == 0 and np.ptp(last[:, REPORT.rtt_min_ms]) < 0.01


def test_rates_step_within_their_range() -> None:
    steps = {"constant": 0, "random_steps": 1, "cellular": 0, "trace": 0}
    rows = reports(kinds=steps, rate_mbps=[10, 50], step_s=0.2, rtt_ms=20, worlds=16, steps=60)
    seen = rows[2:, :, REPORT.advertised_mbps]
    assert seen.min() >= 10 * 0.999 and seen.max() <= 50 * 1.001
    assert all(len(np.unique(seen[:, world])) > 3 for world in range(16))


@pytest.mark.parametrize("packets", [20, 60])
def test_buffers_limit_the_queue(packets: int) -> None:
    """Every α at its highest and no signal: the buffer alone holds the queue."""
    rows = reports(action=14, worlds=16, steps=60, rate_mbps=24, rtt_ms=20, signal=0, buffer_packets=[packets, packets])
    queued = rows[..., REPORT.queueing_delay_ms].max() * 24e3 / WIRE_BITS
    assert 0.5 * packets < queued <= packets + 1
    assert rows[..., REPORT.lost_packets].sum() > 0


def test_without_a_router_no_rate_is_advertised() -> None:
    rows = reports(action=9, signal=0)
    assert (rows[..., REPORT.advertised_mbps] == 10_000).all()
    assert set(np.unique(rows[..., REPORT.zone])) == {Zone.GREEN, Zone.BLUE}
    some = reports(action=9, signal=0.5, rtt_ms=20)[-1, :, REPORT.advertised_mbps]
    assert 0.3 < (some == 10_000).mean() < 0.7


def test_loss_is_drawn_from_its_range() -> None:
    rows = reports(rate_mbps=50, rtt_ms=20, loss=0.02, buffer_bdp=100, steps=80)
    share = rows[..., REPORT.lost_packets].sum() / rows[..., REPORT.acked_packets].sum()
    assert 0.012 < share < 0.028
    assert reports(rate_mbps=50, rtt_ms=20, buffer_bdp=100)[..., REPORT.lost_packets].sum() == 0


def test_cross_traffic_takes_its_share() -> None:
    def mean_mbps(probability: float) -> float:
        config = EnvConfig.model_validate(
            {
                "episode_s": (10.0, 10.0),
                "link": {"kinds": {"constant": 1.0}, "rate_mbps": (24.0, 24.0), "rtt_ms": (20.0, 20.0)},
                "cross_traffic": {"probability": probability, "schemes": ["cubic"], "flows": (2, 2)},
            }
        )
        envs = AcctVectorEnv(16, config, seed=2)
        envs.reset()
        got = [envs.step(np.full(16, 3))[4]["reports"][:, REPORT.throughput_mbps].mean() for _ in range(150)]
        return float(np.mean(got))

    assert mean_mbps(1.0) < 0.9 * mean_mbps(0.0)


def test_queues_and_flows_that_answer_marks_are_drawn() -> None:
    schemes = ["prague", {"scheme": "cubic", "ecn": True}]
    config = load_config(
        "acct",
        {
            "env.link.queues": [{"type": "dualpi2", "step_ms": 2}, {"type": "droptail"}],
            "env.cross_traffic": {"probability": 1, "schemes": schemes, "flows": 2, "on_off": 0},
        },
    )
    drawn = [
        json.loads(_core.draw_scenario(distribution_json=distribution_json(config), seed=seed)) for seed in range(20)
    ]
    queues = [each["links"][0]["queue"] for each in drawn]
    assert {queue["type"] for queue in queues} == {"dualpi2", "droptail"}
    assert all(queue["step_ms"] == 2 for queue in queues if queue["type"] == "dualpi2")
    flows = [flow for each in drawn for flow in each["flows"][1:]]
    assert {(flow["scheme"], flow["ecn"]) for flow in flows} == {("prague", "accurate"), ("cubic", True)}
    assert {flow["app"]["type"] for flow in flows} == {"bulk"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"env.link.queues": [{"type": "dualpi"}]}, r'link\.queues\.type: .*"dualpi".*did you mean "dualpi2"'),
        ({"env.link.queues": [{"type": "dualpi2", "coupling": 0}]}, r"link\.queues\.coupling: got 0; expected"),
        ({"env.link.queues": []}, r"env\.link\.queues"),
        ({"env.cross_traffic.schemes": [{"scheme": "cubik"}]}, r'unknown scheme "cubik"; did you mean "cubic"'),
        ({"env.cross_traffic.schemes": [{"scheme": "cubic", "ecn": "precise"}]}, r"env\.cross_traffic\.schemes"),
        (
            {"env.cross_traffic.schemes": [{"scheme": "cubic", "ecn": True, "l4s": True}]},
            r"cross_traffic.*l4s: got true",
        ),
    ],
)
def test_queues_and_flows_that_a_scenario_refuses_are_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ScenarioError), match=message):
        _core.draw_scenario(distribution_json=distribution_json(load_config("acct", overrides)))


def test_recorded_traces_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    kinds = {**CONSTANT, "constant": 0, "trace": 1}
    with pytest.raises(ConfigError, match=r"no recorded trace was found.*ccarena traces fetch"):
        reports(kinds=kinds)
    # A packet per ms, 12 Mbit/s.
    (tmp_path / "even.trace").write_text("".join(f"{ms}\n" for ms in range(1, 5001)))
    rows = reports(kinds=kinds, worlds=4, rtt_ms=40, steps=60, buffer_bdp=100)
    assert rows[-1, :, REPORT.advertised_mbps] == pytest.approx(12, rel=0.02)
    assert np.median(rows[20:, :, REPORT.throughput_mbps]) == pytest.approx(12, rel=0.1)
    with pytest.raises(ConfigError, match=r'env\.link\.traces: no trace "evn\.trace".*did you mean "even\.trace"'):
        reports(kinds=kinds, traces=["evn.trace"])
    (tmp_path / "broken.trace").write_text("5\n3\n")
    with pytest.raises(TraceError, match=r"broken\.trace:2"):
        reports(kinds=kinds, traces=["broken.trace"], worlds=2)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"env.link.presets": ["lte-drivng"]},
            r'env\.link\.presets: unknown preset "lte-drivng"; did you mean "lte-dri',
        ),
        (
            {"env.cross_traffic.schemes": ["cubik"]},
            r'cross_traffic\.schemes: unknown scheme "cubik"; did you mean "cubic"',
        ),
        ({"env.cross_traffic.schemes": ["acct"]}, r'unknown scheme "acct"'),
        ({"params": {"budget": 5}}, r'params: unknown parameter "budget"; did you mean "budget_ms"'),
        ({"params": {"budget_ms": -1}}, r"params\.budget_ms is -1; expected"),
    ],
)
def test_unknown_names_get_the_nearest(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        distribution_json(load_config("acct", overrides))


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_configuration_has_worlds(name: str) -> None:
    gymnasium.make_vec("ccarena/Learned-v0", spec=name, num_envs=2).reset(seed=1)


def test_every_preset_can_be_trained_on() -> None:
    for preset in _core.cellular_presets():
        kinds = {**CONSTANT, "constant": 0, "cellular": 1}
        rows = reports(kinds=kinds, presets=[preset["name"]], worlds=2, steps=20)
        assert np.isfinite(rows).all() and rows[..., REPORT.acked_packets].sum() > 0


def test_routers_lack_what_is_configured() -> None:
    lacking = {"every_ms": [50, 100], "late_ms": 30, "noise": [0.1, 0.2], "bits": [2, 4], "missing": 0.25}
    config = load_config("acct", {"env.link.signal": 1, "env.link.router": lacking})
    drawn = [
        json.loads(_core.draw_scenario(distribution_json=distribution_json(config), seed=seed)) for seed in range(20)
    ]
    routers = [each["links"][0]["router"] for each in drawn]
    assert {router["bits"] for router in routers} == {2, 3, 4}
    for router in routers:
        assert 50 <= router["every_ms"] <= 100 and 0.1 <= router["noise"] <= 0.2
        assert (router["late_ms"], router["missing"]) == (30, 0.25)
    assert len({router["noise"] for router in routers}) == len(routers)
    with pytest.raises(ConfigError, match="bits"):
        load_config("acct", {"env.link.router": {"bits": [0, 65]}})


def test_routers_lack_one_thing_alone_where_it_is_configured() -> None:
    lacking = {"every_ms": 100, "late_ms": 30, "noise": 0.2, "single": 1}
    config = load_config("acct", {"env.link.signal": 1, "env.link.router": lacking})
    drawn = [
        json.loads(_core.draw_scenario(distribution_json=distribution_json(config), seed=seed)) for seed in range(20)
    ]
    routers = [each["links"][0]["router"] for each in drawn]
    found = {tuple(key for key in lacking if router.get(key)) for router in routers}
    assert found == {("every_ms",), ("late_ms",), ("every_ms", "noise")}
    with pytest.raises(ConfigError, match="single"):
        load_config("acct", {"env.link.router": {"single": 1.5}})


def test_recordings_are_reshaped_as_configured(tmp_path: Path) -> None:
    trace = tmp_path / "steady"
    _core.write_trace(trace, np.arange(1, 60_001, dtype=np.uint32))
    augment = {"mean_mbps": [0.2, 2], "stretch": 1.5, "outages": 1, "outage_mbps": [0.01, 0.02]}
    overrides = {"kinds": {"trace": 1}, "traces": [str(trace)], "augment": augment, "uplinks": 1, "delayed_acks": 0}
    config = load_config("acct", {f"env.link.{key}": value for key, value in {**overrides, "unlimited": 1}.items()})
    drawn = json.loads(_core.draw_scenario(distribution_json=distribution_json(config), seed=3))
    data, uplink = drawn["links"]
    reshape = data["service"]["reshape"]
    assert (
        reshape["stretch"] == 1.5
        and 0.2 <= reshape["mean_mbps"] <= 2
        and 0.01 <= reshape["outages"]["rate_mbps"] <= 0.02
    )
    assert uplink["service"]["reshape"]["mean_mbps"] is None
    assert data["queue"] == {"type": "infinite"}
    flow = drawn["flows"][0]
    assert flow["return_path"] == ["uplink"] and flow["delayed_ack"] is False
    # What is drawn also runs.
    flow["policy"] = {"constant": 1}
    result = _core.simulate(json.dumps({**drawn, "duration_s": 5}))
    assert result["flows"][0]["delivered_bytes"] > 0


def test_link_models_are_drawn_with_their_own_delay_and_trained_on() -> None:
    """Each episode has a fresh trace of one of the models, and its base RTT."""
    kinds = {"constant": 1, "random_steps": 0, "cellular": 0, "model": 3}
    link = {"env.link.kinds": kinds, "env.link.models": ["satellite", "wifi"], "env.link.loss": [0.1, 0.1]}
    config = load_config("acct", {**link, "env.cross_traffic.probability": 0, "env.episode_s": 5})
    drawn = [_core.draw_scenario(distribution_json(config), seed=1, world=world) for world in range(40)]
    links_ = [json.loads(text)["links"][0] for text in drawn]
    of_models = [each for each in links_ if each.get("conditions")]
    assert 20 <= len(of_models) <= 38
    names = {each["conditions"]["model"] for each in of_models}
    assert "wifi" in names and "starlink" in names and not any(name.startswith(("5g", "cable")) for name in names)
    assert len({each["conditions"]["seed"] for each in of_models}) == len(of_models)
    for each in of_models:
        conditions = each["conditions"]
        assert each["delay_ms"] == pytest.approx(_core.base_delay_ms(conditions["model"], conditions["seed"]))
        assert each["loss"] == 0 and each["service"] == {"type": "conditions"}
    envs = LearnedVectorEnv(config, 8, seed=1)
    envs.reset()
    rewards = np.array([envs.step(np.full(8, 5))[1] for _ in range(20)])
    assert np.isfinite(rewards).all() and np.ptp(rewards) > 0
    with pytest.raises(ConfigError, match=r'env.link.models: unknown link model "starlnk"; did you mean "starlink"'):
        distribution_json(load_config("acct", {"env.link.kinds": kinds, "env.link.models": ["starlnk"]}))


def test_trainings_draw_conditions_traces_from_random_starts(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_text("time_ms,rate_mbps,delay_ms,loss\n0,20,20,0\n700,8,55,0.01\n1500,14,30,0\n")
    kinds = {**CONSTANT, "constant": 0, "conditions": 1}
    steps = reports(worlds=16, steps=60, kinds=kinds, conditions=[str(path)])
    assert np.isfinite(steps).all()
    rtt_min_ms, advertised = steps[-1, :, REPORT.rtt_min_ms], steps[:, :, REPORT.advertised_mbps]
    assert (rtt_min_ms >= 40).all() and rtt_min_ms.max() < 85  # twice the least delay, and what the way there has more
    assert len(np.unique(advertised[0])) > 1 and set(np.unique(advertised.round(3))) <= {0, 8, 14, 20}
    with pytest.raises(ConfigError, match='"conditions" is empty'):
        load_config("acct", {"env.link.kinds": kinds})
    with pytest.raises(TraceError, match="no trace"):
        reports(worlds=1, steps=1, kinds=kinds, conditions=["absent.csv"])


FIND = """\
duration_s: 7
links:
- name: link
  service: {type: steps, steps: [{at_s: 0, rate_mbps: 12}, {at_s: 2, rate_mbps: 3}]}
  queue: {type: codel, packets: 77}
  delay_ms: {steps: [{at_s: 0, delay_ms: 20}, {at_s: 4, delay_ms: 45}]}
  jitter_ms: 2
  loss: 0.01
flows:
- {name: attacked, scheme: "runs/mine@budget_ms=8", app: {type: bulk}}
- {name: beside, scheme: cubic, start_s: 1, count: 2}
- {name: itself, scheme: "runs/mine@budget_ms=8"}
"""


def test_trainings_draw_what_attacks_have_found(tmp_path: Path) -> None:
    (tmp_path / "01-loss.yaml").write_text(FIND)
    (tmp_path / "finds.yaml").write_text("attack: 1\nfinds: [{scenario: 01-loss.yaml}]\n")
    (tmp_path / "02-mine.yaml").write_text("a file of the user, which no list names")
    keys = {"env.link.kinds": {**CONSTANT, "adversarial": 3}, "env.link.adversarial": [str(tmp_path)]}
    config = load_config("acct", {**keys, "env.cross_traffic.probability": 0, "env.learners": 2})
    drawn = [json.loads(_core.draw_scenario(distribution_json(config), world=world)) for world in range(200)]
    found = [each for each in drawn if each["links"][0]["queue"]["type"] == "codel"]
    assert 120 <= len(found) <= 180
    for each in found[:3]:
        link = each["links"][0]
        assert each["duration_s"] == 7 and link["jitter_ms"] == 2 and link["loss"] == 0.01
        assert link["service"]["steps"][1]["rate_mbps"] == 3 and link["delay_ms"]["steps"][1]["delay_ms"] == 45
        assert [flow["scheme"] for flow in each["flows"]] == ["acct", "acct", "cubic", "cubic"]
    assert len({each["seed"] for each in found}) == len(found)
    envs = LearnedVectorEnv(config, 8, seed=1)
    envs.reset()
    assert np.isfinite([envs.step(np.full(8, 5))[1] for _ in range(20)]).all()
    assert {"kind": "find", "name": "01-loss.yaml"}.items() <= trained_on(config)[-2].items()
    files = with_link_files(config)
    assert files.env.link.adversarial == [str(tmp_path / "01-loss.yaml")], "what is sent to other machines"
    assert distribution_json(files) == distribution_json(config)


def test_links_without_finds_are_drawn_as_before() -> None:
    none = load_config("acct", {"env.link.kinds": CONSTANT})
    text = distribution_json(none)
    without = json.loads(text)
    del without["link"]["adversarial"], without["link"]["kinds"]["adversarial"]
    assert _core.draw_scenario(json.dumps(without), seed=3) == _core.draw_scenario(text, seed=3)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "cannot read: No such file"),
        ("links: []\n", "is no scenario; expected a find"),
        (FIND.replace("cubic", "cubik"), 'flows\\[1\\].scheme.*"cubik"'),
        (FIND.replace("rate_mbps: 3", "rate_mbps: -3"), ".*rate_mbps: got -3"),
    ],
)
def test_a_find_that_is_none_is_refused_by_its_file(content: str | None, error: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    if content is not None:
        path.write_text(content)
    keys = {"env.link.kinds": {"adversarial": 1}, "env.link.adversarial": [str(path)]}
    with pytest.raises(ConfigError, match=f"env.link.adversarial: .*own.yaml: {error}"):
        distribution_json(load_config("acct", keys))
    with pytest.raises(ConfigError, match="holds no finds"):
        distribution_json(load_config("acct", {**keys, "env.link.adversarial": [str(tmp_path / "")]}))
    with pytest.raises(ConfigError, match='"adversarial" is empty'):
        load_config("acct", {"env.link.kinds": {"adversarial": 1}})
