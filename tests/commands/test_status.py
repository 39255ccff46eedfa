"""`ccarena status` of a folder that a training is in, has left, or has finished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.agents.runs import locked
from ccarena.configs import load_config, save_config
from ccarena.extras import how_to_add
from tests.policies.made import continuous

fsspec = pytest.importorskip("fsspec", reason="FSSPEC IS NOT INSTALLED: runs on other file systems are not tested")


def test_the_rate_includes_the_time_of_learning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_config(load_config("acct", {"total_decisions": 100_000}), tmp_path / "config.yaml")
    # Two rollouts at 1,000 decisions per second, each followed by 20 s of learning.
    seconds = {n * 100: n / 10 + (20.0 if n > 100 else 0) for n in range(1, 201)}
    rows = [{"decisions": decisions, "elapsed_s": elapsed_s} for decisions, elapsed_s in seconds.items()]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with locked(tmp_path):
        assert cli.main(["status", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["decisions_per_s"], found["left_s"]) == (pytest.approx(500), pytest.approx(160))


def test_status_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    save_config(load_config("acct", {"total_decisions": 1000}), folder / "config.yaml")
    rows = [{"decisions": n, "elapsed_s": n / 50, "reward_mean": n / 10, "workers": 2.0} for n in (100, 200, 300)]
    (folder / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "validation.jsonl").write_text('{"decisions": 200, "score": 3.5}\n')

    def found(name: str) -> dict[str, object]:
        assert cli.main(["status", name, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    with locked(folder):
        running = found(str(folder))
    assert (running["state"], running["decisions"], running["done"]) == ("running", 300, "30%")
    assert running["decisions_per_s"] == pytest.approx(50) and running["left_s"] == pytest.approx(14)
    assert (running["reward_mean"], running["best_validation"], running["workers"]) == (30, 3.5, 2)
    left = found(str(folder))
    assert (left["state"], left["go_on_with"]) == ("ended early", f"ccarena train --out {folder} --resume")
    verdict = {"expectations": [{"state": "holds"}]}
    continuous("aurora", 0.1, evaluation={"verdict": verdict}).save(folder / "policy.safetensors")
    over = found(str(folder))
    assert (over["state"], over["learned"]) == ("over", "Learned: 1 of 1 expectations hold")
    assert over["simple_rule"].startswith("Not measured: ") and "learned" not in left
    for name in ("config.yaml", "progress.jsonl"):
        fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/{name}", (folder / name).read_bytes())
    away = found(f"memory://{tmp_path.name}")
    assert (away["state"], away["decisions"]) == ("ended early", 300)
    assert cli.main(["status", str(tmp_path)]) == 2
    assert "no run is there (no config.yaml); give the folder or URL of one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:6379", "--ray-address 127.0.0.1:6379: expected the address of a cluster's dashboard"),
        ("http://127.0.0.1:1", "mine at http://127.0.0.1:1: Failed to connect to Ray at address: http://127.0.0.1:1; "),
    ],
)
def test_a_wrong_dashboard_is_refused(address: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["status", "mine", "--ray-address", address])
    said = capsys.readouterr().err
    # Ray has its client of jobs in an extra of its own, which need not be installed.
    assert (code == 2 and message in said) or (code == 4 and how_to_add("cluster") in said)
