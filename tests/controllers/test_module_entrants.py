"""WebAssembly modules as entrants: the grammar, what is refused, and what happens if one fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena.cli import main
from ccarena.controllers import modules
from ccarena.errors import CcarenaError, ConfigError, ScenarioError
from ccarena.eval.leaderboard.costs import cpu_ns
from ccarena.eval.leaderboard.entrants import entrants_of, line_up
from ccarena.eval.soundness.check import check
from ccarena.scenarios.backends import BACKENDS, failure, refusal, simulate
from ccarena.scenarios.entrants import parse, read
from tests.controllers.made import ABOUT, CREATE, compiled, module, needs, on_ack, source

pytestmark = needs("C")
LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20, "queue": {"type": "droptail", "packets": 30}}


def run(*flows: dict[str, Any]) -> list[dict[str, Any]]:
    return list(simulate({"duration_s": 2, "links": [LINK], "flows": list(flows)})["flows"])


@pytest.fixture
def constant(tmp_path: Path) -> Path:
    return module(tmp_path)


def test_a_module_is_an_entrant(constant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = {"scheme": "constant", "controller": {"type": "wasm", "module": str(constant)}}
    for given in (str(constant), constant, f"wasm:{constant}"):
        assert (read(given).label, read(given).flow) == ("constant", flow)
    monkeypatch.chdir(tmp_path)
    assert parse("constant.wasm").flow == flow
    with_params = parse("constant.wasm@packets=5,weight=2,ecn=1")
    assert (with_params.label, with_params.flow) == (
        "constant@packets=5,weight=2,ecn=1",
        {**flow, "params": {"packets": 5}, "weight": 2, "ecn": True},
    )
    assert parse("mine=constant.wasm").label == "mine"


def test_its_parameters_are_obeyed(constant: Path) -> None:
    for packets in (5, 20):
        (mine,) = run(parse(f"{constant}@packets={packets}").flow)
        (theirs,) = run({"scheme": "fixed", "params": {"window": packets}})
        assert mine["delivered_bytes"] == theirs["delivered_bytes"] > 0
    assert run(parse(str(constant)).flow)[0]["delivered_bytes"] == mine["delivered_bytes"]


def test_the_name_of_a_scheme_stays_the_schemes(tmp_path: Path) -> None:
    flow = parse(str(module(tmp_path, name="cubic")))
    assert (flow.label, flow.scheme) == ("cubic (module)", "cubic (module)")
    (tmp_path / "own.py").write_text(
        "import ccarena\nclass bbr(ccarena.Controller):\n    def on_ack(self, ack): pass\n"
    )
    assert parse(f"{tmp_path}/own.py:bbr").label == "bbr (class)"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("pakets=5", 'constant has no parameter "pakets"; did you mean "packets"?'),
        ("packets=0", "packets = 0"),
        ("packets=x", '"packets" is "x"; expected a number'),
        ("rules=a", "runs no rule file"),
        ("", 'nothing follows "@"'),
    ],
)
def test_wrong_parameters_are_refused(settings: str, said: str, constant: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(f"{constant}@{settings}")
    assert said in str(refused.value)
    if settings == "packets=0":
        assert "1 to 1000" in str(refused.value)


DESCRIBE = "{ return &ABOUT; }"
OTHER_DESCRIBE = (
    f"#define cc_describe in_c\n{ABOUT}#undef cc_describe\n"
    'CC_EXPORT("cc_describe") int other(int x);\nint other(int x) { return x; }\n'
)
CLOCK = '__attribute__((import_module("wasi_snapshot_preview1"), import_name("clock_time_get"))) int now(void);'


def about_with(old: str, new: str) -> bytes:
    assert old in ABOUT
    return compiled(source(about=ABOUT.replace(old, new)))


NO_MODULES: dict[str, tuple[Callable[[], bytes | None], str]] = {
    "no file": (lambda: None, "cannot read"),
    "text": (lambda: b"int main() {}", "no WebAssembly"),
    "nothing": (lambda: b"", "no WebAssembly"),
    "half of one": (lambda: compiled(source())[:200], ""),
    "a large one": (lambda: b"\0asm\1\0\0\0" + bytes(1 << 20), "expected at most"),
    "no cc_on_ack": (lambda: compiled(source().replace(on_ack(""), "")), "cc_on_ack"),
    "a function of other parameters": (lambda: compiled(source(about=OTHER_DESCRIBE)), "cc_describe"),
    "WASI": (lambda: compiled(source("out->window_bytes = now();", create=CLOCK + CREATE)), "wasi_snapshot_preview1"),
    "another version": (lambda: about_with("CC_ABI", "99"), "version 99"),
    "no name": (lambda: about_with('.name = "constant", ', ""), "name"),
    "a parameter out of its range": (lambda: about_with(".most = 1000", ".most = 10"), "packets"),
    "an endless description": (
        lambda: about_with(DESCRIBE, "{ for (volatile int x = 0;; x++) {} return &ABOUT; }"),
        "cc_describe",
    ),
    "a description that traps": (lambda: about_with(DESCRIBE, "{ __builtin_trap(); return &ABOUT; }"), "cc_describe"),
}


@pytest.mark.parametrize("name", NO_MODULES)
def test_what_is_no_controller_is_refused(name: str, tmp_path: Path) -> None:
    make, said = NO_MODULES[name]
    path = tmp_path / "mine.wasm"
    data = make()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CcarenaError) as refused:
        parse(str(path))
    assert said in str(refused.value)
    assert "mine.wasm" in str(refused.value)
    with pytest.raises(CcarenaError, match=r"mine\.wasm"):
        run({"scheme": "mine", "controller": {"type": "wasm", "module": str(path)}})


FAILING = {
    "trap": "if (ack->now_ns > 500000000) __builtin_trap();",
    "endless": "for (volatile int x = 0; ack->now_ns > 500000000; x++);",
    "memory": "while (ack->now_ns > 500000000) cc_new(1 << 20);",
    "NaN": "if (ack->now_ns > 500000000) out->window_bytes = __builtin_nan(\"\");",
    "negative": "if (ack->now_ns > 500000000) out->window_bytes = -1;",
    "infinite rate": "if (ack->now_ns > 500000000) out->pacing_bps = __builtin_inf();",
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_a_module_that_fails_ends_its_own_flow_with_the_reason(name: str, tmp_path: Path) -> None:
    failing = parse(str(module(tmp_path, FAILING[name])))
    mine, theirs = run(failing.flow, {"scheme": "cubic"})
    assert "cc_on_ack" in failure(mine)
    assert not failure(theirs)
    assert mine["delivered_bytes"] > 0
    (alone,) = run({"scheme": "cubic"})
    assert theirs["delivered_bytes"] > 0.6 * alone["delivered_bytes"]
    again = run(failing.flow, {"scheme": "cubic"})
    assert failure(again[0]) == failure(mine)
    faults = check(failing)
    assert faults
    assert all("cc_on_ack" in found.fault for found in faults)


def test_tables_say_which_runs_failed_and_count_them_in_no_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = str(module(tmp_path, FAILING["trap"], "failing"))
    words = [failing, "cubic", "--link", "12mbps,20ms,1bdp", "--duration-s", "2", "--seeds", "1"]
    assert main(["compete", *words, "--out", str(tmp_path / "compete")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "IN NO MEAN: 1 of 1 runs of failing + failing on 12mbps,20ms,1bdp failed; failing: cc_on_ack: trap" in said
    assert "IN NO MEAN: 2 of 2 runs of failing + cubic on" in said
    scenario = {"duration_s": 2, "links": [LINK], "flows": [{"scheme": failing}, {"scheme": "cubic"}]}
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(scenario))
    errors = ccarena.run(str(path)).flows().set_index("scheme")["error"]
    assert "cc_on_ack" in errors["failing"]
    assert not errors["cubic"] or errors["cubic"] != errors["cubic"]
    assert main(["eval", "--scenario", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "cc_on_ack" in capsys.readouterr().out


def test_the_check_says_what_is_wrong(constant: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{constant}@packets=4"]) == 0
    assert "FAULT" not in capsys.readouterr().out
    assert main(["check", str(module(tmp_path, FAILING["NaN"], "failing"))]) == 1
    assert "FAULT  a steady link: cc_on_ack: window_bytes = NaN" in capsys.readouterr().out


def test_a_module_is_known_by_its_bytes_and_parameters(constant: Path, tmp_path: Path) -> None:
    def identified(text: str) -> tuple[str, str]:
        (ranked,) = [each for each in line_up([parse(text)], {}, 1) if each.kind == "module"]
        return ranked.digest, ranked.card

    before, card = identified(str(constant))
    assert "Keeps a window." in card and "| packets | 20 | 1 to 1000 | packets | Window. |" in card
    (tmp_path / "elsewhere").mkdir()
    moved = constant.rename(tmp_path / "elsewhere" / "constant.wasm")
    assert identified(str(moved))[0] == before
    assert identified(f"{moved}@packets=21")[0] != before
    moved.write_bytes(compiled(source("out->window_bytes += 1;")))
    assert identified(str(moved))[0] != before
    assert [each.label for each in entrants_of([], [str(tmp_path / "elsewhere")])] == ["constant"]


def test_the_cost_of_its_decisions_is_measured(constant: Path) -> None:
    (ranked, *_) = line_up([parse(str(constant))], {}, 1)
    cost = cpu_ns(ranked)
    assert cost is not None
    assert 0 < cost < 1e5


def test_every_backend_takes_a_module(constant: Path) -> None:
    assert [refusal(backend, parse(str(constant)).flow) for backend in BACKENDS] == [""] * len(BACKENDS)


def test_a_scenario_says_what_a_module_may_not_have(constant: Path) -> None:
    flow = parse(str(constant)).flow
    with pytest.raises(ScenarioError, match=r"flows\[0\]\.controller\.module: missing"):
        run({"scheme": "x", "controller": {"type": "wasm"}})
    with pytest.raises(CcarenaError, match="packets"):
        run({**flow, "params": {"packets": 0}})
    with pytest.raises(CcarenaError, match="pakets"):
        run({**flow, "params": {"pakets": 1}})


def test_its_facts_are_those_of_the_source(constant: Path) -> None:
    about = modules.about(constant)
    assert (about["name"], about["summary"]) == ("constant", "Keeps a window.")
    assert about["params"] == [
        {"name": "packets", "unit": "packets", "doc": "Window.", "default": 20.0, "min": 1.0, "max": 1000.0}
    ]
    assert about["module_bytes"] == constant.stat().st_size <= modules.LARGEST_BYTES
    assert {"cc_describe", "cc_create", "cc_on_ack"} <= set(about["exports"])
    assert modules.is_module("a.wasm") and not modules.is_module("a.wat")
