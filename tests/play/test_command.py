"""`ccarena play` and `ccarena eval --digest`: what they write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena import _core, cli
from ccarena.errors import MissingDependencyError
from ccarena.play import page

LINK = {"service": {"type": "constant", "rate_mbps": 10}, "queue": {"type": "droptail", "packets": 40}}
SHORT = {"duration_s": 1, "links": [LINK], "flows": [{"scheme": "cubic"}]}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built page, as far as the command knows, in a folder of its own that is the current one."""
    marks = "".join(f'<script type="application/json" id="{name}"></script>' for name in ("given", "given-files"))
    (tmp_path / page.PAGE).write_text(f"<html>{marks}</html>", "utf-8")
    monkeypatch.setattr(page, "assets", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_holds_the_scenario_and_no_end_of_a_script(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "</script><script>alert(1)</script>"
    Path("own.yaml").write_text(json.dumps({**SHORT, "flows": [{"name": name, "scheme": "cubic"}]}), "utf-8")
    assert cli.main(["play", "own.yaml", "--no-open"]) == 0
    assert "wrote runs/play/own.html" in capsys.readouterr().out
    text = Path("runs/play/own.html").read_text("utf-8")
    assert text.count("</script>") == 2
    given = text.split('id="given">', 1)[1].split("</script>", 1)[0]
    assert json.loads(given)["flows"][0]["name"] == name


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"scheme": "cubik"}, "cubik"),
        ({"scheme": "kernel:vegas"}, "flows[0].scheme"),
        ({"scheme": "acct", "policy": "nothing.safetensors"}, "nothing.safetensors"),
        ({"scheme": "cubic", "start_s": -1}, "flows[0].start_s"),
    ],
    ids=["unknown", "kernel", "policy", "value"],
)
def test_a_scenario_that_a_page_cannot_run_is_refused(
    built: Path, capsys: pytest.CaptureFixture[str], flow: dict[str, object], expected: str
) -> None:
    Path("own.yaml").write_text(json.dumps({**SHORT, "flows": [flow]}), "utf-8")
    assert cli.main(["play", "own.yaml", "--out", "page.html"]) != 0
    assert expected in capsys.readouterr().err and not Path("page.html").exists()


def test_a_page_that_is_not_built_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ccarena.play.page.resources.files", lambda _: tmp_path)
    assert cli.main(["play", "--out", str(tmp_path / "page.html")]) == MissingDependencyError.exit_code
    assert "make web" in capsys.readouterr().err


def test_the_digest_is_of_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, document in (("a", SHORT), ("b", {**SHORT, "duration_s": 2})):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(document), "utf-8")
    assert cli.main(["eval", "--scenario", str(tmp_path / "a.yaml"), "--digest"]) == 0
    first = capsys.readouterr().out
    assert first == f"{_core.result_digest(json.dumps(SHORT))}\n" and len(first) == 65
    assert cli.main(["eval", "--scenario", str(tmp_path / "b.yaml"), "--digest", "--duration-s", "1"]) == 0
    assert capsys.readouterr().out == first
