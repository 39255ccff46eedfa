"""A run that is kept on an object store: one in memory, and where its packages are installed a local S3."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ccarena import cli, remote_folder
from ccarena.agents import checkpoint
from ccarena.errors import ConfigError
from ccarena.remote_folder import RemoteFolder, opened, remote_of, shown
from ccarena.run_folder import resume_command

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


STORES = pytest.mark.parametrize("url", ["memory", "s3"], indirect=True)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["s3" if find_spec("moto") and find_spec("s3fs") else "memory"], indirect=True)
def test_another_machine_goes_on_with_a_run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["--total-decisions", "600", "--env.worlds", "4", "--algorithm.workers", "1", "--network.filters", "1"]
    small += [
        "--network.hidden",
        "4",
        "--eval.link_sets",
        "[]",
        "--env.link.kinds.trace",
        "0",
        "--validation.kinds",
        "[]",
    ]
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


def test_an_address_that_means_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nonsense://x: Protocol not known: nonsense; expected a folder, or a URL"):
        RemoteFolder("nonsense://x", tmp_path)
