"""Submissions: what an honest one goes through, and every hostile form is refused with its reason."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena import _core
from ccarena.cli import main
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import CcarenaError
from ccarena.eval.leaderboard import submitting
from ccarena.eval.leaderboard.links import PRESETS, traces_of
from ccarena.eval.leaderboard.serve import TOKEN, Inbox, make_server
from ccarena.eval.leaderboard.submission import LARGEST_BYTES, SubmissionError, check, read
from ccarena.eval.leaderboard.trial import Limits, figures_of
from ccarena.policies import artifact, tensorfile
from ccarena.policies.export import to_graph
from ccarena.policies.spec import Spec

SHORT = ["--traces", "lte-walking", "lte-stationary", "--duration-s", "3", "--seeds", "1"]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of a shipped policy."""
    out = tmp_path_factory.mktemp("submission") / "acct.submission.json"
    words = ["leaderboard", "submit", "acct", "--out", str(out), "--name", "acct-1", "--author", "A. Uthor", *SHORT]
    assert main(words) == 0
    return out


def changed(honest: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(honest.read_text("utf-8"))
    change(document)
    return json.dumps(document)


def metadata_with(data: bytes, **entries: str) -> str:
    """The artifact `data` in base64 with other entries of its metadata."""
    tensors, metadata = tensorfile.decode(data)
    return base64.b64encode(tensorfile.encode(tensors, {**metadata, **entries})).decode()


@pytest.mark.linux
def test_an_honest_one_is_run_again_and_kept(honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "policies"
    assert main(["leaderboard", "verify", str(honest), "--sample", "2", "--keep", str(folder)]) == 0
    assert "acct-1: 2 of 2 runs were repeated and agree" in capsys.readouterr().out
    assert (folder / "acct-1.safetensors").read_bytes() == shipped_policies()["acct"].read_bytes()
    submission = read(honest)
    assert submission.card().startswith("# acct-1") and submission.author == "A. Uthor"
    assert all(0 < claim.figures["score"] <= 1 for claim in submission.claims)


@pytest.mark.linux
def test_a_claim_that_is_not_true_is_refused(honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def boast(document: dict[str, Any]) -> None:
        for claim in document["claims"]:
            claim["figures"]["score"] = 0.999

    false = tmp_path / "false.json"
    false.write_text(changed(honest, boast), "utf-8")
    assert main(["leaderboard", "verify", str(false), "--sample", "1"]) == 2
    assert re.search(r"score is said to be 0\.999; run again it is 0\.\d+", capsys.readouterr().err)


HTML = "<img src=x onerror=alert(1)>"
POLICY = shipped_policies()["acct"].read_bytes()
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "html in the name": (lambda d: d.update(name=HTML), "name: got"),
    "a path as the name": (lambda d: d.update(name="../../etc/cron.d/x"), "name: got '../../etc/cron.d/x'"),
    "an absolute path": (lambda d: d.update(name="/tmp/x"), "name: got"),
    "a hidden file": (lambda d: d.update(name=".bashrc"), "name: got"),
    "another's alphabet": (lambda d: d.update(name="асct"), "name: got"),
    "html in the author": (lambda d: d.update(author=HTML), "author: holds '<'"),
    "a terminal's escape": (lambda d: d.update(note="\x1b]0;owned\x07"), "note: holds '\\x1b'"),
    "text that turns around": (lambda d: d.update(note="\u202egnp.exe"), "note: holds"),
    "a long text": (lambda d: d.update(note="a" * 100_000), "note: expected text of at most"),
    "a field of its own": (lambda d: d.update({"run": "rm -rf /"}), "unknown field 'run'"),
    "no policy": (lambda d: d.update(policy=None), "policy: expected an artifact"),
    "a huge policy": (lambda d: d.update(policy="A" * 12_000_000), "policy: expected an artifact of at most"),
    "a pickle": (
        lambda d: d.update(policy=base64.b64encode(b"\x80\x04cos\nsystem\n").decode()),
        "policy: not a policy",
    ),
    "a zip in it": (lambda d: d.update(policy=base64.b64encode(b"PK\x03\x04" + bytes(99)).decode()), "policy: not a"),
    "half of a policy": (
        lambda d: d.update(policy=base64.b64encode(POLICY[: len(POLICY) // 2]).decode()),
        "policy: ",
    ),
    "html in the training's name": (
        lambda d: d.update(policy=metadata_with(POLICY, training=json.dumps({"name": HTML}))),
        "policy: trained by: holds '<'",
    ),
    "html in what it was trained on": (
        lambda d: d.update(
            policy=metadata_with(POLICY, trained_on=json.dumps([{"kind": "trace", "name": HTML, "digest": "0" * 16}]))
        ),
        "policy: trained_on[0].name: holds '<'",
    ),
    "a trace that is a file": (
        lambda d: d["claims"][0].update(trace="/etc/passwd"),
        "claims[0].trace: got '/etc/passwd'",
    ),
    "a run without end": (lambda d: d["claims"][0].update(duration_s=1e9), "claims[0].duration_s: got 1000000000.0"),
    "a huge buffer": (lambda d: d["claims"][0].update(buffer_packets=10**9), "claims[0].buffer_packets: got"),
    "true as a number": (lambda d: d["claims"][0].update(seed=True), "claims[0].seed: got True"),
    "no end of claims": (lambda d: d.update(claims=d["claims"] * 10_000), "claims: expected a list"),
    "a link twice": (lambda d: d["claims"].append(d["claims"][0]), "claims[2]: names the link and seed of claims[0]"),
    "a figure of nothing": (lambda d: d["claims"][0]["figures"].update(power=None), "figures.power: got None"),
    "a score above 1": (lambda d: d["claims"][0]["figures"].update(score=1.1), "figures.score: got 1.1"),
    "a figure of its own": (lambda d: d["claims"][0]["figures"].update(glory=1), "claims[0].figures: expected"),
    "infinity": (lambda d: d["claims"][0]["figures"].update(score=float("inf")), "not a submission: not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ones_are_refused(name: str, honest: Path) -> None:
    change, expected = HOSTILE[name]
    with pytest.raises(SubmissionError) as refused:
        check(changed(honest, change))
    assert expected in str(refused.value), refused.value


def huge_tensor() -> bytes:
    """A header that speaks of 4 EB."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 30, 1 << 30], "data_offsets": [0, 1 << 62]}}).encode()
    return len(header).to_bytes(8, "little") + header


def bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../policy.safetensors", bytes(50_000_000))
    return packed.getvalue()


def test_files_that_are_none_are_refused(honest: Path, tmp_path: Path) -> None:
    def refused(data: bytes, expected: str) -> None:
        file = tmp_path / "hostile.json"
        file.write_bytes(data)
        with pytest.raises(SubmissionError, match=expected):
            read(file)

    refused(bomb(), "not a submission: byte")
    refused(b"", "not JSON")
    refused(b"[" * 100_000, "not JSON")
    refused(b'{"name": "a",\n "name": "b"}', 'the key "name" is there twice at line 2 column 7')
    refused(b"{}", "ccarena_submission")
    refused(b" " * (LARGEST_BYTES + 1), "bytes; expected a file of at most")
    huge = base64.b64encode(huge_tensor()).decode()
    refused(changed(honest, lambda d: d.update(policy=huge)).encode(), "policy: ")
    with pytest.raises(SubmissionError, match="cannot be read"):
        read(tmp_path / "nowhere.json")


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 4000), byte=st.integers(0, 255), text=st.text(max_size=40))
def test_damage_never_breaks_the_check(honest: Path, cut: int, byte: int, text: str) -> None:
    whole = honest.read_bytes()
    damaged = whole[:cut] + bytes([byte]) + whole[cut + 1 :]
    for data in (damaged, whole[:cut], whole[:cut] + text.encode() + whole[cut:]):
        try:
            check(data.decode("utf-8", "replace"))
        except SubmissionError:
            pass


def flood(folder: Path, power: float = 1.0) -> Path:
    """A policy that multiplies its window 65,536-fold every millisecond, or by a power of that."""
    document = {
        "learned": 1,
        "name": "flood",
        "clock": {"kind": "timer", "period_ms": 1},
        "observe": {"history": 1, "signals": ["rtt_ratio"]},
        "act": {"kind": "window_exp2", "bounds": [-1, 1], "max": 16, "window_limit": 1000},
        "base": "none",
    }
    spec = Spec.of(_core.learned(json.dumps(document)))
    last = torch.nn.Linear(300, 1)
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.constant_(last.bias, power)
    hidden = torch.nn.Linear(spec.size, 300), torch.nn.ReLU(), torch.nn.Linear(300, 300)
    network = torch.nn.Sequential(*hidden, torch.nn.ReLU(), last)
    path = folder / "flood.safetensors"
    artifact.Artifact.of(to_graph(network, spec.size), spec.interface).save(path)
    return path


def test_a_run_may_take_so_much_and_no_more(honest: Path, tmp_path: Path) -> None:
    claim = read(honest).claims[0]
    with pytest.raises(SubmissionError, match="of CPU; it has to decide faster"):
        figures_of(flood(tmp_path, power=0.0), replace(claim, duration_s=1200.0), Limits(cpu_s=1))
    with pytest.raises(SubmissionError, match=r"more than 1 MB of memory|ended with code"):
        figures_of(shipped_policies()["acct"], replace(claim, duration_s=60.0), Limits(memory_mb=1))
    figures = figures_of(flood(tmp_path), replace(claim, duration_s=1.0), Limits(cpu_s=30))
    assert figures["loss_share"] > 0.5, "it ends, and what it sends is lost"


@pytest.mark.linux
def test_the_claims_that_are_repeated_are_a_secret(
    honest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And of each class of traces at least one is: a forger of 23 claims out of 24 is found."""
    whole = read(honest)
    claims = tuple(
        replace(whole.claims[0], trace=trace.name, seed=seed) for trace in traces_of([PRESETS]) for seed in (0, 1)
    )
    asked: list[Any] = []
    monkeypatch.setattr(submitting, "read", lambda file: replace(whole, claims=claims))
    monkeypatch.setattr(submitting, "_measured", lambda _, chosen, *more: asked.append(chosen) or [])
    monkeypatch.setattr(submitting, "zip", lambda *_, strict: [], raising=False)
    assert main(["leaderboard", "verify", str(honest), "--sample", "1"]) == 0
    said = capsys.readouterr().out
    seed = re.search(r"4 of 24 runs .*--sample-seed (\d+) repeats them.* passes with a probability of at most", said)
    assert seed is not None
    assert main(["leaderboard", "verify", str(honest), "--sample", "1", "--sample-seed", seed[1]]) == 0
    assert asked[0] == asked[1]
    draws = {tuple(submitting.verify(honest, 1)[1].chosen) for _ in range(20)}
    assert len(draws) > 1 and all(len(chosen) == 4 for chosen in draws)


def test_what_is_no_name_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(submitting, "_measured", None)
    assert main(["leaderboard", "submit", "acct", "--name", "A B", "--out", str(tmp_path / "x"), *SHORT]) == 2
    assert "name: got 'A B'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def post(base: str, data: bytes, token: str = "", path: str = "submissions") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, data, headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_a_server_takes_them_from_whoever_has_the_token(
    honest: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(CcarenaError, match="at least 16"):
        Inbox.of(tmp_path)
    monkeypatch.delenv(TOKEN)
    inbox, data = Inbox.of(tmp_path / "inbox"), honest.read_bytes()
    with make_server(str(small), 0, inbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/"
        assert post(base, data)[0] == 401 and post(base, data, "x" * 43)[0] == 401
        assert post(base, data, inbox.token, "elsewhere")[0] == 404
        assert post(base, b"PK\x03\x04\xff", inbox.token)[0] == 422
        refused = post(base, changed(honest, lambda d: d.update(name="../x")).encode(), inbox.token)
        assert refused[0] == 422 and "name: got" in refused[1]
        assert list(inbox.folder.iterdir()) == []
        assert post(base, data, inbox.token)[0] == 201
        assert post(base, data, inbox.token)[0] == 409
        large = urllib.request.Request(base + "submissions", b"x", {"Authorization": f"Bearer {inbox.token}"})
        large.add_header("Content-Length", str(LARGEST_BYTES + 1))
        with pytest.raises(urllib.error.HTTPError, match="413"):
            urllib.request.urlopen(large)
        server.shutdown()
    (file,) = inbox.folder.iterdir()
    assert file.name == "acct-1.submission.json" and read(file).name == "acct-1"


@pytest.mark.linux
def test_claims_are_of_links_that_there_are() -> None:
    links = submitting.links_of([20.0], [100], 30.0, 2)
    assert len(links) == 24 and len({link.trace for link in links}) == 12
    assert np.all([link.seed in (0, 1) for link in links])
    with pytest.raises(CcarenaError):
        submitting.verify(Path("nowhere"), 0)
