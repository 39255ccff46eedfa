"""A run that is kept on an object store: one in memory, and where its packages are installed a local S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.agents import checkpoint
from ccarena.errors import ConfigError, TrainingError
from ccarena.runs import remote_folder
from ccarena.runs.remote_folder import RemoteFolder, opened, remote_of, shown
from ccarena.runs.run_folder import resume_command

fsspec = pytest.importorskip("fsspec", reason="FSSPEC IS NOT INSTALLED: runs on other file systems are not tested")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "memory":
        yield f"memory://{tmp_path.name}/runs/acct"
        return
    pytest.importorskip("s3fs", reason="S3FS IS NOT INSTALLED: runs on S3 are not tested (ccarena[remote])")
    server = pytest.importorskip(
        "moto.server", reason="MOTO IS NOT INSTALLED: runs on S3 are not tested (moto[s3,server])"
    )
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    _, port = running.get_host_and_port()
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    fsspec.filesystem("s3").clear_instance_cache()  # of another server
    # All servers of one process have the same buckets.
    if not fsspec.filesystem("s3").exists("bucket"):
        fsspec.filesystem("s3").mkdir("bucket")
    yield f"s3://bucket/{tmp_path.name}/acct"
    running.stop()


SMALL = ["--env.worlds", "4", "--algorithm.workers", "1", "--network.filters", "1", "--network.hidden", "4"]
SMALL += ["--eval.link_sets", "[]", "--env.link.kinds.trace", "0", "--validation.kinds", "[]"]

STORES = pytest.mark.parametrize("url", ["memory", "s3"], indirect=True)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["s3" if find_spec("moto") and find_spec("s3fs") else "memory"], indirect=True)
def test_another_machine_goes_on_with_a_run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["--total-decisions", "600", *SMALL]
    assert cli.main(["train", "--out", url, *small]) == 0
    files = RemoteFolder(url, tmp_path / "none")
    assert all(files.has(name) for name in ("config.yaml", "policy.safetensors", "checkpoint.previous.safetensors"))
    assert not files.has("lease.json") and not files.has("checkpoint.safetensors.new")
    # A run is never overwritten, and one that is not there cannot be gone on with.
    assert cli.main(["train", "--out", url, *small]) == 2
    assert cli.main(["train", "--out", f"{url}-2", "--resume"]) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    assert cli.main(["train", "--out", url, "--resume", "--total-decisions", "1200"]) == 0
    with opened(url, resume=True) as here:
        assert checkpoint.load(here).rest["algorithm"]["learner"]["decisions"] >= 1200
        assert len((here / "progress.jsonl").read_text("utf-8").splitlines()) > 1
        assert shown(here) == url and resume_command(here) == f"ccarena train --out {url} --resume"


@pytest.mark.slow
@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_a_validation_is_sent_at_once(url: str, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    sent, push = [], RemoteFolder.push

    def counted(folder: RemoteFolder) -> None:
        push(folder)
        rows = folder.read("validation.jsonl") if folder.has("validation.jsonl") else b""
        sent.append(rows.count(b"\n"))

    monkeypatch.setattr(RemoteFolder, "push", counted)
    words = [*SMALL[:-2], "--validation.links", "1", "--validation.every_decisions", "200", "--total-decisions", "600"]
    assert cli.main(["train", "--out", url, *words, "--checkpoint-every-s", "3600"]) == 0
    assert set(range(1, max(sent) + 1)) <= set(sent) and max(sent) >= 3


@STORES
def test_a_store_that_garbles_keeps_the_last_checkpoint(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(url, resume=False) as here:
        folder = remote_of(here)
        assert folder is not None
        (here / checkpoint.NAME).write_bytes(b"first")
        folder.push()
        assert folder.read(checkpoint.NAME) == b"first"
        (here / checkpoint.NAME).write_bytes(b"second")
        read = folder._files.cat_file
        with monkeypatch.context() as patch:
            # Of this object: an asynchronous file system's methods are not its class's.
            patch.setattr(folder._files, "cat_file", lambda path: read(path)[:-1])
            with pytest.raises(ConfigError, match="other bytes than were written"):
                folder.push()
        assert folder.read(checkpoint.NAME) == b"first"
        folder.push()
        assert (folder.read(checkpoint.NAME), folder.read(checkpoint.PREVIOUS)) == (b"second", b"first")


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_a_lease_keeps_others_out_until_it_is_not_renewed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_folder, "RENEW_S", 0.2)
    monkeypatch.setattr(remote_folder, "LEASE_S", 3.0)
    one, other = (RemoteFolder(url, tmp_path / name) for name in "ab")
    with one.lease(), pytest.raises(ConfigError, match="another training is running in this folder"), other.lease():
        pass
    # Left behind by a machine that was lost.
    one._files.pipe_file(f"{one._root}/lease.json", json.dumps({"who": "x", "renewed": time.time()}).encode())
    began_s = time.monotonic()
    with other.lease():
        assert time.monotonic() - began_s >= 3.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RENEW_S": 0.1, "LEASE_S": 0.5, "_SETTLE_S": 0.05}.items():
        monkeypatch.setattr(remote_folder, name, value)


def written(here: Path, data: bytes) -> RemoteFolder:
    folder = remote_of(here)
    assert folder is not None
    (here / "config.yaml").write_text("name: x\n")
    (here / checkpoint.NAME).write_bytes(data)
    return folder


@STORES
def test_who_has_lost_its_lease_sends_nothing_more(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    """As a process that was stopped: its thread does not renew, and then it goes on amid what it was at."""
    with pytest.raises(TrainingError, match=r"has gone on with this run.*nothing there was overwritten"):
        with opened(url, resume=False) as here:
            mine = written(here, b"mine")
            mine.push()
            (here / checkpoint.NAME).write_bytes(b"mine, later")
            (here / "progress.jsonl").write_bytes(b"mine")
            # Sent with the next checkpoint, whose upload takes so long that another one takes the lease meanwhile.
            theirs = RemoteFolder(url, tmp_path / "theirs")
            write = mine._files.pipe_file

            def slow(path: str, data: bytes) -> None:
                write(path, data)
                if path.endswith(f"{checkpoint.NAME}.new"):
                    monkeypatch.setattr(mine._files, "pipe_file", write)
                    theirs._files.pipe_file(theirs._path("lease.json"), json.dumps(THEIRS).encode())
                    theirs._files.pipe_file(theirs._path(checkpoint.NAME), b"theirs")

            monkeypatch.setattr(mine._files, "pipe_file", slow)
            mine.push()
    assert theirs.read(checkpoint.NAME) == b"theirs"
    assert json.loads(theirs.read("lease.json")) == THEIRS, "their lease stays"
    assert (mine.here / checkpoint.NAME).read_bytes() == b"mine, later", "and what was learned here"


THEIRS = {"id": "theirs", "who": "process 1 on another", "renewed": time.time()}


@STORES
def test_a_training_whose_lease_is_taken_notices_between_checkpoints(url: str, tmp_path: Path, quick: None) -> None:
    with pytest.raises(TrainingError, match="process 1 on another has gone on with this run"):
        with opened(url, resume=False) as here:
            folder = remote_of(here)
            assert folder is not None
            folder.check()
            folder._files.pipe_file(folder._path("lease.json"), json.dumps(THEIRS).encode())
            deadline_s = time.monotonic() + 10
            while time.monotonic() < deadline_s:
                time.sleep(0.05)
                folder.check()


def never_sent(url: str, data: bytes) -> Path:
    """The folder of a training that ended while its store took nothing."""

    def gone(*_: object) -> None:
        raise OSError("the store is gone")

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(ConfigError, match="cannot write: the store is gone"),
        opened(url, resume=True) as here,
    ):
        folder = written(here, data)
        patch.setattr(folder._files, "pipe_file", gone)
    return here


@STORES
def test_a_checkpoint_that_was_never_sent_is_gone_on_with(
    url: str, caplog: pytest.LogCaptureFixture, quick: None
) -> None:
    with opened(url, resume=False) as here:
        folder = written(here, b"first")
    assert never_sent(url, b"second") == here
    assert folder.read(checkpoint.NAME) == b"first"
    with opened(url, resume=True) as again:
        assert again == here and "which is newer and was never sent" in caplog.text
        assert (again / checkpoint.NAME).read_bytes() == b"second"
    assert folder.read(checkpoint.NAME) == b"second"


@STORES
def test_a_checkpoint_that_was_never_sent_is_kept_if_the_run_went_on_elsewhere(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, quick: None
) -> None:
    with opened(url, resume=False) as here:
        written(here, b"first")
    assert never_sent(url, b"second") == here
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    with opened(url, resume=True) as there:
        assert there != here
        written(there, b"theirs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with opened(url, resume=True) as again:
        assert (again / checkpoint.NAME).read_bytes() == b"theirs"
    (kept,) = here.parent.glob("*.kept-*")
    assert (kept / checkpoint.NAME).read_bytes() == b"second" and str(kept) in caplog.text


@pytest.mark.slow
def test_a_training_that_was_stopped_beyond_its_lease_ends_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trainings of one run, on one machine, so that they share the folder of copies, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    url = f"file://{tmp_path}/store/run"
    store = tmp_path / "store" / "run"

    def training(*words: str) -> subprocess.Popen[str]:
        code = "import sys; from ccarena import cli, remote_folder as r; r.LEASE_S, r.RENEW_S = 3.0, 0.3; "
        code += "sys.exit(cli.main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "train", "--out", url, *words, "--checkpoint-every-s", "0.2"]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def decisions() -> int:
        return int(checkpoint.load(store).rest["algorithm"]["learner"]["decisions"]) if store.exists() else 0

    def wait(process: subprocess.Popen[str], least: int) -> None:
        deadline_s = time.monotonic() + 120
        while not (checkpoint.exists(store) and decisions() >= least):
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.1)

    first = training(*SMALL, "--total-decisions", "100_000_000")
    second = None
    try:
        wait(first, 1)
        os.kill(first.pid, signal.SIGSTOP)
        second = training("--resume")
        wait(second, decisions() + 1000)
        os.kill(first.pid, signal.SIGCONT)
        _, said = first.communicate(timeout=60)
        assert first.returncode == 1
        (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert f"process {second.pid} on" in error and "nothing there was overwritten" in error
        assert "Traceback" not in said
        # The second one has kept its lease and its work, and goes on.
        reached = decisions()
        wait(second, reached + 1)
        assert json.loads((store / "lease.json").read_text())["who"].startswith(f"process {second.pid} ")
        second.terminate()
        _, said = second.communicate(timeout=60)
        assert second.returncode == 130 and "error: " not in said.replace("error: interrupted", "")
        assert decisions() > reached and not (store / "lease.json").exists()
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def test_an_address_that_means_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nonsense://x: Protocol not known: nonsense; expected a folder, or a URL"):
        RemoteFolder("nonsense://x", tmp_path)
