"""`ccarena quic`: what becomes of its options, and data from a server of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ccarena.cli import main
from ccarena.commands import quic as command
from ccarena.core import programs
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.programs import QUIC
from ccarena.errors import PolicyError
from ccarena.quic.decide import decide
from ccarena.scenarios.entrants import find_policy

pytestmark = pytest.mark.linux


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words of each program that would have replaced this process."""
    found: list[list[str]] = []
    monkeypatch.setattr(command.os, "execv", lambda path, words: found.append(words))
    monkeypatch.setattr(command, "find", lambda name: Path(name))
    return found


def test_options_become_the_programs(executed: list[list[str]]) -> None:
    main("quic get 127.0.0.1:4433 --scheme hercules --requirement 10:15 --requirement 20:30 --duration-s 3".split())
    main("quic serve --policy acct --interval-s 1 --fixed".split())
    get, serve = executed
    assert (
        get[1:] == "get 127.0.0.1:4433 --scheme hercules --duration-s 3 --requirement 10:15 --requirement 20:30".split()
    )
    assert serve[1] == "serve" and "--fixed" in serve and serve[serve.index("--default-policy") + 1] == "acct"
    offered = [serve[at + 1].split("=")[0] for at, word in enumerate(serve) if word == "--policy"]
    assert sorted(offered) == sorted(shipped_policies()), "shipped policies, each once"


def test_what_cannot_be_had_is_refused_before(executed: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quic", "get", "127.0.0.1:4433", "--scheme", "cubik"]) != 0
    assert 'did you mean "cubic"' in capsys.readouterr().err
    assert main(["quic", "serve", "--policy", "nobodys"]) != 0
    assert main(["quic", "serve", "--policy", "acct", "--scheme", "cubic"]) != 0
    assert executed == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Where a server listens."""
    words = ["quic", "serve", "--listen", "127.0.0.1:0", "--qlog", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-m", "ccarena.cli", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["listening"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_policy_sends_data_and_leaves_a_log(server: str, tmp_path: Path) -> None:
    words = [programs.find(QUIC), "get", server, "--policy", "acct", "--bytes", "200000"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
    [line] = map(json.loads, done.stdout.splitlines())
    assert line["received_bytes"] == 200_000 and line["error"] is None
    [log] = tmp_path.glob("*.sqlog")
    records = [json.loads(text) for text in log.read_text().split("\x1e")[1:]]
    names = {record["name"] for record in records[1:]}
    assert names >= {"transport:packet_sent", "transport:packet_received", "recovery:metrics_updated"}
    sent = sum(r["data"]["raw"]["length"] for r in records[1:] if r["name"] == "transport:packet_sent")
    assert sent > 200_000


def test_an_artifact_is_checked_where_it_will_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "acct", "--to", "quic", "--out", str(tmp_path), "--decisions", "64", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    [file] = told["files"]
    assert told["agreement"] == 1 and Path(file).read_bytes() == find_policy("acct").read_bytes()


def test_what_is_no_artifact_is_refused_there() -> None:
    with pytest.raises(PolicyError, match="QUIC does not run this policy"):
        decide(b"nonsense", np.zeros((1, 1, 4), np.float32), np.ones((1, 1), np.bool_))
