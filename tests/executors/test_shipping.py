"""Files that work on a cluster names: machines that lack them get them, and answers have their original names."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: its executor is not tested (ccarena[ray])")
pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: shipping is not tested (run make)")

from bench import nodes
from ccarena.executors import shipping
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


def test_a_parcel_is_its_content_at_home() -> None:
    content = {"file": __file__}
    assert copy.deepcopy(Parcel(content)).open() is content


DRIVER = """
import json, os, sys
from pathlib import Path
import ccarena
from ccarena.executors.ray import OnRay

address, folder = sys.argv[1:]
ray = OnRay(address)
there = [done.result() for done in ray.run(os.path.exists, [os.fsencode(f"{folder}/link.trace"), b"link.trace"])]
link = {"service": {"type": "trace", "file": "link.trace"}, "delay_ms": 10}
scenario = {
    "version": 1, "duration_s": 2, "links": [{**link, "queue": {"type": "droptail", "packets": 50}}],
    "flows": [{"scheme": "acct", "policy": f"{folder}/mine.safetensors"}],
}
runs = [ccarena.run(scenario, executor=each) for each in (ray, None)]
same = repr(runs[0].runs[0]) == repr(runs[1].runs[0])
done = ccarena.train("acct", {
    "executor": "ray", "ray.address": address, "total_decisions": 64, "reward": {"name": "own.py:mine"},
    "env.worlds": 2, "env.link.kinds": {"trace": 1}, "env.link.traces": ["link.trace"], "env.episode_s": [0.5, 1],
    "algorithm.workers": 1, "algorithm.rollout_length": 8, "validation.kinds": [], "eval.link_sets": [],
    "rules.links": 0,
}, out=f"{folder}/run")
print(json.dumps({"there": there, "same": same, "finished": done.finished}))
"""


REWARD = """
def mine(report, privileged):
    return report.throughput_mbps / privileged.capacity_mbps.clip(0.01)
"""


@pytest.mark.alone
def test_nothing_lies_at_the_same_path_on_the_other_machine(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of a cluster is in a mount namespace in which the user's folder is empty."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("NO USER NAMESPACES: machines without the user's files are not tested")
    own = tmp_path / "mine"
    own.mkdir()
    shutil.copy(ROOT / "ccarena/acct/policies/acct.safetensors", own / "mine.safetensors")
    (own / "link.trace").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    (own / "own.py").write_text(REWARD)
    hide = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(own)]
    cache = tmp_path_factory.mktemp("cache")
    with nodes.apart(1, before=hide, XDG_CACHE_HOME=str(cache)) as (address, _):
        words = [sys.executable, "-c", DRIVER, address, str(own)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=own, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"there": [False, False], "same": True, "finished": True}
    kept = {path.name for path in (cache / "ccarena/files").rglob("*.*")}
    assert kept == {"mine.safetensors", "link.trace", "own.py"}
