"""Controllers of users: what they are told and asked, how they fail, and where they may stand."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena import _core
from ccarena.cli import main
from ccarena.controllers.classes import flow_of, make
from ccarena.errors import CcarenaError, ConfigError, ControllerError
from ccarena.eval.leaderboard.entrants import line_up
from ccarena.eval.soundness.check import CASES, check
from ccarena.scenarios.backends import refusal, simulate
from ccarena.scenarios.entrants import parse, read

EXAMPLES = Path(__file__).parents[2] / "examples" / "controllers"
RENO, DELAY = f"{EXAMPLES}/reno.py:Reno", f"{EXAMPLES}/delay.py"
LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20, "queue": {"type": "droptail", "packets": 30}}


def run(flow: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return dict(simulate({"duration_s": 3, "links": [LINK], "flows": [flow], **fields})["flows"][0])


class Fixed(ccarena.Controller):
    """Constant window."""

    def __init__(self, packets: float = 20) -> None:
        self.window = packets

    def on_ack(self, ack: Any) -> None:
        """Does nothing."""


@pytest.mark.parametrize("case", CASES)
def test_reno_in_python_sends_the_packets_of_the_registrys(case: str) -> None:
    first, *others = CASES[case]["flows"]

    def packets(flow: dict[str, Any]) -> dict[str, Any]:
        document = {**CASES[case], "flows": [{**flow, **first}, *others], "record": {"transmissions": True}}
        sent = simulate(document)["flows"][0]["transmissions"]
        return {name: values.tolist() for name, values in sent.items()}

    theirs = packets({"scheme": "reno"})
    assert packets(parse(RENO).flow) == theirs
    assert all(len(values) > 100 for values in theirs.values())


def test_a_window_and_a_rate_are_obeyed() -> None:
    assert (
        run(read(Fixed).flow)["delivered_bytes"]
        == run({"scheme": "fixed", "params": {"window": 20}})["delivered_bytes"]
    )

    class Paced(Fixed):
        pacing_rate = 3.0

    mbps = run(read(Paced).flow)["delivered_bytes"] * 8 / 3e6
    assert mbps == pytest.approx(3.0, rel=0.05)


def test_a_timer_comes_when_it_was_asked_for() -> None:
    called: list[float] = []

    class Timed(Fixed):
        def __init__(self) -> None:
            self.window, self.timer_s = 10, 0.25

        def on_timer(self, now_s: float) -> None:
            called.append(now_s)
            assert self.timer_s is None
            if len(called) < 4:
                self.timer_s = now_s + 0.5

    run(flow_of(Timed))
    assert called == pytest.approx([0.25, 0.75, 1.25, 1.75])


def test_events_tell_what_the_transport_books() -> None:
    seen: list[tuple[Any, ...]] = []
    losses: list[tuple[Any, ...]] = []

    class Listens(Fixed):
        def __init__(self) -> None:
            self.window = 100

        def on_ack(self, ack: Any) -> None:
            seen.append(
                (ack.now_s, ack.acked_bytes, ack.delivered_bytes, ack.rtt_ms, ack.min_rtt_ms, ack.acked_packets)
            )

        def on_loss(self, loss: Any) -> None:
            losses.append((loss.now_s, loss.lost_packets, loss.lost_bytes, loss.new_episode, loss.timeout))

    flow = run(flow_of(Listens))
    assert sum(acked for _, acked, *_ in seen) == seen[-1][2]
    assert 0.98 < seen[-1][2] / flow["delivered_bytes"] <= 1  # what is on its way has arrived
    assert all(rtt is None or rtt >= least >= 40 for *_, rtt, least, _ in seen)
    assert [now for now, *_ in seen] == sorted(now for now, *_ in seen)
    assert sum(lost for _, lost, *_ in losses) == flow["lost_packets"] > 0
    assert all(size == lost * 1448 for _, lost, size, *_ in losses)
    assert losses[0][3]


def test_facts_of_the_flow_are_there_before_init() -> None:
    found = {}

    class Curious(Fixed):
        def __init__(self, gain: float = 1.0) -> None:
            found.update(vars(self), gain=gain, drawn=self.random.random())

    flow = {**flow_of(Curious), "params": {"gain": 2}, "initial_window": 7, "mss_bytes": 1000, "weight": 3}
    run(flow)
    first = dict(found)
    assert (first["mss_bytes"], first["initial_window"], first["weight"], first["gain"]) == (1000, 7, 3.0, 2.0)
    run(flow)
    assert found["drawn"] == first["drawn"]
    run(flow, seed=2)
    assert found["drawn"] != first["drawn"]


BAD = """
import random, time, ccarena

class Good(ccarena.Controller):
    def on_ack(self, ack):
        self.window = 20

class Raises(Good):
    def on_loss(self, loss):
        return 1 / 0

class Nan(Good):
    def on_ack(self, ack):
        self.window = float("nan")

class Text(Good):
    pacing_rate = "fast"

class Fails(Good):
    def __init__(self):
        raise RuntimeError("no")

class Small(Good):
    def on_loss(self, loss):
        self.window = 0.5

class Clock(Good):
    def on_ack(self, ack):
        self.window = 20 + time.time() % 1

class Dice(Good):
    def on_ack(self, ack):
        self.window = 20 + random.random()

class Keeps(Good):
    calls = 0
    def on_ack(self, ack):
        Keeps.calls += 1
        self.window = 20 + Keeps.calls % 7

class Needs(Good):
    def __init__(self, gain):
        self.gain = gain

class Nothing:
    pass

number = 3
"""


@pytest.fixture
def bad(tmp_path: Path) -> str:
    (tmp_path / "bad.py").write_text(BAD)
    return str(tmp_path / "bad.py")


def test_an_exception_ends_the_run_with_time_and_line(bad: str) -> None:
    crowded = {**LINK, "queue": {"type": "droptail", "packets": 5}}
    with pytest.raises(ControllerError) as error:
        simulate({"duration_s": 3, "links": [crowded], "flows": [parse(f"{bad}:Raises").flow]})
    said = str(error.value)
    assert said.startswith("Raises.on_loss of flow0 raised ZeroDivisionError: division by zero at 0.")
    assert f'File "{bad}", line 10, in on_loss' in said
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert parse(f"{bad}:Good@weight=2").flow["weight"] == 2.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Nan", r"Nan.on_ack of flow0 raised ValueError: window = nan: expected a number of packets, finite and not"),
        (
            "Text",
            r"Text.__init__ of flow0 raised ValueError: pacing_rate = 'fast': expected a number of Mbit/s.* before",
        ),
        ("Fails", r"Fails.__init__ of flow0 raised RuntimeError: no before the run of the simulation"),
    ],
)
def test_impossible_answers_end_the_run(bad: str, name: str, said: str) -> None:
    with pytest.raises(ControllerError, match=said):
        run(parse(f"{bad}:{name}").flow)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Nothing", "the class has no method on_ack"),
        ("number", "3 is no class"),
        ("Absent", 'has no "Absent"'),
        ("Needs", "Needs needs the argument gain; give @gain=VALUE"),
        ("Needs@gian=2", 'Needs has no parameter "gian"; did you mean "gain"'),
        ("Needs@gain=two", '"gain"'),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(bad: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(f"{bad}:{text}")
    assert said in str(error.value)


def test_a_file_that_is_not_there_or_no_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.py").write_text("def f(:\n")
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(1)\n")
    for name, said in (("no", "line 1"), ("absent", "cannot read"), ("ends", "line 2: SystemExit")):
        with pytest.raises(ConfigError, match=said):
            parse(f"{tmp_path}/{name}.py:Mine")


def test_a_file_without_a_class_names_those_that_it_has() -> None:
    with pytest.raises(ConfigError, match=f"name its class: {DELAY}:Delay or {DELAY}:Wary"):
        parse(str(DELAY))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Small", "on_loss leaves window = 0.5"),
        ("Clock", "it asks the machine's clock, time.time"),
        ("Dice", "it uses the module random, which is not seeded"),
        ("Keeps", "two runs with the same seed differ"),
        ("Raises", "ZeroDivisionError: division by zero at"),
    ],
)
def test_the_check_finds(bad: str, name: str, said: str) -> None:
    clocks = time.time, random.random
    faults = check(parse(f"{bad}:{name}"))
    assert faults
    assert all(said in found.fault for found in faults), faults
    assert (time.time, random.random) == clocks


def test_other_threads_may_ask_the_clock(bad: str) -> None:
    over, asked = threading.Event(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            time.monotonic()
            asked.set()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert asked.wait(10)
        assert check(parse(f"{bad}:Good")) == []
    finally:
        over.set()
        thread.join()


def test_the_command_says_what_is_wrong(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{bad}:Raises"]) == 1
    said = capsys.readouterr().out
    assert "FAULT  one packet in ten is lost: Raises.on_loss" in said
    assert "bad.py, line 10" in said
    for name in ("Delay", "Wary"):
        assert main(["check", f"{DELAY}:{name}"]) == 0
    assert "FAULT" not in capsys.readouterr().out
    assert main(["check", "cubic"]) == 2
    assert "expected FILE.py:NAME" in capsys.readouterr().err


def test_the_tutorials_controller_is_mended() -> None:
    def share(name: str) -> float:
        link = {**LINK, "service": {"type": "constant", "rate_mbps": 48}, "queue": {"type": "droptail", "packets": 80}}
        flows = [parse(f"{DELAY}:{name}").flow, {"scheme": "cubic"}]
        done = simulate({"duration_s": 20, "links": [link], "flows": flows})["flows"]
        rates = [flow["delivered_bytes"] for flow in done]
        return float(rates[0] / sum(rates))

    assert share("Delay") < 0.1
    assert share("Wary") > 2 * share("Delay")


def test_a_class_is_an_entrant_in_python_and_in_scenarios(tmp_path: Path) -> None:
    table = ccarena.compete(Fixed, "cubic", links=["12mbps,20ms,1bdp"], duration_s=2, seeds=1).summary()
    assert "Fixed+cubic" in set(table["match"])
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        json.dumps({"duration_s": 1, "links": [LINK], "flows": [{"scheme": f"{DELAY}:Delay@target_ms=9"}]})
    )
    (row,) = ccarena.run(str(scenario)).flows().to_dict("records")
    assert row["scheme"] == "Delay"
    assert row["goodput_mbps"] > 1
    (row,) = ccarena.run({"duration_s": 1, "links": [LINK], "flows": [{"scheme": Fixed}]}).flows().to_dict("records")
    assert row["scheme"] == "Fixed"
    with pytest.raises(CcarenaError, match="found type; expected a document"):
        ccarena.run(Fixed)  # type: ignore[arg-type]


def test_a_class_named_in_a_scenario_is_beside_it_or_else_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.py").write_text(Path(DELAY).read_text())
    (tmp_path / "here.py").write_text(Path(DELAY).read_text())
    scenario = tmp_path / "there" / "scenario.yaml"
    flows = [{"scheme": "mine.py:Delay@target_ms=9"}, {"scheme": "here.py:Delay"}]
    scenario.write_text(json.dumps({"duration_s": 0.1, "links": [LINK], "flows": flows}))
    monkeypatch.chdir(tmp_path)
    assert list(ccarena.run("there/scenario.yaml").flows()["scheme"]) == ["Delay", "Delay"]


def test_a_class_whose_file_changes_is_another_entrant_of_the_leaderboard(bad: str, tmp_path: Path) -> None:
    def identified(text: str) -> str:
        (ranked,) = [each for each in line_up([parse(text)], {}, 1) if each.kind == "class"]
        return ranked.digest

    before = identified(f"{bad}:Good")
    (tmp_path / "elsewhere").mkdir()
    same = Path(bad).rename(tmp_path / "elsewhere" / "bad.py")
    assert identified(f"{same}:Good") == before
    same.write_text(BAD.replace("self.window = 20\n", "self.window = 21\n"))
    assert identified(f"{same}:Good") != before


def test_real_time_backends_refuse_a_class() -> None:
    for backend in ("kernel", "quic"):
        assert "which runs in the simulator only" in refusal(backend, flow_of(Fixed))


def test_a_document_says_either_foreign_or_controller() -> None:
    flow = {**flow_of(Fixed), "foreign": {"type": "kernel", "name": "reno"}}
    with pytest.raises(CcarenaError, match="either `foreign` or `controller`"):
        run(flow)
    with pytest.raises(CcarenaError, match=r"flows\[0\]\.controller\.class: missing"):
        run({"scheme": "x", "controller": {"type": "python"}})
    with pytest.raises(CcarenaError, match=r"flows\[0\]\.params\.a: "):
        run({**flow_of(Fixed), "params": {"a": "b"}})
    document = json.dumps({"links": [LINK], "flows": [flow_of(Fixed)]})
    assert json.loads(_core.validate_scenario(document))["flows"][0]["controller"] == flow_of(Fixed)["controller"]
    with pytest.raises(CcarenaError, match=r"flows\[0\]\.controller: "):
        _core.simulate(document)


def test_a_class_of_another_process_is_refused() -> None:
    with pytest.raises(ConfigError, match="put it into a file"):
        make(0, "class other.Mine 7f", {"params": {}, "mss_bytes": 1448, "initial_window": 10, "weight": 1, "seed": 1})
