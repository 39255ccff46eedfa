"""Submissions of WebAssembly modules: they go the way of policies, and a stranger's module reaches nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccarena.cli import main
from ccarena.eval.leaderboard.submission import SubmissionError, check, read
from ccarena.eval.leaderboard.trial import Limits, figures_of
from tests.controllers.made import ABOUT, compiled, module, needs, source

pytestmark = needs("C")
SHORT = ["--traces", "lte-walking", "--duration-s", "3", "--seeds", "1"]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of a module that keeps a window."""
    folder = tmp_path_factory.mktemp("submission")
    out = folder / "constant.submission.json"
    words = ["leaderboard", "submit", str(module(folder)), "--out", str(out), "--author", "A. Uthor", *SHORT]
    assert main(words) == 0
    return out


@pytest.mark.linux
def test_an_honest_one_is_run_again_kept_and_ranked(
    honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, store = tmp_path / "kept", str(tmp_path / "results.db")
    assert main(["leaderboard", "verify", str(honest), "--sample", "1", "--keep", str(folder)]) == 0
    assert "constant: 1 of 1 runs were repeated and agree" in capsys.readouterr().out
    assert (folder / "constant.wasm").read_bytes() == compiled(source())
    submission = read(honest)
    assert submission.card().startswith("# constant\n\nKeeps a window.")
    assert all(0 < claim.figures["score"] <= 1 for claim in submission.claims)
    words = ["--traces", "lte-walking", "--schemes", "reno", "--policies", str(folder)]
    assert main(["leaderboard", "run", "--store", store, *words, "--duration-s", "3", "--seeds", "1"]) == 0
    assert "constant" in capsys.readouterr().out


@pytest.mark.linux
def test_a_claim_that_is_not_true_is_refused(honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def boast(document: dict[str, Any]) -> None:
        for claim in document["claims"]:
            claim["figures"]["score"] = 0.999

    (tmp_path / "false.json").write_text(changed(honest, boast), "utf-8")
    assert main(["leaderboard", "verify", str(tmp_path / "false.json"), "--sample", "1"]) == 2
    assert "score is said to be 0.999; run again it is" in capsys.readouterr().err


def changed(honest: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(honest.read_text("utf-8"))
    change(document)
    return json.dumps(document)


def other(data: bytes) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document.update(module=base64.b64encode(data).decode())


def about(old: str, new: str) -> Callable[[dict[str, Any]], Any]:
    return lambda document: other(compiled(source(about=ABOUT.replace(old, new))))(document)


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a policy beside it": (lambda d: d.update(policy=d["module"]), "expected one field of policy and module, got 2"),
    "neither": (lambda d: d.pop("module"), "expected one field of policy and module, got 0"),
    "a large one": (lambda d: d.update(module="A" * 2_000_000), "module: expected a WebAssembly module of at most"),
    "a number": (lambda d: d.update(module=1), "module: expected a WebAssembly module of at most"),
    "text": (other(b"hello"), "module: "),
    "half of one": (lambda d: other(compiled(source())[:300])(d), "module: "),
    "html in its name": (about('"constant"', '"<img src=x>"'), "module: name: holds '<'"),
    "html in its summary": (about('"Keeps a window."', '"a<b"'), "module: summary: holds '<'"),
    "html in its help": (about('"Window."', '"&amp;"'), "module: params[0].doc: holds '&'"),
    "a long summary": (about('"Keeps a window."', f'"{"x" * 300}"'), "module: summary: expected text of at most 200"),
    "an endless description": (about("return &ABOUT;", "for (volatile int x = 0;; x++) {} return &ABOUT;"), "module: "),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ones_are_refused(name: str, honest: Path) -> None:
    change, expected = HOSTILE[name]
    with pytest.raises(SubmissionError) as refused:
        check(changed(honest, change))
    assert expected in str(refused.value)
    assert "/tmp" not in str(refused.value)


@pytest.mark.linux
def test_a_run_may_take_so_much_and_no_more(honest: Path, tmp_path: Path) -> None:
    claim = read(honest).claims[0]
    failing = module(tmp_path, "if (ack->now_ns > 500000000) __builtin_trap();", "failing")
    with pytest.raises(SubmissionError, match=r"lte-walking, 20 ms.*: cc_on_ack: trap"):
        figures_of(failing, claim, Limits())
    slow = module(tmp_path, "for (volatile int x = 0; x < 30000; x++) {}", "slow")
    with pytest.raises(SubmissionError, match="more than 1 s of CPU; it has to decide faster"):
        figures_of(slow, replace(claim, duration_s=600.0), Limits(cpu_s=1))
    hungry = module(tmp_path, "if (ack->acked_packets) cc_new(1 << 16);", "hungry")
    with pytest.raises(SubmissionError, match="cc_on_ack: "):
        figures_of(hungry, claim, Limits(memory_mb=1024))


def test_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = module(tmp_path)
    assert main(["leaderboard", "submit", f"{path}@packets=5", "--out", str(tmp_path / "x")]) == 3
    assert 'this takes a module without "@KEY=VALUE"' in capsys.readouterr().err
    assert main(["leaderboard", "submit", "cubic", "--out", str(tmp_path / "x")]) == 3
    assert not (tmp_path / "x").exists()
