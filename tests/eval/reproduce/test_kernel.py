"""Suites on kernel TCP and over QUIC: their conditions, what a late run costs, and where results stand.

The links' lateness is made up here; the runs themselves are the simulator's, which gives the same dict.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.errors import ConfigError, RunnerError
from ccarena.eval.reproduce import checks, kernel, page, pages, runs, suite, tables
from ccarena.scenarios import backends
from ccarena.scenarios.backends import KERNEL
from ccarena.scenarios.real_time import LATENESS_BOUND_MS, check_rates
from tests.controllers.made import compiled, module, needs, source

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

Write = Callable[..., Path]

SECTION = """claims:
  - claim: All of it
    paper: 1
    measured: {value: utilisation, pool: [scheme, rate_mbps]}
    holds: {at_least: 0}
kernel:
  conditions: [half as fast]
  constants: {duration_s: 1}
  scenario: {record: {series: true}}
  sweep: {scheme: [cubic], rate_mbps: [4]}
"""


@pytest.fixture
def on_kernel(write: Write) -> Path:
    """A suite with a kernel section."""
    text = write().read_text("utf-8")
    path = write()
    path.write_text(text[: text.index("claims:")] + SECTION, "utf-8")
    return path


def late(monkeypatch: pytest.MonkeyPatch, *lateness_ms: float) -> list[bool]:
    """Runs whose links are late by these, one after the other; returns whether each was asked to run in user space."""
    asked: list[bool] = []
    left = list(lateness_ms)

    def run_scenario(document: Mapping[str, Any], *, bridge: bool = False) -> dict[str, Any]:
        asked.append(bridge)
        ms = left.pop(0)
        machine = {
            "kernel": platform.release(),
            "lateness": {"p99_ms": ms},
            "valid": ms <= LATENESS_BOUND_MS,
            "answer_latency_us": {"p99": 250 if bridge else None},
            "fallback_reports": 3 if bridge else 0,
        }
        return {**backends.simulate(document), "machine": machine}

    monkeypatch.setattr("ccarena.cc_kernel_bridge.run.run_scenario", run_scenario)
    monkeypatch.setattr("ccarena.quic.run.run_scenario", run_scenario)
    return asked


@pytest.mark.parametrize("name", suite.shipped(KERNEL))
@pytest.mark.parametrize("quick", [False, True])
def test_shipped_suites_state_what_the_emulator_can_do(name: str, quick: bool) -> None:
    loaded = suite.load(name, KERNEL)
    assert any("emulated" in text for text in loaded.suite.conditions)
    expanded = runs.expand(loaded, quick)
    for run in expanded:
        check_rates(json.loads(_core.validate_scenario(json.dumps(runs.located(run.spec["document"])))))
        assert run.work == run.spec["document"]["duration_s"], "the estimate is in seconds of real time"
    assert sum(run.work for run in expanded) <= (60 if quick else 2000), "real time is dear"


def test_the_papers_kernel_suites_are_there() -> None:
    assert suite.find(["wcc", "acct", "hyvar"], KERNEL) == [
        "wcc/buffer",
        "wcc/delay",
        "wcc/testbed",
        "acct/fairness",
        "acct/responsiveness",
        "hyvar/cellular-1",
        "hyvar/cellular-2",
        "hyvar/mtp-insensitivity",
    ]


@pytest.mark.parametrize("name", ["buffer", "delay", "testbed"])
def test_times_are_stretched_as_the_rate_is_lowered(name: str) -> None:
    """Buffers are those of the simulator's cell of that name, round trips those of hosts that send single packets."""

    def facts(document: Mapping[str, Any]) -> tuple[float, Any]:
        on_path = [link for link in document["links"] if link.get("name") in (None, "switch", "host 1")]
        rtt_ms = document["flows"][0].get("base_rtt_ms", 2 * sum(link["delay_ms"] for link in on_path))
        return rtt_ms * on_path[0]["service"]["rate_mbps"], on_path[0]["queue"]

    simulated = runs.expand(suite.load(f"wcc/{name}"))
    longer = (0.3 - suite.load(f"wcc/{name}").suite.constants["rtt_ms"]) * 10_000
    for run in runs.expand(suite.load(f"wcc/{name}", KERNEL)):
        same = next(other for other in simulated if run.cell.items() <= other.cell.items())
        (bdp, queue), (other_bdp, other_queue) = facts(run.spec["document"]), facts(same.spec["document"])
        assert bdp == pytest.approx(other_bdp + longer, rel=1e-9) and queue == other_queue


def test_the_section_takes_the_place_of_what_it_names(on_kernel: Path) -> None:
    simulated, real = suite.load(str(on_kernel)), suite.load(str(on_kernel), KERNEL)
    assert (simulated.suite.conditions, real.suite.conditions) == (["short"], ["half as fast"])
    assert len(runs.expand(simulated)) == 8 and len(runs.expand(real)) == 2
    document = runs.expand(real)[0].spec["document"]
    assert (document["duration_s"], document["record"], len(document["flows"])) == (1, {"series": True}, 2)
    assert document["links"][0]["service"]["rate_mbps"] == 4


def test_a_run_depends_on_the_backend_and_the_kernel(on_kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = suite.load(str(on_kernel), KERNEL)
    key = runs.expand(real)[0].key
    assert key == runs.expand(real)[0].key
    assert key != runs.expand(dataclasses.replace(real, backend="sim"))[0].key
    monkeypatch.setattr("platform.release", lambda: "7.0.0")
    assert key != runs.expand(real)[0].key


def test_a_late_run_is_repeated_and_counts_nowhere(on_kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.expand(suite.load(str(on_kernel), KERNEL))[0]
    asked = late(monkeypatch, 1.7, 0.25)
    row = runs.perform(run)
    assert asked == [False, False]
    assert (row["machine"]["lateness_p99_ms"], row["machine"]["repeated"]) == (0.25, 1)
    assert kernel.about([row, row], KERNEL)["repeated"] == 2 and kernel.about([row], KERNEL)["lateness_p99_ms"] == 0.25
    assert kernel.about([], KERNEL)["lateness_p99_ms"] is None
    on_kernel.write_text(on_kernel.read_text("utf-8") + "  bridge: true\n", "utf-8")
    run = runs.expand(suite.load(str(on_kernel), KERNEL))[0]
    asked = late(monkeypatch, 1.7, 2.25, 1.01)
    with pytest.raises(RunnerError, match=r"late in 3 attempts, 1.70, 2.25, 1.01 ms \(p99; at most 1\)"):
        runs.perform(run)
    assert asked == [True] * 3
    late(monkeypatch, 0.1)
    about = kernel.about([row, runs.perform(run)], KERNEL)
    assert (about["answer_p99_us"], about["fallback_reports"], about["lateness_p99_ms"]) == (250, 3, 0.25)


def written(out: Path, folder: Path) -> list[str]:
    """The summary and the page of the suite `own/mine`, from the results in `out`."""
    pages.write(folder / "all.md", pages.read(out, ["own/mine"]), ["own/mine"])
    return list(pages.site(folder / "all.md", ["own/mine"]).values())


def test_results_stand_beside_those_of_the_simulator(
    on_kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert cli.main(["reproduce", str(on_kernel), "--out", str(out), "--jobs", "1"]) == 0
    before = written(out, tmp_path)[1]
    assert "kernel" not in before

    loaded = suite.load(str(on_kernel), KERNEL)
    late(monkeypatch, 0.25, 1.7, 0.5)
    rows = [runs.perform(run) for run in runs.expand(loaded)]
    judged = [checks.judge(claim, rows) for claim in loaded.claims]
    about = {
        "quick": False,
        "seeds": 2,
        "runs": 2,
        "failed": [],
        "software": runs.software(backend=KERNEL),
        "policies": [],
        "machine": kernel.about(rows, KERNEL),
    }
    digest = tables.digest_of(loaded, judged, about)
    tables.write_suite(tables.folder_of(out, "own/mine", KERNEL), digest, rows)
    text = tables.claims_markdown(digest)
    assert text.startswith("# own/mine on kernel TCP: Two schemes") and "- half as fast" in text
    assert "links were at most 0.50 ms late (p99 of a run). 1 run was more than 1 ms late" in text
    assert "User space" not in text
    in_user_space = {**digest, "machine": {**digest["machine"], "answer_p99_us": 250, "fallback_reports": 3}}
    text = tables.claims_markdown(in_user_space)
    assert "User space answered within 0.25 ms (p99 of a run). 3 reports came from flows that had waited" in text
    summary, of_suite = written(out, tmp_path)
    assert "| [own/mine](all/own-mine.md) |" in summary and "| [own/mine on kernel TCP](all/own-mine.md) |" in summary
    assert (
        "| state of a claim | in the simulator | on kernel TCP | meaning |" in summary
        and "| holds | 1 | 1 |" in summary
    )
    table = before.partition("\n## Beside the paper")[0]
    assert of_suite.startswith(table) and "\n## own/mine on kernel TCP: Two schemes\n" in of_suite[len(table) :]
    assert "\n## Beside the paper, on kernel TCP\n" in of_suite


def test_results_over_quic_have_a_column_and_a_section(
    on_kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_kernel.write_text(on_kernel.read_text("utf-8").replace("kernel:", "quic:"), "utf-8")
    loaded = suite.load(str(on_kernel), "quic")
    late(monkeypatch, 0.25, 0.5)
    rows = [runs.perform(run) for run in runs.expand(loaded)]
    judged = [checks.judge(claim, rows) for claim in loaded.claims]
    machine = kernel.about(rows, "quic")
    about = {"quick": False, "seeds": 2, "runs": 2, "failed": [], "software": "1", "machine": machine}
    folder = tables.folder_of(tmp_path, "own/mine", "quic")
    digest = tables.digest_of(loaded, judged, about)
    tables.write_suite(folder, digest, rows)
    assert "QUIC, emulated link" in page.write_page(folder, loaded, judged, rows, digest).read_text("utf-8")
    summary, of_suite = written(tmp_path, tmp_path)
    assert "| state of a claim | over QUIC | meaning |" in summary
    assert "| [own/mine over QUIC](all/own-mine.md) |" in summary and of_suite.startswith("# own/mine over QUIC: Two")


def test_the_papers_quic_suites_fit_the_time_that_the_makefile_says() -> None:
    names = suite.find(["hercules"], "quic")
    assert names == suite.shipped("quic") == ["hercules/friendliness", "hercules/loss"]
    work_s = [sum(run.work for run in runs.expand(suite.load(name, "quic"))) for name in names]
    assert 45 * 60 < sum(work_s) < 55 * 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wcc/ack"], "suites/wcc/ack.yaml: kernel: expected a section with `conditions`"),
        (["hercules"], "hercules: none of its suites has a `kernel` section; there are acct/fairness,"),
        (["wcc/buffer", "--jobs", "2"], "--jobs 2: with --backend kernel runs at once would make each other late"),
    ],
)
def test_wrong_commands(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", *words, "--backend", "kernel"]) == ConfigError.exit_code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_section_that_does_not_say_what_it_scales_is_refused(on_kernel: Path) -> None:
    text = on_kernel.read_text("utf-8")
    on_kernel.write_text(text.replace("  conditions: [half as fast]\n", ""), "utf-8")
    with pytest.raises(ConfigError, match=r"mine.yaml: kernel: expected a section with `conditions`"):
        suite.load(str(on_kernel), KERNEL)
    on_kernel.write_text(text.replace("  sweep:", "  swep:"), "utf-8")
    with pytest.raises(ConfigError, match=r"mine.yaml: swep: unknown key; did you mean"):
        suite.load(str(on_kernel), KERNEL)


def test_programs_of_others_are_flows_of_a_suite_in_real_time(on_kernel: Path) -> None:
    theirs = on_kernel.with_name("theirs.yaml")
    text = on_kernel.read_text("utf-8").replace(
        "sweep: {scheme: [cubic]", 'sweep: {scheme: [theirs.yaml, "kernel:bbr"]'
    )
    on_kernel.write_text(text, "utf-8")

    def keys(version: str) -> list[str]:
        theirs.write_text(f"kind: command\nsender: cat\nreceiver: cat\nversion: {version}\n", "utf-8")
        found = runs.expand(suite.load(str(on_kernel), KERNEL), seeds=1)
        assert [flow["foreign"]["type"] for run in found for flow in run.spec["document"]["flows"]] == [
            *("command", "command", "kernel", "kernel")
        ]
        assert [flow["name"] for flow in found[0].spec["document"]["flows"]] == ["w1", "w2"]
        return [run.key for run in found]

    (program, control), (newer, same) = keys("1"), keys("2")
    assert program != newer and control == same, "another version of the program is another run"
    text = text.replace("scheme: [cubic, reno]", "scheme: [theirs.yaml]")
    on_kernel.write_text(text, "utf-8")
    with pytest.raises(
        ConfigError, match=r'flows\[0\]\.scheme: entrant ".*theirs\.yaml": a program, which does not run in'
    ):
        runs.expand(suite.load(str(on_kernel)))


@needs("C")
def test_modules_and_classes_beside_a_suite_are_its_flows(on_kernel: Path) -> None:
    folder, text = on_kernel.parent, on_kernel.read_text("utf-8")
    made = module(folder, name="mine")
    (folder / "own.py").write_text("import ccarena\nclass Own(ccarena.Controller):\n    def on_ack(self, ack): pass\n")
    on_kernel.write_text(
        text.replace("scheme: [cubic, reno]", 'scheme: ["mine.wasm@packets=5", "own.py:Own"]'), "utf-8"
    )

    def expanded() -> list[runs.Run]:
        return runs.expand(suite.load(str(on_kernel)), seeds=1)

    flows = [flow for run in expanded() for flow in run.spec["document"]["flows"]]
    assert {flow["scheme"] for flow in flows} == {"mine", "Own"}
    assert {json.dumps(flow.get("params")) for flow in flows if flow["scheme"] == "mine"} == {'{"packets": 5}'}
    before = [run.key for run in expanded()]
    failing = compiled(source("__builtin_trap();"))
    made.write_bytes(failing)
    (run, *_) = [run for run in expanded() if "mine" in run.cell["scheme"]]
    with pytest.raises(RunnerError, match="cc_on_ack: trap"):
        runs.perform(run)
    made.write_bytes(compiled(source("out->window_bytes += 1;")))
    after = [run.key for run in expanded()]
    assert len(before) >= 2 and sum(old != new for old, new in zip(before, after, strict=True)) == len(before) / 2
