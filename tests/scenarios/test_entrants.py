"""The one grammar of entrants: what it means, what it refuses, and that everything that takes an entrant takes it."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: entrants not tested (run make)")

import ccarena
from ccarena.cli import main
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import CcarenaError, ConfigError, PolicyError, ScenarioError
from ccarena.eval.leaderboard.entrants import entrants_of
from ccarena.policies import artifact
from ccarena.runs.run_folder import CONFIG, POLICY
from ccarena.scenarios.entrants import KINDS, distinct, find_policy, line_up, load_policy, parse
from ccarena.scenarios.schemes import heuristics
from tests.controllers.made import LACKS, module, needs

ACCT = shipped_policies()["acct"]
TRAINED = dict(artifact.load(ACCT).params)
LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run, `runs/mine`, a spec's file, `own.yaml`, a class, `own.py`, and a module, `own.wasm`."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "mine")
    document = {**artifact.load(ACCT).spec, "name": "own"}
    (tmp_path / "own.yaml").write_text(json.dumps(document))
    (tmp_path / "own.py").write_text(OWN)
    if not LACKS["C"]:
        module(tmp_path, name="own")
    return tmp_path


OWN = """
import ccarena

class Own(ccarena.Controller):
    def __init__(self, packets=20):
        self.window = packets

    def on_ack(self, ack):
        pass
"""


def make_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copy(ACCT, folder / POLICY)


@pytest.mark.parametrize("name", heuristics())
def test_every_scheme_is_an_entrant(name: str) -> None:
    assert (parse(name).label, parse(name).flow) == (name, {"scheme": name})


@pytest.mark.parametrize("name", shipped_policies())
def test_every_shipped_policy_is_an_entrant(name: str) -> None:
    assert (parse(name).label, parse(name).policy_file) == (name, shipped_policies()[name])


ALWAYS = {"scheme": "acct", "policy": {"constant": 5}}


@pytest.mark.parametrize(
    ("text", "label", "flow"),
    [
        ("cubic@hystart=0,reno_friendly=0", "", {"scheme": "cubic", "params": {"hystart": 0, "reno_friendly": 0}}),
        ("wcc-ai@weight=2.5", "", {"scheme": "wcc-ai", "weight": 2.5}),
        ("hercules@requirement=10:15", "", {"scheme": "hercules", "requirement": {"min_mbps": 10, "max_mbps": 15}}),
        ("reno@ecn=1", "", {"scheme": "reno", "ecn": True}),
        ("reno@ecn=accurate,l4s=1", "", {"scheme": "reno", "ecn": "accurate", "l4s": True}),
        ("pilot@preference=1", "", {"scheme": "pilot", "params": {"preference": 1}}),
        ("hyvar=0.5", "", {"scheme": "hyvar", "policy": {"constant": 0.5}}),
        ("acct=10", "", ALWAYS),
        ("acct=10@budget_ms=8", "", {**ALWAYS, "params": {"budget_ms": 8}}),
        ("slow start (old)=cubic@hystart=0", "slow start (old)", {"scheme": "cubic", "params": {"hystart": 0}}),
        ("still=acct=10", "still", ALWAYS),
        ("acct=mine", "acct", {"scheme": "acct", "policy": "runs/mine/policy.safetensors", "params": TRAINED}),
        ("runs/mine", "mine", {"scheme": "acct", "policy": "runs/mine/policy.safetensors", "params": TRAINED}),
        ("mine@budget_ms=8", "", {"policy": "runs/mine/policy.safetensors", "params": {**TRAINED, "budget_ms": 8}}),
        ('"runs/mine"', "mine", {"policy": "runs/mine/policy.safetensors"}),
        ("own.yaml=10", "own=10", {"policy": {"constant": 5}}),
    ],
)
def test_what_a_text_means(text: str, label: str, flow: dict[str, Any], here: Path) -> None:
    if isinstance(flow.get("policy"), str):
        flow = {**flow, "policy": str(here / flow["policy"])}
    entrant = parse(text)
    assert entrant.label == (label or text)
    assert {key: entrant.flow[key] for key in flow} == flow and entrant.text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cubik", 'entrant "cubik": unknown "cubik".*did you mean "cubic"'),
        ("minee", 'unknown "minee".*did you mean "mine"'),
        ("hyvar-packet", 'did you mean "hyvar-packets"'),
        ("", "has no name"),
        ("cubic:hystart=0:pace=1", 'settings follow "@", joined by commas: cubic@hystart=0,pace=1'),
        ("cubic@hystrat=1", 'cubic has no parameter "hystrat"; did you mean "hystart"'),
        ("wcc-ai@wieght=2", 'no parameter "wieght"; did you mean "weight"'),
        ("cubic@", 'nothing follows "@"'),
        ("cubic@hystart", '"hystart" is no KEY=VALUE'),
        ("cubic@hystart=", "is no KEY=VALUE"),
        ("cubic@hystart=1,", '"" is no KEY=VALUE'),
        ("cubic@hystart=nan", '"hystart" is "nan"; expected a finite number'),
        ("cubic@hystart=2", "hystart: got 2; expected a number from 0 to 1"),
        ("cubic@hystart=0,hystart=1", '"hystart" is given twice'),
        ("cubic@weight=2", "cubic does not share by weight; those that do: .*wcc-ai"),
        ("wcc-ai@weight=0", "weight: got 0"),
        ("hercules@requirement=10", "expected MIN:MAX in Mbit/s"),
        ("hercules@requirement=10:5", "more than min_mbps"),
        ("reno@ecn=yes", "expected 0, 1 or accurate"),
        ("cubic=3", '"cubic" is not learned and takes no action'),
        ("acct=7", "acct has no action 7; it has 1, 2, 3"),
        ("hyvar=3", "hyvar has no action 3; expected -2 to 2"),
        ("l4s", "l4s is learned, and no policy of that name is here"),
        ("cubic=mine", "the label cubic is a scheme, and this is acct"),
        ("a+b=cubic", "a label has letters"),
        ("one=two=cubic", "is no action"),
        (f"{'x' * 61}=cubic", "at most 60"),
        ('"cubic', "a double quote is not closed"),
        ("x" * 300, "unknown"),
        ("runs/" + "x" * 300, "no file or folder"),
        ("=" * 5000, "5000 characters; expected at most 4096"),
        ("a\0b", "unknown"),
        ("runs/absent", 'no file or folder "runs/absent"'),
        ("absent.safetensors", "no file or folder"),
        ("absent.yaml=3", "cannot be read"),
        ("shipped:mine", "nothing of the kind shipped is called"),
        ("runs", "no run and no policy is in this folder"),
        ("./runs", "no run and no policy is in this folder"),
        ("broken", "not a policy artifact"),
        ("unfinished", "the run has no policy.safetensors yet; train it to its end: ccarena train --out runs/unf"),
    ],
)
def test_what_is_refused_names_the_wrong_part(text: str, message: str, here: Path) -> None:
    make_run(here / "runs" / "broken")
    (here / "runs" / "broken" / POLICY).write_bytes(b"not one")
    (here / "runs" / "unfinished").mkdir()
    (here / "runs" / "unfinished" / CONFIG).write_text("name: acct\n")
    with pytest.raises(CcarenaError, match=message):
        parse(text)


def test_paths_with_marks_are_taken_whole_or_in_quotes(here: Path) -> None:
    make_run(here / "runs" / "lr=0.1@home")
    file = here / "runs" / "lr=0.1@home" / POLICY
    for text in ("runs/lr=0.1@home", f"{file}", '"runs/lr=0.1@home"', "mine=runs/lr=0.1@home", f"x={file}"):
        assert parse(text).policy_file == file
    assert parse('y="runs/lr=0.1@home"@budget_ms=7').flow["params"]["budget_ms"] == 7
    (here / "acct=10").mkdir()
    assert parse("acct=10").policy == {"constant": 5}, "a folder of that name here changes nothing"


@pytest.mark.parametrize(("name", "other"), [("acct", "shipped:acct"), ("cubic", "runs/cubic")])
def test_where_several_have_a_name_it_is_said_which_was_taken(
    name: str, other: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse(name).notice == ""
    make_run(here / "runs" / name)
    entrant, unmistakable = parse(name), parse(other)
    assert entrant.notice.startswith(f"{name}: took ") and "not " in entrant.notice and other in entrant.notice
    assert unmistakable.notice == "" and unmistakable.flow != entrant.flow
    compete = ["compete", "--group", f"{name}+reno", "--duration-s", "1", "--seeds", "1", "--stagger-s", "0.1"]
    assert main(compete) == 0
    assert capsys.readouterr().err.count(f"note: {entrant.notice}\n") == 1


def test_each_entrant_has_a_label_of_its_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(here / "elsewhere" / "mine")
    with ExitStack() as stack:
        named = line_up(["mine", "elsewhere/mine", "reno", artifact.load(ACCT)], stack)
        assert [entrant.label for entrant in named] == ["mine", "mine (2)", "reno", "acct"]
        with pytest.raises(ConfigError, match='"runs/mine" is given twice'):
            line_up(["mine", "runs/mine"], stack)
        with pytest.raises(ConfigError, match='two entrants are called "x"; give one another label'):
            line_up(["x=reno", "x=cubic"], stack)
    assert distinct([parse("reno"), parse("reno")]) == [parse("reno")] * 2
    make_run(here / "runs" / "reno")
    assert parse("runs/reno").label == "reno (policy)"


def test_a_policy_alone_is_what_some_take(here: Path) -> None:
    assert find_policy("mine") == find_policy("x=runs/mine") == find_policy(here / "runs" / "mine")
    for text, message in (
        ("cubic", "cubic without a trained policy"),
        ("acct=10", "acct without a trained policy"),
        ("mine@budget_ms=8", "takes a policy without"),
        ("mien", 'did you mean "mine"'),
    ):
        with pytest.raises(PolicyError, match=message):
            find_policy(text)
    assert load_policy("mine@budget_ms=8").params == {**TRAINED, "budget_ms": 8}
    assert ccarena.load_policy("x=mine").params == TRAINED


EVERYWHERE = [
    *("cubic@hystart=0", "pilot", "mine", "runs/mine", "x=runs/mine", "acct=10", "hercules@requirement=2:4"),
    "own.py:Own@packets=9",
    pytest.param("own.wasm@packets=9", marks=needs("C")),
    pytest.param("x=./own.wasm", marks=needs("C")),
]


@pytest.mark.parametrize("text", EVERYWHERE)
def test_every_command_and_function_takes_the_same_texts(text: str, here: Path) -> None:
    entrant = parse(text)
    scenario = {"duration_s": 1, "links": [LINK], "flows": [{"scheme": text}]}
    run = ccarena.run(scenario)[0]
    (flow,) = run.document["flows"]
    assert flow["scheme"] == entrant.flow["scheme"]
    assert flow["name"] == (entrant.label if entrant.labelled else "flow0")
    assert flow["policy"] == entrant.policy or entrant.policy is None
    assert entrant.flow.get("params", {}).items() <= flow["params"].items()
    competition = ccarena.compete(text, "reno", duration_s=1, stagger_s=0.1, seeds=1)
    assert entrant.label in {row["entrant"] for row in competition.flows}
    outcome = ccarena.evaluate(text, "vegas", link_sets=["slides"], seeds=1, duration_s=0.5)
    own = entrant.label if entrant.labelled or entrant.policy_file is None else entrant.scheme
    assert own in outcome.evaluation.schemes()
    assert [each.label for each in entrants_of([text], [])] == [entrant.label]


def test_parity_takes_a_label(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "x=runs/mine", "--decisions", "20", "--link-sets"]) == 0
    assert capsys.readouterr().out.startswith("x (")
    assert main(["parity", "cubic"]) == PolicyError.exit_code
    assert "cubic without a trained policy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"scheme": "cubik"}, r'flows\[0\]\.scheme: entrant "cubik".*did you mean "cubic"'),
        ({"scheme": "wcc-ai@weight=2", "weight": 3}, r"flows\[0\]\.weight: the entrant .* says it, too"),
        ({"scheme": "x=cubic", "name": "y"}, r"flows\[0\]\.name"),
        ({"scheme": "acct", "policy": "runs/absent"}, "no file or folder"),
    ],
)
def test_a_flow_and_its_entrant_do_not_contradict_each_other(flow: dict[str, Any], message: str, here: Path) -> None:
    with pytest.raises((ScenarioError, PolicyError), match=message):
        ccarena.run({"duration_s": 1, "links": [LINK], "flows": [flow]})


def test_a_flow_names_its_policy_as_an_entrant_does(here: Path) -> None:
    def policy_of(**flow: Any) -> Any:
        run = ccarena.run({"duration_s": 1, "links": [LINK], "flows": [{"scheme": "acct", **flow}]}, **given)[0]
        return run.document["flows"][0]["policy"]

    given: dict[str, Any] = {}
    file = str(here / "runs" / "mine" / POLICY)
    assert policy_of() == str(ACCT) == policy_of(policy="acct")
    assert policy_of(policy="runs/mine") == file and policy_of(policy={"integer": "mine"}) == {"integer": file}
    assert policy_of(policy="none") == "none" and policy_of(policy={"constant": 3}) == {"constant": 3}
    given["policies"] = "mine"
    assert policy_of() == file


def test_the_kinds_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "entrants.md").read_text("utf-8")
    assert all(f"`{kind}:" in page for kind in KINDS)


@pytest.mark.parametrize("words", [["eval"], ["compete"], ["leaderboard", "run"], ["parity"], ["policy", "show"]])
def test_help_names_the_page(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert "docs/entrants.md" in capsys.readouterr().out


def test_a_bpf_object_that_is_not_there_is_named_by_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text("name: theirs\nkind: bpf\nobject: theirs.bpf.o\n")
    with pytest.raises(ConfigError, match=r"theirs\.yaml: object: .*theirs\.bpf\.o is not there"):
        parse(str(file))
