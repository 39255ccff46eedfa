"""Marks in real headers: kernel TCP and programs of others see those that emulated queues set, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: marks are not tested (run make)")

from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse
from tests.privileged.test_foreign import entrant

pytestmark = pytest.mark.usefixtures("kernel")

COMMON = """
import json, os, socket, sys, time
def opened(code_point):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, code_point)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    s.settimeout(0.002)
    return s
def received(s, seen):
    data, control, _, sender = s.recvmsg(2000, 64)
    seen[control[0][2][0] & 3] += 1
    return sender
def end(seen, name):
    open(os.path.join(os.path.dirname(sys.argv[0]), name), "w").write(json.dumps(seen))
ECT1, seen = 1, [0] * 4
to = (os.environ["CCARENA_RECEIVER"], int(os.environ["CCARENA_PORT"]))
# Until a second before the run ends, as Python may be up late: then counts are written, and nothing is under way.
until = time.monotonic() + float(os.environ["CCARENA_DURATION_S"]) - 1.0
"""
SENDER = f"""{COMMON}
s = opened(ECT1)
while time.monotonic() < until:
    s.sendto(b"x" * 1000, to)
    try:
        received(s, seen)
    except TimeoutError:
        pass
end(seen, "sender.json")
time.sleep(1)
"""
RECEIVER = f"""{COMMON}
s = opened(ECT1)
s.bind(to)
while True:
    try:
        s.sendto(b"y" * 1000, received(s, seen))
    except TimeoutError:
        if sum(seen):
            end(seen, "receiver.json")
"""
DUALPI2 = {"type": "dualpi2", "packets": 100}


def link(name: str, rate_mbps: float) -> dict[str, Any]:
    return {"name": name, "service": {"type": "constant", "rate_mbps": rate_mbps}, "queue": DUALPI2, "delay_ms": 5}


def test_programs_see_the_marks_of_both_directions(tmp_path: Path) -> None:
    theirs = entrant(tmp_path)
    (tmp_path / "sender.py").write_text(SENDER)
    (tmp_path / "receiver.py").write_text(RECEIVER)
    flow = {**parse(theirs).flow, "path": ["forth"], "return_path": ["back"]}
    result = execute({"duration_s": 3.5, "links": [link("forth", 3), link("back", 2)], "flows": [flow]}, "kernel")
    assert "error" not in result["flows"][0], result["flows"]
    for of_link, file in zip(result["links"], ("receiver.json", "sender.json"), strict=True):
        not_ect, _, ect0, ce = json.loads((tmp_path / file).read_text())
        assert not_ect == ect0 == 0, file
        # What is under way when the program ends it does not see.
        assert 0.9 * of_link["marked_ect1_packets"] - 20 <= ce <= of_link["marked_ect1_packets"]
        assert ce > 50 and of_link["marked_ect0_packets"] == 0, of_link


def test_cubic_of_the_kernel_listens_to_dualpi2_as_in_the_simulator() -> None:
    document = {"duration_s": 5, "links": [link("forth", 12)], "flows": [{"scheme": "cubic", "ecn": True}]}
    real, simulated = execute(document, "kernel"), execute(document, "sim")
    if not real["machine"]["valid"]:
        pytest.skip("the machine was late")
    (of_link,), (of_flow,) = real["links"], real["flows"]
    assert of_link["marked_ect0_packets"] > 3 and of_flow["lost_packets"] == of_link["dropped_packets"] == 0
    assert of_link["delivered_bytes"] == pytest.approx(simulated["links"][0]["delivered_bytes"], rel=0.05)
    for ours, theirs in zip(simulated["links"][0]["queues"], of_link["queues"], strict=True):
        assert (ours["name"], ours["delivered_packets"] > 9) == (theirs["name"], theirs["delivered_packets"] > 9)
    ours, theirs = (result["links"][0]["queues"][1]["delay_p50_ms"] for result in (simulated, real))
    assert theirs == pytest.approx(ours, abs=8)
