"""Examples of the pages in docs/ run: Python, scenarios, commands. Their tables are complete."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.commands import doctor
from ccarena.commands.emulator import SHELLS
from ccarena.configs import load_config
from ccarena.core.arguments import parse
from ccarena.core.reader import parse_yaml
from ccarena.eval.certify.properties import read
from ccarena.eval.measure.table import FIGURES
from ccarena.policies import artifact
from ccarena.policies.graph import OPERATIONS
from ccarena.scenarios.entrants import find_policy
from ccarena.scenarios.flows import enter
from ccarena.scenarios.scenario import read_scenario, resolve

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: examples of docs/ not run (run make)")

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    """The page's code blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), flags=re.S | re.M)


def each(language: str) -> list[object]:
    """Every block of one language in the pages, named by its page and number."""
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in [ROOT / "README.md", *PAGES]
        for number, text in enumerate(blocks(page, language), start=1)
    ]


@pytest.mark.parametrize("code", each("python"))
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, words in (
        ("matplotlib", "render_mode"),
        ("pandas", ".summary()"),
        ("torch", "networks"),
        ("stable_baselines3", "sb3"),
        ("pettingzoo", "ParallelEnv"),
    ):
        if words in code:
            pytest.importorskip(package, reason=f"{package.upper()} IS NOT INSTALLED: an example of docs/ was not run")
    if "cc_kernel_bridge" in code or "Kernel-v0" in code:
        bridge = doctor.kernel_bridge()
        if bridge.state != "ok":
            pytest.skip(f"NO KERNEL BRIDGE ({bridge.found}): an example of docs/ was not run")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    known = dict(FIGURES)
    try:
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    finally:  # an example registers a figure
        FIGURES.clear()
        FIGURES.update(known)


EXAMPLES = [pytest.param(path.read_text("utf-8"), id=path.stem) for path in (ROOT / "examples").glob("*.yaml")]


PARTS = {
    "learned": 1,
    "name": "docs",
    "clock": "window",
    "observe": {"signals": ["rtt_ms"]},
    "act": "window_exp2",
    "base": "cubic",
}
"""The rest of a spec of which an example shows a part."""


@pytest.mark.parametrize("document", each("yaml") + EXAMPLES)
def test_scenarios_are_valid_and_run(document: str, tmp_path: Path) -> None:
    scenario = parse_yaml(document, "docs")
    if "kind" in scenario or "iperf3.yaml" in document:
        return  # the next test's
    if "properties" in scenario:
        assert read(scenario, artifact.load(find_policy("hyvar")), "docs").properties
        return
    if isinstance(scenario, list):
        scenario = {"observe": {"signals": scenario}}
    if scenario.keys() <= PARTS.keys():
        scenario = {**PARTS, **scenario}
    if "learned" in scenario:
        assert _core.learned(json.dumps(scenario))["digest"]
        return
    if "spec" in scenario:
        assert load_config(scenario).spec == scenario["spec"]
        return
    for name in re.findall(r"\w+\.(?:down|up)\.csv", document):
        (tmp_path / name).write_text("time_ms,rate_mbps,delay_ms,loss\n0,50,30,0\n9000,80,25,0.01\n18000,60,40,0\n")
    scenario = resolve(scenario, tmp_path)
    _core.validate_scenario(json.dumps(scenario))
    result = _core.simulate(json.dumps(scenario))
    assert all(flow["delivered_bytes"] > 0 for flow in result["flows"])


@pytest.mark.skipif(not shutil.which("iperf3"), reason="IPERF3 NOT INSTALLED: the entrant file of docs/ was not read")
def test_entrant_files_are_read_and_stand_in_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "entrant-files.md").read_text("utf-8")
    for name, block in re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL):
        Path(name).write_text(block)
    scenario = enter(read_scenario(Path("scenario.yaml")))
    assert [flow["scheme"] for flow in scenario["flows"]] == ["iperf3", "cubic", "kernel:bbr"]
    _core.validate_scenario(json.dumps(scenario))


def test_the_commands_of_the_traces_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CCARENA_TRACE_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "drive.trace").write_text("".join(f"{ms}\n" for ms in range(1, 3000)))
    (tmp_path / "rates.csv").write_text("1.5\n2.5\n")
    seconds = "".join(f"{1000 * second},{50 + 37 * second % 90}\n" for second in range(300))
    (tmp_path / "measured.csv").write_text(f"time_ms,rate_mbps\n{seconds}")
    (text,) = blocks(ROOT / "docs" / "traces.md", "sh")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    assert len(lines) >= 6
    for words in lines:
        assert words[:2] == ["ccarena", "traces"]
        # The only one that needs a network; its own tests serve the files.
        if words[2] != "fetch":
            assert cli.main(words[1:]) == 0, words


def test_the_results_page_names_every_key() -> None:
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    link = {"service": {"type": "constant", "rate_mbps": 9}}
    flow = {"scheme": "acct", "policy": {"constant": 1}}
    record = {"packets": True, "reports": True}
    result = _core.simulate(json.dumps({"duration_s": 1, "links": [link], "flows": [flow], "record": record}))
    flow_page, link_page = text[text.index("### `flows[i]`") :].split("### `links[i]`")
    for page, keys in ((flow_page, result["flows"][0]), (link_page, result["links"][0])):
        named = set(re.findall(r"`([a-z_0-9]+)`", page))
        assert set(keys) <= named, set(keys) - named
        assert set(keys.get("log", ())) | set(keys.get("drops", ())) <= named


def test_the_scenario_page_names_every_key() -> None:
    text = (ROOT / "docs" / "scenario.md").read_text("utf-8")
    document = json.loads(
        _core.validate_scenario(
            json.dumps({"links": [{"service": {"type": "constant", "rate_mbps": 9}}], "flows": [{"scheme": "reno"}]})
        )
    )
    for part in (document, document["links"][0], document["flows"][0]):
        assert all(f"`{key}`" in text or f"`record.{key}`" in text or key == "record" for key in part), part


def test_the_scenario_page_has_every_queue_discipline_with_its_defaults() -> None:
    text = (ROOT / "docs" / "scenario.md").read_text("utf-8")
    for discipline in _core.queue_disciplines():
        (row,) = re.findall(rf"^\| `{discipline['name']}` \|.*$", text, flags=re.M)
        for param in discipline["params"]:
            option = (param["min"], param["max"]) == (0, 1) and param["default"] in (0, 1)
            default = str(bool(param["default"])).lower() if option else f"{param['default']:g}"
            assert f"`{param['name']}` ({default})" in row, param


def test_the_scenario_page_has_every_router_with_its_defaults() -> None:
    text = (ROOT / "docs" / "scenario.md").read_text("utf-8").split("### Routers")[1]
    for router in _core.routers():
        (row,) = re.findall(rf"^\| `{router['name']}` \|.*$", text, flags=re.M)
        for param in router["params"]:
            assert f"`{param['name']}` ({param['default']:g})" in row, param


def test_the_artifact_page_names_operations_and_limits() -> None:
    text = (ROOT / "docs" / "artifact.md").read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in OPERATIONS)
    source = (ROOT / "crates" / "ccarena-cc" / "src" / "policy" / "graph.rs").read_text("utf-8")
    limits = dict(re.findall(r"MAX_(\w+): usize = (?:1 << )?(\d+);", source))
    assert f"{int(limits['NODES']):,} nodes" in text and f"2^{limits['VALUES']} numbers" in text
    assert f"2^{limits['PRODUCTS']} multiplications" in text


def commands() -> list[object]:
    """Each command of `ccarena` in the pages."""
    return [
        pytest.param(line, id=f"{page.stem}: {line.partition('#')[0].strip()}")
        for page in [ROOT / "README.md", *PAGES]
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"(?:sudo \S+ )?(?:\S*/)?ccarena ", line)
    ]


@pytest.mark.parametrize("line", commands())
def test_commands_are_spelled_as_the_program_has_them(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[next(i for i, word in enumerate(words) if word.endswith("ccarena")) + 1 :]
    if "|" in words:
        words = words[: words.index("|")]
    if words[0] not in SHELLS:
        args, rest = parse(lambda: cli.build_parser(words[0]), words)
        assert hasattr(args, "overrides") or not rest, rest
