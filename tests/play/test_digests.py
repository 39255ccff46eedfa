"""The simulator for web pages gives the same results as the native one, byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ccarena import _core

if TYPE_CHECKING:
    from tests.play.conftest import Engine

LINK = {"service": {"type": "constant", "rate_mbps": 20}, "queue": {"type": "droptail", "bdp": 1}, "delay_ms": 10}


def test_a_scenario_has_the_same_digest_natively_and_in_a_page_however_it_is_stepped(engine: Engine) -> None:
    everything = {"series": True, "packets": True, "transmissions": True}
    for record in ({}, everything):
        document: dict[str, Any] = {
            "duration_s": 5,
            "links": [{**LINK, "loss": 0.001}],
            "flows": [{"scheme": "cubic"}, {"scheme": "bbr", "start_s": 1}],
            "record": record,
        }
        text = json.dumps(document)
        whole, stepped, other = engine(
            [{"scenario": text}, {"scenario": text, "steps": 977}, {"scenario": text, "seed": 2}]
        )
        native = _core.result_digest(text)
        assert whole["digest"] == stepped["digest"] == native
        assert other["digest"] == _core.result_digest(json.dumps({**document, "seed": 2})) != native
        figures = json.loads(whole["json"])
        assert figures["flows"][0]["delivered_bytes"] == _core.simulate(text)["flows"][0]["delivered_bytes"] > 1e6


def test_the_digest_is_that_of_the_figures_and_the_arrays(engine: Engine) -> None:
    text = json.dumps({"duration_s": 0.1, "links": [LINK], "flows": [{"scheme": "cubic"}]})
    (answer,) = engine([{"scenario": text}])
    capacity = _core.simulate(text)["links"][0]["capacity_mbps"]
    sealed = answer["json"].encode() + b"capacity_mbps" + len(capacity).to_bytes(8, "little") + capacity.tobytes()
    assert answer["digest"] == hashlib.sha256(sealed).hexdigest()
