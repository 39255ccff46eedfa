"""WebAssembly modules as controllers: what they send, how they fail, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ccarena import _core
from ccarena.errors import ConfigError, ScenarioError
from ccarena.eval.soundness.check import CASES
from ccarena.scenarios.backends import simulate
from tests.controllers.made import EXAMPLES, SOURCES, build, flow_of


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("modules")
    return {
        source.stem: build(source, folder) for source in (EXAMPLES / "reno.c", EXAMPLES / "cubic.c", SOURCES / "bad.c")
    }


def packets(case: str, flow: dict[str, Any]) -> dict[str, Any]:
    first, *others = CASES[case]["flows"]
    document = {**CASES[case], "flows": [{**flow, **first}, *others], "record": {"transmissions": True}}
    sent = simulate(document)["flows"][0]["transmissions"]
    return {name: values.tolist() for name, values in sent.items()}


@pytest.mark.parametrize("name", ["reno", "cubic"])
@pytest.mark.parametrize("case", CASES)
def test_controllers_in_c_send_the_packets_of_the_registrys(modules: dict[str, Path], case: str, name: str) -> None:
    theirs = packets(case, {"scheme": name})
    assert packets(case, flow_of(modules[name])) == theirs
    assert all(len(values) > 100 for values in theirs.values())


LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20, "queue": {"type": "droptail", "packets": 30}}


def run(*flows: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return list(simulate({"duration_s": 3, "links": [LINK], "flows": list(flows), **fields})["flows"])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (1, "cc_on_ack: trap: wasm `unreachable` instruction executed, at "),
        (2, "cc_on_ack: more than 1000000 instructions in one call, at "),
        (3, "cc_on_ack: it asks for more than 16 MiB of memory, or 10000 table elements, at "),
        (4, "cc_on_ack: window_bytes = NaN; expected a number from 0 to 1099511627776, at "),
        (5, "cc_on_ack: window_bytes = -1; expected a number from 0 to 1099511627776, at "),
        (6, "cc_on_ack: its calls nest too deeply, at "),
    ],
)
def test_a_module_that_goes_wrong_ends_its_flow_and_the_run_goes_on(
    modules: dict[str, Path], how: int, said: str
) -> None:
    ended, other = run(flow_of(modules["bad"], params={"how": how}), {"scheme": "cubic"})
    assert ended["error"].startswith(f"flows[0] (bad): {said}")
    assert other.get("error") is None
    assert other["delivered_bytes"] > 2 * ended["delivered_bytes"] > 0


def test_a_module_says_what_it_takes_and_a_wrong_one_is_refused(modules: dict[str, Path], tmp_path: Path) -> None:
    about = _core.module_about(modules["cubic"])
    assert [each["name"] for each in about["params"]] == ["hystart", "fast_convergence", "reno_friendly"]
    assert about == _core.module_about(modules["cubic"].read_bytes())
    assert about["digest"] == hashlib.sha256(modules["cubic"].read_bytes()).hexdigest()
    with pytest.raises(
        ScenarioError, match=r'flows\[0\]\.controller: .* has no parameter "hystrat"; did you mean "hystart"'
    ):
        run(flow_of(modules["cubic"], params={"hystrat": 0}))
    (tmp_path / "text.wasm").write_text("(module)")
    with pytest.raises(ConfigError, match=r"text\.wasm: it is no WebAssembly module"):
        _core.module_about(tmp_path / "text.wasm")
    with pytest.raises(ScenarioError, match=r"flows\[0\]\.controller: cannot read absent\.wasm"):
        run(flow_of(Path("absent.wasm")))


def test_parameters_change_what_it_does(modules: dict[str, Path]) -> None:
    theirs = run({"scheme": "cubic", "params": {"hystart": 0}})
    assert run(flow_of(modules["cubic"], params={"hystart": 0}))[0]["sent_packets"] == theirs[0]["sent_packets"]
    assert theirs[0]["sent_packets"] != run(flow_of(modules["cubic"]))[0]["sent_packets"]
