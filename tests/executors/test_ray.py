"""Pieces of work on a Ray cluster of several nodes, all on this machine, while parts of it die."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import nodes
from ccarena import cli
from ccarena.errors import ConfigError, ScenarioError, WorkerError

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")

from ccarena.executors.ray import OnRay, connect  # noqa: E402

# A node that starts beside other work may be given up as dead.
pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    # The head keeps the cluster and the driver's objects, and computes nothing: any other node may die.
    cluster = nodes.started()
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def computing(cluster: Any) -> Any:
    """The cluster with two cores at least."""
    if ray.cluster_resources().get("CPU", 0) < 2:
        nodes.add(cluster, num_cpus=2)
    return cluster


@pytest.mark.parametrize(
    ("address", "reason"), [("127.0.0.1:1", "Connection refused"), ("head.invalid:6379", "not known")]
)
def test_an_address_where_nobody_listens_is_refused_at_once(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    began_s = time.monotonic()
    with pytest.raises(ConfigError, match=f"Ray at {address}: .*{reason}; expected the address of a running cluster"):
        connect(address)
    assert time.monotonic() - began_s < 60


@pytest.mark.parametrize(("answer", "reason"), [
    (b"", "who listens there speaks something else and not the protocol of a head"),
    (b"+PONG\r\n", "who listens there speaks something else and not the protocol of a head"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "who listens there speaks HTTP, as Ray's dashboard does, and not the"),
])  # fmt: skip
def test_an_address_where_something_else_listens_is_refused_at_once(
    answer: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", None)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            with other.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = "{}:{}".format(*other.getsockname())
        with pytest.raises(ConfigError, match=f"Ray at {address}: {reason}"):
            connect(address)
        thread.join()


MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.9.0
    Python: 3.10.1
This process on node 10.0.0.1 was started with:
    Ray: 2.60.0
    Python: 3.11.2
"""
UNJOINED = """Failed to connect to GCS. Last connection error: Traceback (most recent call last):
  File "node.py", line 996, in _init_gcs_client
ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: Authentication token is missing. Ensure that
"""


@pytest.mark.parametrize(
    ("raised", "cause", "reason"),
    [
        (
            RuntimeError(MISMATCH),
            None,
            r"with: Ray: 2\.9\.0 Python: 3\.10\.1 This .*; install the cluster's versions here;",
        ),
        (
            ConnectionError("Failed"),
            RuntimeError(UNJOINED),
            r"it cannot be joined \(ray.*Authentication token is missing\);",
        ),
    ],
)
def test_the_reason_of_a_refused_connection_is_said(
    raised: Exception, cause: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray has it in its last lines, or those of the cause."""

    def init(**_: object) -> None:
        raise raised from cause

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=f"Ray at auto: .*{reason} expected the address of a running cluster"):
        connect("auto")


def test_sigterm_while_ray_starts_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own handler would end the process without a word."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: sys.exit(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        connect("auto")


def test_an_address_of_rays_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="Ray at ray://head:10001: that is an address of Ray's client, which cannot"):
        connect("ray://head:10001")


def work(folder: Path, x: int) -> np.ndarray:
    """Notes each run of a piece; 3 kills its worker once and 5 for ever, 7 is an error, 8 is large."""
    with open(folder / f"{x}", "a") as file:
        file.write(f"{os.getpid()}\n")
    if x == 5 or (x == 3 and len((folder / "3").read_text().split()) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if x == 7:
        raise ScenarioError("seven")
    time.sleep(0.05)
    return np.full(200_000 if x == 8 else 1, x)


def test_pieces_survive_workers_and_a_late_node_takes_part(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ccarena.executors import ray as executor

    monkeypatch.setattr(executor, "_NO_CORE_S", 1.0)
    monkeypatch.setattr(executor, "DEATHS", 2)
    results: dict[int, int] = {}
    failed: dict[int, Exception] = {}
    running = OnRay().run(functools.partial(work, tmp_path), range(12))

    class Joining(logging.Handler):
        """Nothing can run before the node is there, which is said and not waited for in silence."""

        def emit(self, record: logging.LogRecord) -> None:
            if "of the cluster's 0 cores" in record.getMessage() and len(cluster.list_all_nodes()) == 1:
                nodes.add(cluster, num_cpus=2)

    executor.log.addHandler(joining := Joining())
    try:
        with contextlib.closing(running):
            for done in running:
                assert done.index not in results.keys() | failed.keys()
                try:
                    results[done.index] = int(done.result()[-1])
                except (ScenarioError, WorkerError) as error:
                    failed[done.index] = error
    finally:
        executor.log.removeHandler(joining)
    assert results == {x: x for x in range(12) if x not in (5, 7)}
    assert str(failed[7]) == "seven" and "its worker died 2 times" in str(failed[5])
    assert "piece 3 was lost" in caplog.text


@pytest.mark.slow
def test_work_without_any_core_ends_with_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head has none, and no machine joins."""
    with nodes.apart(num_cpus=0) as (address, _):
        code = "import sys; from ccarena import cli; from ccarena.executors import ray; ray._PATIENCE_S = 3.0; "
        code += "sys.exit(cli.main(sys.argv[1:]))"
        words = ["leaderboard", "run", "--traces", "lte-bus", "--schemes", "reno", "--duration-s", "1", "--policies"]
        words += ["--store", str(tmp_path / "results.db"), "--executor", "ray", "--ray-address", address]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "the Ray cluster has had no core for" in error and error.endswith("go on with: ccarena " + " ".join(words))
    assert "Traceback" not in done.stderr


ACTS = (
    "import sys; from ccarena.executors.ray import connect, module; connect(sys.argv[1]); ray = module(); "
    "actor = ray.remote(num_cpus=1)(type('Actor', (), {'answer': lambda self: 'answered'})).remote(); "
    "print(ray.get(actor.answer.remote()))"
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_token_is_brought_to_a_head_that_asks_for_it_alone(mode: str, tmp_path: Path) -> None:
    """Ray made it when it was started on this machine; a head without it takes who demands it for dead."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text(64 * "a")
    own = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"} | {"HOME": str(tmp_path)}
    with nodes.apart(1, HOME=str(tmp_path), RAY_AUTH_MODE=mode) as (address, _):
        done = subprocess.run(
            [sys.executable, "-c", ACTS, address], env=own, capture_output=True, text=True, timeout=180
        )
    assert done.stdout == "answered\n", done.stderr[-2000:]
    assert "InvalidAuthToken" not in done.stderr, "looking for it is silent"


WATCHED = (
    "import os, sys, time; from ccarena.core import terminal; from ccarena.executors.ray_watch import watch; "
    "terminal.remember('ccarena eval x'); watch(sys.argv[1], lambda: True); "
)


def watched(address: str, then: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"RAY_gcs_rpc_server_reconnect_timeout_s": "6"}
    return subprocess.Popen([sys.executable, "-c", WATCHED + then, address], env=environment, stderr=subprocess.PIPE)


def test_a_head_that_is_lost_ends_the_process_with_the_command_that_goes_on() -> None:
    """Whatever Python is at; a head that is back in time ends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        where = head.getsockname()
        address = f"{where[0]}:{where[1]}"
        process = watched(address, "time.sleep(60)")
        head.accept()[0].close()
    time.sleep(1.0)
    with socket.create_server(where) as back:
        for _ in range(2):
            back.accept()[0].close()
        assert process.poll() is None
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    expected = (
        rf"\nerror: for \d+ s nobody has answered at the head of the Ray cluster at {address}; start it again or "
    )
    assert re.fullmatch(expected + r"another one \(--ray-address\), and go on with: ccarena eval x\n", said.decode())


@pytest.mark.parametrize(("then", "expected"), [
    ("os._exit(1)", "error: this process was killed, or lost the Ray cluster at {}; start it again or another one "
     "(--ray-address), and go on with: ccarena eval x"),
    ("sys.exit(1)", ""),
    ("raise KeyboardInterrupt", ""),
])  # fmt: skip
def test_a_process_that_ray_ends_without_a_word_says_how_to_go_on(then: str, expected: str) -> None:
    """A process that ends by itself has said what there is to say."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = "{}:{}".format(*head.getsockname())
        _, said = watched(address, then).communicate(timeout=30)
    lines = [line for line in said.decode().splitlines() if line.startswith("error: ")]
    assert lines == ([expected.format(address)] if expected else [])


def stored(folder: Path, node: str, x: int) -> np.ndarray:
    """Answers that are large stay in the store of their node; `node` is killed by the first piece that it gets."""
    if ray.get_runtime_context().get_node_id() == node:
        (folder / "there").touch()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    while not (folder / "there").exists():
        time.sleep(0.05)
    return np.full(200_000, x)


def test_a_lost_node_costs_no_result(
    computing: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ccarena.executors import ray as executor

    monkeypatch.setattr(executor, "_SLOW_AT_LEAST_S", 1000.0)  # so that no second copy comes first
    node = nodes.add(computing, num_cpus=1).node_id
    results = {}
    for done in OnRay().run(functools.partial(stored, tmp_path, node), range(8)):
        assert done.index not in results
        results[done.index] = int(done.result()[-1])
    assert results == {x: x for x in range(8)}
    assert "was lost" in caplog.text


def hesitating(folder: Path, x: int) -> int:
    """The first run of the last piece takes for ever, as on a machine that is slow."""
    if x == 5 and not (folder / "began").exists():
        (folder / "began").touch()
        time.sleep(100)
    return x


def test_what_is_slow_is_run_once_more(
    computing: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ccarena.executors import ray as executor

    monkeypatch.setattr(executor, "_SLOW_AT_LEAST_S", 0.5)
    began_s = time.monotonic()
    found = sorted(done.result() for done in OnRay().run(functools.partial(hesitating, tmp_path), range(6)))
    assert found == list(range(6)) and time.monotonic() - began_s < 60
    assert "piece 5 takes long" in caplog.text


def test_evaluations_are_those_of_one_process(computing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "scenario.json"
    link = {"name": "b", "service": {"type": "constant", "rate_mbps": 10}, "delay_ms": 5}
    document = {"version": 1, "duration_s": 1, "links": [link], "flows": [{"name": "f", "scheme": "reno"}]}
    scenario.write_text(json.dumps(document))
    held_out = ["eval", "reno", "--link-sets", "slides", "--duration-s", "1", "--seeds", "1"]
    own = ["eval", "--scenario", str(scenario), "--seeds", "3"]
    for words, files in ((held_out, ("rows.csv", "summary.csv")), (own, ("rows.csv",))):
        for executor in ("local", "ray"):
            assert cli.main([*words, "--executor", executor, "--out", str(tmp_path / executor)]) == 0
        for name in files:
            assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_a_suite_on_a_cluster_has_the_same_rows(computing: Any, tmp_path: Path) -> None:
    rows = {}
    for executor in ("local", "ray"):
        out = tmp_path / executor
        words = ["reproduce", "hercules/capacity", "--quick", "--seeds", "1", "--executor", executor]
        assert cli.main([*words, "--out", str(out)]) == 0
        (journal,) = out.rglob("rows.jsonl")
        rows[executor] = journal.read_bytes()
    assert rows["ray"] == rows["local"]


@pytest.mark.slow
def test_a_suite_whose_driver_is_killed_has_each_row_once(computing: Any, tmp_path: Path) -> None:
    suite = ["reproduce", "hercules/capacity", "--quick", "--seeds", "3"]
    assert cli.main([*suite, "--out", str(tmp_path / "local")]) == 0
    (whole,) = (tmp_path / "local").rglob("rows.jsonl")
    out = tmp_path / "ray"
    command = [sys.executable, "-m", "ccarena.cli", *suite, "--executor", "ray", "--ray-address", computing.address]
    process = subprocess.Popen([*command, "--out", str(out)])
    while not any(path.read_bytes() for path in out.rglob("rows.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    (journal,) = out.rglob("rows.jsonl")
    assert len(journal.read_bytes().splitlines()) < len(whole.read_bytes().splitlines())
    assert subprocess.run([*command, "--out", str(out)]).returncode == 0
    assert sorted(journal.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())


def test_seeds_of_a_trial_share_what_the_largest_machine_has(computing: Any, caplog: pytest.LogCaptureFixture) -> None:
    from ccarena.tune.sweep import _cores_each

    assert _cores_each(1) == 1 and not caplog.records
    assert _cores_each(1000) == max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
    assert "no machine has 1000 cores" in caplog.text


def test_no_thread_for_metrics_outlives_the_connection(computing: Any) -> None:
    """It sleeps and wakes by itself; if it wakes while the process ends, it uses what is destroyed by then."""
    code = (
        "import sys, threading, time; from pathlib import Path; from ccarena.executors.ray import connect, module; "
        "connect(sys.argv[1]); ray = module(); ray.get(ray.remote(lambda: 1).remote()); ray.shutdown(); "
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); time.sleep(1); "
        "print([each.read_text() for each in Path('/proc/self/task').glob('*/wchan')].count('hrtimer_nanosleep'))"
    )
    command = [sys.executable, "-c", code, computing.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr  # the one that the test started itself
