"""Files that work on a cluster names: machines that lack them get them, and answers have their original names."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: shipping is not tested (run make)")

from bench import nodes
from ccarena import __version__
from ccarena.errors import WorkerError
from ccarena.executors import file_cache, shipping
from ccarena.executors.shipping import Parcel

ROOT = Path(__file__).parents[2]


class Store:
    """Ray's object store, as far as parcels use it."""

    def __init__(self) -> None:
        self.puts: list[bytes] = []

    def put(self, data: bytes) -> int:
        self.puts.append(data)
        return len(self.puts) - 1

    def get(self, reference: int) -> bytes:
        return self.puts[reference]

    def get_runtime_context(self) -> Any:
        return self

    def get_worker_id(self) -> str:
        return str(id(self))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    import ray

    store = Store()
    for name in ("put", "get", "get_runtime_context"):
        monkeypatch.setattr(ray, name, getattr(store, name))
    monkeypatch.setattr(shipping, "_written", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return store


def sent(content: Any) -> Parcel[Any]:
    """Returns the parcel as another machine gets it."""
    from ray import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(Parcel(content)))  # type: ignore[no-any-return]


def test_a_machine_without_the_files_gets_them_and_answers_with_their_names(store: Store) -> None:
    for name in ("mine.py", "twin.py", "up.trace", "cubic"):
        Path(name).write_text(f"# {name.replace('twin', 'mine')}")
    whole = {
        "reward": "mine.py:Reward",
        "other": "twin.py",
        "trace": Path("up.trace"),
        "absolute": str(Path("up.trace").resolve()),
        "scheme": "cubic",
        "absent": "gone.trace",
        "text": "up.trace\n",
    }
    parcel = sent(whole)
    assert parcel.open() == whole, "a machine with the same files uses them"
    assert len(store.puts) == 2, "each content is stored once"
    for name in ("mine.py", "twin.py", "up.trace"):
        Path(name).unlink()
    there = sent_again(parcel).open()
    assert {key for key in whole if there[key] != whole[key]} == {"reward", "other", "trace", "absolute"}
    file, _, wanted = there["reward"].partition(":")
    assert wanted == "Reward" and Path(file).name == "mine.py" and Path(file).read_text() == "# mine.py"
    assert isinstance(there["trace"], Path) and there["trace"].read_text() == "# up.trace"
    back = shipping.original(shipping.answered([there["reward"], {"file": there["trace"]}]))
    assert back == ["mine.py:Reward", {"file": Path("up.trace")}]


def sent_again(parcel: Parcel[Any]) -> Parcel[Any]:
    from ray import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(parcel))  # type: ignore[no-any-return]


def test_another_file_of_the_same_name_is_not_taken_for_it(store: Store) -> None:
    Path("policy.json").write_text("first")
    parcel = sent(["policy.json"])
    Path("policy.json").write_text("second")
    (name,) = parcel.open()
    assert Path(name).read_text() == "first" and Path("policy.json").read_text() == "second"
    # A damaged copy in the cache is replaced.
    Path(name).write_text("damaged")
    (name,) = sent_again(parcel).open()
    assert Path(name).read_text() == "first"


def test_a_machine_with_another_version_of_ccarena_does_no_work(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    parcel = sent("content")
    assert sent_again(parcel).open() == "content"
    monkeypatch.setattr(shipping, "__version__", "0.0.1")
    here = re.escape(socket.gethostname())
    with pytest.raises(
        WorkerError, match=f"the machine {here} has ccarena 0.0.1, and the command is of version {__version__},"
    ):
        sent_again(parcel).open()


def test_what_a_file_needs_from_its_folder_comes_with_it(store: Store) -> None:
    """Modules that a Python file imports, also in a function and by another module; shards of a dataset."""
    files = {
        "own/mine.py": "import numpy\nfrom tools import inner\ndef f():\n    import helpers",
        "own/tools/__init__.py": "",
        "own/tools/inner.py": "VALUE = 1",
        "own/helpers.py": "import deeper",
        "own/deeper.py": "",
        "own/unused.py": "",
        "pool/manifest.json": json.dumps({"shards": {"a.parquet": {}}}),
        "pool/a.parquet": "rows",
        "pool/notes.txt": "",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    parcel = sent(["own/mine.py:f", "./pool", "pool"])
    assert parcel.open() == ["own/mine.py:f", "./pool", "pool"]
    Path("own/helpers.py").write_text("import deeper  # another")
    Path("pool/a.parquet").unlink()
    mine, pool, bare = sent_again(parcel).open()
    assert bare == "pool", "a name alone may be a scheme's"

    def there(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    own = {"mine.py", "tools/__init__.py", "tools/inner.py", "helpers.py", "deeper.py"}
    assert there(Path(mine.rpartition(":")[0]).parent) == own
    assert there(Path(pool)) == {"manifest.json", "a.parquet"} and Path(pool, "a.parquet").read_text() == "rows"


def test_a_manifest_that_names_files_elsewhere_ships_nothing(store: Store) -> None:
    Path("pool").mkdir()
    Path("secret").write_text("text")
    Path("pool/manifest.json").write_text(json.dumps({"shards": {"../secret": {}}}))
    sent(["./pool"])
    assert store.puts == []


HOLD = """
import sys
from ccarena.executors import file_cache
print(file_cache.entry(sys.argv[1]), flush=True)
sys.stdin.read()
"""


def test_the_least_recently_used_files_go_and_none_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(file_cache, "_held", {})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, name],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c", "d")
    ]
    folders = []
    for at, process in enumerate(holders):
        assert process.stdin is not None and process.stdout is not None
        folders.append(folder := Path(process.stdout.readline().strip()))
        (folder / "x").write_bytes(bytes(1000))
        os.utime(folder, (at, at))
    for process in (holders[1], holders[3]):  # b and d are used by nobody any more
        process.communicate()
    file_cache.prune(4000)
    assert all(folder.exists() for folder in folders)
    file_cache.prune(3500)
    assert [folder.exists() for folder in folders] == [True, False, True, True], "a is older, and in use"
    assert file_cache.entry("d") == folders[3]
    for process in (holders[0], holders[2]):
        process.communicate()
    file_cache.prune(0)
    assert [folder.exists() for folder in folders] == [False, False, False, True], "this process holds d"
    shutil.rmtree(folders[3])
    assert file_cache.entry("d").is_dir(), "one that was deleted by hand is made again"


def test_a_parcel_is_its_content_at_home() -> None:
    content = {"file": __file__}
    assert copy.deepcopy(Parcel(content)).open() is content


DRIVER = """
import json, os, sys
from pathlib import Path
import ccarena
from ccarena import cli
from ccarena.configs import load_config
from ccarena.data import collect
from ccarena.executors.ray import OnRay
from ccarena.runs.run_folder import POLICY

address, folder, sweep = sys.argv[1:]
ray = OnRay(address)
there = [done.result() for done in ray.run(os.path.exists, [os.fsencode(f"{folder}/link.trace"), b"link.trace"])]
link = {"service": {"type": "trace", "file": "link.trace"}, "delay_ms": 10}
scenario = {
    "version": 1, "duration_s": 2, "links": [{**link, "queue": {"type": "droptail", "packets": 50}}],
    "flows": [{"scheme": "acct", "policy": f"{folder}/mine.safetensors"}],
}
runs = [ccarena.run(scenario, executor=each) for each in (ray, None)]
same = repr(runs[0].runs[0]) == repr(runs[1].runs[0])
small = {
    "reward": {"name": "own.py:mine"}, "env.worlds": 2, "env.episode_s": [0.5, 1], "env.link.kinds": {"trace": 1},
    "env.link.traces": ["link.trace"], "eval.link_sets": [],
}
done = ccarena.train("acct", {
    **small, "executor": "ray", "ray.address": address, "total_decisions": 64, "algorithm.workers": 1,
    "algorithm.rollout_length": 8, "validation.kinds": [], "rules.links": 0,
}, out=f"{folder}/run")
collect.collect(load_config("acct", small), ["acct"], 1, Path("pool"), seed=1)
Path("space.yaml").write_text("algorithm.learning_rate: {grid: [0.001]}")
learned = {
    **small, "algorithm": {"name": "bc", "data": ["pool"], "batch": 16}, "total_decisions": 64, "validation.links": 1,
    "validation.kinds": ["constant"],
}
words = [word for key, value in learned.items() for word in (f"--{key}", json.dumps(value))]
words += ["--space", "space.yaml", "--samples", "1", "--seeds", "1", "--validations", "1", "--scheduler", "none"]
code = cli.main(["tune", "--out", sweep, "--ray-address", address, *words])
policies = [path.name for path in Path(sweep).glob(f"trials/*/seed-1/{POLICY}")]
print(json.dumps({"there": there, "same": same, "finished": done.finished, "swept": [code, policies]}))
"""


REWARD = """
from shares import of_capacity


def mine(report, privileged):
    return of_capacity(report.throughput_mbps, privileged)
"""
SHARES = """
def of_capacity(rate_mbps, privileged):
    return rate_mbps / privileged.capacity_mbps.clip(0.01)
"""


@pytest.mark.alone
def test_nothing_lies_at_the_same_path_on_the_other_machine(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of a cluster is in a mount namespace in which the user's folder is empty: runs, a training, a sweep."""
    pytest.importorskip(
        "ray.tune", exc_type=ImportError, reason="RAY TUNE IS NOT INSTALLED: sweeps are not run (ccarena[tune])"
    )
    pytest.importorskip("pyarrow", reason="PYARROW IS NOT INSTALLED: no dataset is sent (ccarena[parquet])")
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("NO USER NAMESPACES: machines without the user's files are not tested")
    own = tmp_path / "mine"
    own.mkdir()
    shutil.copy(ROOT / "ccarena/acct/policies/acct.safetensors", own / "mine.safetensors")
    (own / "link.trace").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    (own / "own.py").write_text(REWARD)
    (own / "shares.py").write_text(SHARES)
    hide = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(own)]
    cache = tmp_path_factory.mktemp("cache")
    with nodes.apart(1, before=hide, XDG_CACHE_HOME=str(cache)) as (address, _):
        words = [sys.executable, "-c", DRIVER, address, str(own), str(tmp_path / "sweep")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=own, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        **{"there": [False, False], "same": True, "finished": True},
        "swept": [0, ["policy.safetensors"]],
    }, done.stderr[-4000:]
    kept = {path.name for path in (cache / "ccarena/files").rglob("*.*") if path.suffix != ".pyc"}
    assert kept == {"mine.safetensors", "link.trace", "own.py", "shares.py", "manifest.json", "acct-00000.parquet"}
