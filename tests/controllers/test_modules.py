"""WebAssembly modules as controllers: what they send, how they fail, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccarena.eval.soundness.check import CASES
from ccarena.scenarios.backends import simulate
from tests.controllers.wasm import EXAMPLES, build


@pytest.fixture(scope="session")
def reno(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(EXAMPLES / "reno.c", tmp_path_factory.mktemp("modules"))


def flow_of(module: Path, **fields: Any) -> dict[str, Any]:
    return {"scheme": module.stem, "controller": {"type": "wasm", "module": str(module)}, **fields}


def packets(case: str, flow: dict[str, Any]) -> dict[str, Any]:
    first, *others = CASES[case]["flows"]
    document = {**CASES[case], "flows": [{**flow, **first}, *others], "record": {"transmissions": True}}
    sent = simulate(document)["flows"][0]["transmissions"]
    return {name: values.tolist() for name, values in sent.items()}


@pytest.mark.parametrize("case", CASES)
def test_reno_in_c_sends_the_packets_of_the_registrys(reno: Path, case: str) -> None:
    theirs = packets(case, {"scheme": "reno"})
    assert packets(case, flow_of(reno)) == theirs
    assert all(len(values) > 100 for values in theirs.values())
