"""Faults that `ccarena check` finds, and the end of checks and runs by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena.controllers import classes
from ccarena.controllers.classes import flow_of
from ccarena.errors import ConfigError, ControllerError
from ccarena.eval.soundness import check as checking
from ccarena.eval.soundness.check import CASES, check
from ccarena.executors import Threads, pool_of
from ccarena.scenarios.backends import simulate
from ccarena.scenarios.entrants import parse
from tests.controllers.made import CREATE, module, needs

LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20, "queue": {"type": "droptail", "packets": 30}}
TEXT = """
import datetime, random, time
from time import monotonic
import ccarena

class Good(ccarena.Controller):
    def on_ack(self, ack):
        self.window = 20

class Now(Good):
    def on_ack(self, ack):
        self.window = 20 + monotonic() % 1

class Date(Good):
    def on_ack(self, ack):
        self.window = 20 + datetime.datetime.now().second

class Sleeps(Good):
    def on_ack(self, ack):
        time.sleep(0)

class Shuffles(Good):
    def on_ack(self, ack):
        random.shuffle([1, 2])

class Own(Good):
    def on_ack(self, ack):
        self.window = 20 + self.random.random()

class Misspelt(Good):
    def on_los(self, loss):
        self.window = 10

class Idle(ccarena.Controller):
    def on_ack(self, ack):
        self.cwnd = 3

class Deaf(Good):
    def on_ack(self, ack):
        self.timer_s = ack.now_s + 1

class Forgets(Good):
    def on_ack(self):
        pass

class Deep(Good):
    def on_ack(self, ack):
        self.on_ack(ack)

class Doubles(ccarena.Controller):
    def on_ack(self, ack):
        self.window = min(2 * self.window, 1e9)

class Due(Good):
    timer_s = 0.0
    def on_timer(self, now_s):
        self.timer_s = now_s

class Foreign:
    window = 10
    def on_ack(self, ack):
        pass

class Slow(Good):
    def on_ack(self, ack):
        print("running", flush=True)
        time.sleep(0.002)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves one short case to the check."""
    case = {**CASES["a steady link"], "duration_s": 1.0}
    monkeypatch.setattr(checking, "CASES", {"a steady link": case})


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Now", "it asks the machine's clock, time.monotonic; the time is now_s of the event; own.py, line 12"),
        ("Date", "it asks the machine's clock, datetime.now; the time is now_s of the event; own.py, line 16"),
        ("Sleeps", "it sleeps, while the time of the simulation stands still; own.py, line 20"),
        ("Shuffles", "it uses the module random, which is not seeded; use self.random; own.py, line 24"),
        ("Own", ""),
        ("Misspelt", 'nobody calls its method on_los; did you mean "on_loss"'),
        ("Idle", "it never sets window or pacing_rate, so its window stays as it was"),
        ("Deaf", "on_ack sets timer_s = 1.04"),
        ("Doubles", "4,096 packets are unacknowledged at 0."),
    ],
)
def test_the_check_finds(own: str, name: str, said: str) -> None:
    profiler = sys.getprofile()
    assert "; ".join(found.fault for found in check(parse(f"{own}:{name}"))).startswith(said)
    assert bool(check(parse(f"{own}:{name}"))) is bool(said)
    assert sys.getprofile() is profiler


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize(("name", "ending"), [("Forgets", " of the simulation"), ("Deep", "; own.py, line 48")])
def test_a_place_is_in_the_users_file(own: str, name: str, ending: str) -> None:
    found = check(parse(f"{own}:{name}"))[0]
    assert found.fault.endswith(ending)
    assert "check.py" not in found.fault
    assert "watch.py" not in found.fault


@needs("C")
@pytest.mark.usefixtures("steady")
def test_a_module_with_a_window_without_bound_is_found(tmp_path: Path) -> None:
    made = module(tmp_path, "out->window_bytes = 1e9;")
    (found,) = check(parse(str(made)))
    assert found.fault.startswith("4,096 packets are unacknowledged at 0.")


def test_schemes_stay_below_the_room_of_the_check() -> None:
    for case in CASES.values():
        document = checking._document(case, {"scheme": "cubic"})
        assert checking._crowding(simulate(document)["flows"][0], document) == ""


@pytest.mark.usefixtures("steady")
def test_the_check_keeps_no_classes(own: str) -> None:
    before = dict(classes._IN_MEMORY)
    check(parse(f"{own}:Good"))
    assert before == classes._IN_MEMORY


def test_a_class_has_to_derive_from_controller(own: str) -> None:
    with pytest.raises(ConfigError, match=r"derive it from ccarena.Controller: class Foreign\(ccarena.Controller\)"):
        parse(f"{own}:Foreign")


def test_a_timer_that_is_always_due_ends_the_run(own: str) -> None:
    with pytest.raises(ControllerError) as error:
        simulate({"duration_s": 1, "links": [LINK], "flows": [parse(f"{own}:Due").flow]})
    said = "Due.on_timer of flow0 raised ValueError: more than 1000 calls within 10 ms; name a later time in timer_s at"
    assert str(error.value).startswith(said)


@needs("C")
def test_a_module_whose_timer_is_always_due_ends_its_flow(tmp_path: Path) -> None:
    timer = "void cc_on_timer(cc *self, uint64_t now_ns, cc_control *out) { (void)self; out->timer_ns = now_ns; }"
    made = module(tmp_path, "out->timer_ns = ack->now_ns;", create=CREATE + timer)
    flow = {"scheme": "due", "controller": {"type": "wasm", "module": str(made)}}
    ended, other = simulate({"duration_s": 1, "links": [LINK], "flows": [flow, {"scheme": "cubic"}]})["flows"]
    assert "cc_on_timer: more than 1000 calls within 10 ms; name a later time in timer_ns, at 0.0" in ended["error"]
    assert other["delivered_bytes"] > 0


# Ctrl-C.


def interrupted(words: list[str], folder: Path) -> tuple[float, int, str]:
    """Starts a program, interrupts it once it has printed a line, and returns the seconds until it ended, its code and
    what it printed in all.
    """
    program = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert program.stdout is not None
    try:
        first = program.stdout.readline()
        program.send_signal(signal.SIGINT)
        began = time.monotonic()
        rest, _ = program.communicate(timeout=60)
        return time.monotonic() - began, program.returncode, first + rest
    finally:
        program.kill()


RUN = f"""
import ccarena, sys
flow = {{"scheme": sys.argv[1]}}
document = {{"duration_s": 1e6, "links": [{LINK!r}], "flows": [flow]}}
print("begins", flush=True)
ccarena.run(document, packets=False, seeds=int(sys.argv[2]))
"""


@pytest.mark.parametrize("words", [["cubic", "1"], ["cubic", "2"], ["own.py:Slow", "1"], ["own.py:Slow", "2"]])
def test_one_ctrl_c_ends_runs(own: str, words: list[str]) -> None:
    took_s, code, said = interrupted(["-c", RUN, *words], Path(own).parent)
    assert code in (1, 130, -signal.SIGINT), said
    assert "KeyboardInterrupt" in said
    assert took_s < 30  # and not the hours of the runs


def test_one_ctrl_c_ends_the_check(own: str) -> None:
    words = ["-m", "ccarena_command", "check", "own.py:Slow"]
    _, code, said = interrupted(words, Path(own).parent)
    assert code == 130, said
    assert "FAULT" not in said


def test_runs_of_a_pool_that_is_left_end() -> None:
    document: Mapping[str, Any] = {"duration_s": 1e6, "links": [LINK], "flows": [{"scheme": "cubic"}]}
    with pytest.raises(ValueError, match="left"), pool_of(2) as pool:
        runs = [pool.submit(simulate, document) for _ in range(4)]
        raise ValueError("left")
    assert all(run.cancelled() or isinstance(run.exception(), KeyboardInterrupt) for run in runs)


def test_one_thread_is_the_callers() -> None:
    found = [done.result() for done in Threads(4).run(lambda _: threading.current_thread(), [0])]
    assert found == [threading.current_thread()]


def test_ctrl_c_inside_a_class_is_no_fault_of_the_class() -> None:
    class Interrupted(ccarena.Controller):
        def on_ack(self, ack: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate({"duration_s": 1, "links": [LINK], "flows": [flow_of(Interrupted)]})
