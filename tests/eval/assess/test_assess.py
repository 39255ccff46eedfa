"""Assessments: every question can be asked, the criteria find what is known, and files keep the answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.eval.assess import questions
from ccarena.eval.assess.assessment import ASSESSMENT, STATES, Plan, expanded, read
from ccarena.eval.assess.page import MARKDOWN, PAGE, SHOWN
from ccarena.eval.reproduce import checks, runner
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.one_run import checked

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: assessments not run (run make)")


def assessment(folder: Path, entrant: str, *asked: str) -> dict[str, dict[str, str]]:
    """Assesses an entrant quickly; returns question -> criterion -> state."""
    words = [word for name in asked for word in ("--question", name)]
    assert cli.main(["assess", entrant, "--quick", "--jobs", "1", "--out", str(folder), *words]) == 0
    (path,) = folder.glob(f"*/{ASSESSMENT}")
    answers = json.loads(path.read_text("utf-8"))["answers"]
    return {each["question"]: {row["criterion"]: row["state"] for row in each["criteria"]} for each in answers}


@pytest.mark.parametrize("name", questions.names())
def test_every_question_asks_about_the_entrant_in_valid_scenarios(name: str) -> None:
    plan = Plan(questions.chosen([name], "sim"))
    (asked,) = expanded(parse("vegas"), plan)
    schemes = [{flow["scheme"] for flow in run.spec["document"]["flows"]} for run in asked]
    assert any("vegas" in each for each in schemes)
    assert not any(questions.PLACE in each for each in schemes)
    for run in {run.title.rpartition(", ")[0]: run for run in asked}.values():
        checked(run.spec["document"])


def test_questions_cover_the_sections_of_the_rfc_that_runs_can_answer() -> None:
    asked = {questions.section(each) for each in questions.chosen([], "sim")} - {""}
    assert not asked & set(questions.NOT_ASKED)
    assert {"5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2", "5.2.1", "5.2.2"} <= asked
    assert {"6.1", "6.4", "7.1", "7.3", "7.4", "7.5", "7.7", "7.8", "7.9", "7.11"} <= asked


def test_a_sender_that_never_backs_off_fails_and_cubic_does_not(tmp_path: Path) -> None:
    asked = ("persistent-loss", "high-loss")
    deaf = assessment(tmp_path / "deaf", "fixed@window=400", *asked)
    cubic = assessment(tmp_path / "cubic", "cubic", *asked)
    for question in asked:
        assert "fail" in deaf[question].values(), question
        assert set(cubic[question].values()) == {"pass"}, question


def test_known_weaknesses_are_found(tmp_path: Path) -> None:
    assert assessment(tmp_path / "a", "cubic", "bufferbloat")["bufferbloat"].popitem()[1] == "fail"
    starved = assessment(tmp_path / "b", "vegas", "beside-standard")["beside-standard"]
    assert [state for criterion, state in starved.items() if "Its rate beside cubic" in criterion] == ["fail"]
    lossy = assessment(tmp_path / "c", "bbr", "high-loss")["high-loss"]
    assert [state for criterion, state in lossy.items() if "drops with 4 flows" in criterion] == ["fail"]


def test_what_the_entrant_sets_goes_before_the_question() -> None:
    (asked,) = expanded(parse("prague@ecn=accurate"), Plan(questions.chosen(["marks"], "sim"), quick=True))
    assert {run.spec["document"]["flows"][0]["ecn"] for run in asked} == {"accurate"}
    (asked,) = expanded(parse("cubic"), Plan(questions.chosen(["marks"], "sim"), quick=True))
    assert {run.spec["document"]["flows"][0]["ecn"] for run in asked} == {True}


@pytest.mark.parametrize("entrant", ["xcp", "abc"])
def test_routers_signal_to_the_schemes_that_need_them(entrant: str, tmp_path: Path) -> None:
    answers = assessment(tmp_path, entrant, "silence", "path-changes")
    assert set(answers["path-changes"].values()) == set(answers["silence"].values()) == {"pass"}


def test_a_policy_with_other_content_is_run_again(tmp_path: Path) -> None:
    from ccarena.core.learned_schemes import shipped_policies

    plan = Plan(questions.chosen(["silence"], "sim"), quick=True)
    file = tmp_path / "policy.safetensors"
    keys = []
    for name in ("acct", "acct-table"):
        file.write_bytes(shipped_policies()[name].read_bytes())
        (asked,) = expanded(parse(str(file)), plan)
        keys.append({run.key for run in asked})
    assert keys[0].isdisjoint(keys[1])


def test_every_state_of_a_claim_is_one_of_a_criterion() -> None:
    assert set(STATES) == set(checks.STATES) - {"differs"}
    assert set(SHOWN) == set(STATES.values())
    for each in questions.chosen([], "sim"):
        assert all(part[2] is None for claim in each.claims for part in claim.parts), (
            "a direction neither passes nor fails"
        )


def test_files_say_what_the_table_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def beside(line: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
        lines.append(line())
        return contextlib.nullcontext()

    monkeypatch.setattr(runner, "heartbeat", beside)
    found = assessment(tmp_path, "cubic", "bufferbloat", "reordering")
    assert lines[0].startswith("assessing ")
    said = capsys.readouterr().out
    assert "cubic: 1 pass, 1 fail" in said and "bufferbloat" in said and "reordering" not in said
    markdown = (tmp_path / "cubic" / MARKDOWN).read_text("utf-8")
    assert markdown.count("| fail |") == 1 and markdown.count("| pass |") == 1
    assert "Section 7.10: multipath transport" in markdown
    assert "RFC 9743, section 5.1.2" in (tmp_path / PAGE).read_text("utf-8")
    assert (tmp_path / "cubic" / "bufferbloat" / "scenarios.yaml").is_file()
    assert set(found) == {"bufferbloat", "reordering"}
    rows = [row for answer in read(tmp_path / "cubic")["answers"] for row in answer["criteria"]]
    for row in rows:
        numbers = [f"{label}: {number:.1f}" for label, number in row["values"][0].items()]
        assert all(number in row["measured"] for number in numbers), row
    assert read(tmp_path / "cubic")["states"] == {"pass": 1, "fail": 1, "undecided": 0, "not run": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no entrant: name whom to assess"),
        (["cubik"], 'did you mean "cubic"?'),
        (["cubic", "--question", "bufferbloa"], 'did you mean "bufferbloat"?'),
        (["cubic", "--seeds", "0"], "--seeds 0: expected 1 to 10000"),
        (["kernel:vegas"], "use --backend kernel"),
        (["cubic", "--backend", "kernel", "--jobs", "2"], "leave it out"),
        (["--list", "--quick"], "--quick has no effect beside --list"),
    ],
)
def test_errors_name_what_is_wrong(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["assess", *words]) == 2
    assert said in capsys.readouterr().err


def test_two_labels_do_not_share_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["assess", "a (b)=cubic", "a _b_=reno", "--question", "silence"]) == 2
    assert "would share the folder" in capsys.readouterr().err


def test_the_page_shows_what_is_kept() -> None:
    docs = pytest.importorskip("docs.generate.assess")
    kept = json.loads(docs.KEPT.read_text("utf-8"))
    assert [each["entrant"] for each in kept] == list(docs.ENTRANTS)
    assert f"{docs.START}\n{docs.markdown(kept)}\n{docs.END}" in docs.PAGE.read_text("utf-8")


def test_an_interruption_shows_the_finished_assessments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ccarena.commands import assess as command

    real = command.assess
    done: list[str] = []

    def interrupted(entrant: Any, *rest: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(entrant.label)
        return real(entrant, *rest)

    monkeypatch.setattr(command, "assess", interrupted)
    words = ["assess", "cubic", "reno", "--quick", "--jobs", "1", "--question", "silence", "--out", str(tmp_path)]
    assert cli.main(words) == 130
    assert "cubic: 1 pass" in capsys.readouterr().out
    assert (tmp_path / "cubic" / MARKDOWN).is_file() and (tmp_path / PAGE).is_file()


def test_an_unknown_question_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match='unknown question; did you mean "aqm"'):
        questions.chosen(["aqmm"], "sim")
