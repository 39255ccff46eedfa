"""The command line on the real simulator: trainings that end, are interrupted, killed or out of disk; bad input."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena import cli
from ccarena.agents import checkpoint
from ccarena.policies import artifact, tensorfile
from ccarena.policies.curve import POINTS

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: nothing tested end to end (run make)")
torch = pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: training not tested end to end (ccarena[train])")

ROOT = Path(__file__).parents[1]
SMALL = ("--env.worlds", "16", "--env.episode_s", "[1, 2]", "--algorithm.workers", "2")
NO_EVAL = ("--eval.link_sets", "[]")


def start(*words: str) -> subprocess.Popen[str]:
    """A training in a process of its own."""
    command = [sys.executable, "-m", "ccarena.cli", "train", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def train(*words: str) -> tuple[int, str, str]:
    return finish(start(*words))


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until `path` is there, while `process` runs."""
    while not path.exists():
        assert process.poll() is None, finish(process)
        time.sleep(0.01)


def weights(run: Path) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in artifact.load(run / "policy.safetensors").tensors.items()}


def test_a_training_needs_no_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CCARENA_TRACE_DIR", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    run = tmp_path / "run"
    small = ("--eval.duration_s", "1", "--eval.seeds", "1", "--rules.links", "1", "--validation.kinds", "[]")
    code, out, err = train("--total-decisions", "4096", *SMALL, *small, "--out", str(run))
    assert code == 0, err
    assert "recording" not in err and "traces" not in err, "nothing is asked for"
    results = json.loads((run / "results.json").read_text("utf-8"))
    assert {row["link_set"] for row in results["rows"] if row["synthetic"]} == {"cellular"}
    verdict = json.loads((run / "evaluation.json").read_text("utf-8"))["verdict"]
    tested = {each["group"]: (each["state"] != "not tested", each["needs"]) for each in verdict["expectations"]}
    assert tested == {
        **dict.fromkeys(("constant", "steps"), (True, "")),
        **dict.fromkeys(("cellular, 100 packets", "cellular, 1000 packets"), (False, "recordings")),
    }
    assert "2 need recordings: `ccarena traces fetch mahimahi`" in verdict["learned"]["sentence"]
    assert verdict["simple_rule"]["answer"] == "undecided" and "; 1 seed, 5 decide" in out
    # So short a training learned little, and its page says how to go on.
    assert f"`ccarena train --out {run} --resume --total-decisions 8192`" in verdict["notes"][-1]
    *_, learned, rule, _ = out.strip().splitlines()
    assert learned.endswith(verdict["learned"]["sentence"]) and rule.endswith(verdict["simple_rule"]["sentence"])


def test_a_training_ends_in_a_policy_and_a_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small_eval = (
        "--eval.link_sets",
        "[constant]",
        "--eval.duration_s",
        "1",
        "--eval.seeds",
        "1",
        "--baselines",
        "[reno]",
        "--rules.links",
        "2",
    )
    code, out, err = train("--total-decisions", "4096", *SMALL, *small_eval, "--out", str(run))
    assert code == 0, err
    assert out.strip().splitlines()[-3].startswith("Did it learn? ")
    assert (run / "config.yaml").is_file() and any((run / "tensorboard").iterdir())

    trained = artifact.load(run / "policy.safetensors")
    observations = np.random.default_rng(1).uniform(0, 3, (512, trained.interface.observation_len)).astype(np.float32)
    assert trained.evaluation["means"]["constant"]["reno"] and trained.training["total_decisions"] == 4096
    # Workers finish the rollouts that they have begun.
    assert 4096 <= trained.curve["decisions"][-1] < 5000 and len(trained.curve["reward_mean"]) <= POINTS
    logits = trained.outputs(observations)
    actions, native = _core.Policy(run / "policy.safetensors").act(observations)
    np.testing.assert_allclose(native, logits, rtol=0, atol=1e-5)
    best = np.sort(logits, axis=1)
    clear = best[:, -1] - best[:, -2] > 2e-5  # where two actions are equal to rounding, either may come out on top
    assert np.array_equal(actions[clear], logits.argmax(axis=1)[clear]) and clear.mean() > 0.95

    page = (run / "page.html").read_text("utf-8")
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert "Expectations" in body and 'class="plot"' in body
    assert not re.search(r"""<(script|link|img)[^>]*(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert not re.search(r"""(src|href)=["']https?:""", body)

    code, _, err = train("--out", str(run))
    assert code == 2 and "holds a run already" in err and "Traceback" not in err


LONG = ("--total-decisions", "20480", "--checkpoint-every-s", "0.1", *SMALL, *NO_EVAL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The weights of a training that nothing interrupts."""
    run = tmp_path_factory.mktemp("whole") / "run"
    code, _, err = train(*LONG, "--out", str(run))
    assert code == 0, err
    return weights(run)


def test_ctrl_c_saves_and_resume_gives_the_same_weights(tmp_path: Path, whole: dict[str, bytes]) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--out", str(run))
    wait_for(run / checkpoint.NAME, process)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    assert "go on with: ccarena train" in err and "Traceback" not in err
    decisions = checkpoint.load(run).rest["algorithm"]["learner"]["decisions"]
    assert 0 < decisions < 20480
    code, _, err = train("--resume", "--out", str(run))
    assert code == 0, err
    assert weights(run) == whole


def test_a_killed_training_leaves_a_usable_checkpoint(tmp_path: Path, whole: dict[str, bytes]) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--out", str(run))
    wait_for(run / checkpoint.PREVIOUS, process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert checkpoint.load(run).arrays
    code, _, err = train("--resume", "--out", str(run), "--threads", "1")
    assert code == 0, err
    assert weights(run) == whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("NO mount COMMAND: training on a full disk not tested")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"CANNOT MOUNT A SMALL DISK: training on a full one not tested ({mounted.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_keeps_the_checkpoint(small_disk: Path, whole: dict[str, bytes]) -> None:
    run = small_disk / "run"
    process = start(*LONG, "--out", str(run))
    wait_for(run / checkpoint.PREVIOUS, process)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            # A short write fills the last page before the next one fails.
            file.write(b"\0" * 4096)
    code, _, err = finish(process)
    assert code != 0
    assert "No space left on device" in err and "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("error: ")
    assert checkpoint.load(run).rest["algorithm"]["learner"]["decisions"] > 0
    filler.unlink()
    code, _, err = train("--resume", "--out", str(run))
    assert code == 0, err
    assert weights(run) == whole


def test_a_training_that_cannot_be_is_refused_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    for words, message in (
        (("--env.link.presets", "[lte-drivng]"), 'unknown preset "lte-drivng"; did you mean "lte-driving'),
        (("--params", "{budget_ms: -3}"), "params.budget_ms is -3; expected"),
        (("--env.link.kinds", "{trace: 1}", "--env.link.traces", "[absent]"), 'env.link.traces: no trace "absent"'),
        (("--baselines", "[cubik]"), 'baselines: unknown scheme "cubik"; did you mean "cubic"?'),
        (("--objective", "rewrad"), 'did you mean "reward"?'),
        (("--objective.weight", "2"), "objective.weight = 2: reward takes no such argument"),
        (("--objective", "{name: log_power, weight: slak}"), 'there is no column "slak" in the figures of a run'),
        (("--rules.law", "{slak: [0, 1]}"), 'rules.law: unknown parameter "slak"; did you mean "slack"?'),
        (("--progress.means", "[rtt]"), 'progress.means: acct reports no "rtt"'),
        (("--eval.recordings", "[absent]"), 'eval.recordings: unknown recording "absent"'),
        (
            ("--expectations", "[{links: [constant], claim: full, figures: {utilization: {at_least: 1}}}]"),
            'expectations[0].figures: there is no figure "utilization"; did you mean "utilisation"?',
        ),
        (("--network.hiden", "50"), 'network.hiden = 50: acct_conv takes no such argument; did you mean "hidden"?'),
    ):
        assert cli.main(["train", *words, "--out", str(run)]) == 2
        captured = capsys.readouterr()
        assert message in captured.err and "Traceback" not in captured.err
        assert not run.exists()


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.policies.acct import RECORD, network, to_artifact

    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    to_artifact(network(), RECORD.model_dump(mode="json"), 0).save(path)
    return path


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, str]], Any]) -> bytes:
    """The bytes of the artifact at `path` after `change(tensors, metadata)`."""
    tensors, metadata = tensorfile.read(path)
    del metadata[artifact.CHECKSUM]  # which comes before all other checks of the weights
    change(tensors, metadata)
    return tensorfile.encode(tensors, metadata)


def not_a_number(tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    tensors["out.weight"] = np.full_like(tensors["out.weight"], np.nan)


def empty_range(tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    tensors["normalisation.low"] = tensors["normalisation.high"] + 1


def other_shape(tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    tensors["out.bias"] = np.zeros(2, np.float32)


BROKEN: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "truncated": (lambda path: path.read_bytes()[:-100], "truncated or no safetensors file"),
    "cut in its header": (lambda path: path.read_bytes()[:50], "truncated or no safetensors file"),
    "empty": (lambda path: b"", "truncated or no safetensors file"),
    "damaged": (lambda path: path.read_bytes()[:-4] + b"\0\0\0\x42", "SHA-256 .*damaged or edited"),
    "of NaN": (lambda path: rewritten(path, not_a_number), "finite"),
    "of another version": (lambda path: rewritten(path, lambda t, m: m.update(ccarena_format="1")), "version"),
    "of another graph": (lambda path: rewritten(path, lambda t, m: m.update(graph="{}")), "graph"),
    "of other actions": (lambda path: rewritten(path, lambda t, m: m.update(actions="[1, 2]")), "actions"),
    "of another shape": (lambda path: rewritten(path, other_shape), "out.bias"),
    "of an empty range": (lambda path: rewritten(path, empty_range), "low <= high"),
    "without metadata": (lambda path: rewritten(path, lambda t, m: m.clear()), "version|ccarena_format"),
    "text": (lambda path: b"seed: 1\n" * 99, "safetensors"),
    "a pickle": (lambda path: b"\x80\x04\x95" + b"\0" * 99, "pickle|safetensors"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_policy_is_refused_by_python_and_by_rust(
    kind: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.safetensors"
    make, message = BROKEN[kind]
    broken.write_bytes(make(policy))
    document = tmp_path / "scenario.yaml"
    document.write_text(
        "duration_s: 1\nlinks: [{service: {type: constant, rate_mbps: 24}}]\n"
        f"flows: [{{scheme: acct, policy: {broken}}}]\n"
    )
    out = ("--out", str(tmp_path / "out"))
    for words in (("eval", str(broken), "--link-sets", "constant", *out), ("eval", "--scenario", str(document))):
        assert cli.main(words) == 3
        err = capsys.readouterr().err
        assert err.startswith("error: ") and "broken.safetensors: " in err and re.search(message, err), err
        assert "Traceback" not in err
        assert cli.main([*words, "--debug"]) == 3
        assert "Traceback" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("links", "flows", "message"),
    [
        ("[{service: @9, name: wifi}]", "[{scheme: reno, path: [wify]}]", r"flows\[0\]\.path.*wifi"),
        ("[{service: @9}]", "[{scheme: cubik}]", 'did you mean "cubic"'),
        ("[{service: @.nan}]", "[{scheme: reno}]", r"line 2, column \d+: .*\.nan is not a finite number"),
        ("[{service: @-1}]", "[{scheme: reno}]", r"links\[0\]\.service\.rate_mbps: got -1"),
        ("[{service: @2024-01-01}]", "[{scheme: reno}]", r"links\[0\]\.service\.rate_mbps: .*2024"),
        ("[{service: @9}]", "[{}]", r"flows\[0\]\.scheme: missing"),
        ("[]", "[{scheme: reno}]", "links"),
        ("[{servise: 1}]", "[{scheme: reno}]", 'did you mean "service"'),
        ("7", "[{scheme: reno}]", "links"),
    ],
)
def test_a_wrong_scenario_is_refused(
    links: str, flows: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    links = re.sub(r"@([^,}]*)", r"{type: constant, rate_mbps: \1}", links)
    path.write_text(f"duration_s: 1\nlinks: {links}\nflows: {flows}\n")
    assert cli.main(["eval", "--scenario", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith((f"error: {path}: ", f"error: {path}, line ")), err
    assert re.search(message, err) and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"5\n3\n", r":2: "),
        (b"\x7fELF\x00\x01", "binary"),
        (b"0\n0\n", "0 ms"),
        (b"1\r\n2\r\n", "CR"),
        (b"1\ntwo\n", r":2: .*two"),
    ],
)
def test_a_wrong_trace_is_refused(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, path = tmp_path / "some.trace", tmp_path / "scenario.yaml"
    trace.write_bytes(content)
    path.write_text(f"duration_s: 1\nlinks: [{{service: {{type: trace, file: {trace}}}}}]\nflows: [{{scheme: reno}}]\n")
    for words in (("eval", "--scenario", str(path)), ("traces", "stats", str(trace))):
        assert cli.main(words) == 3
        err = capsys.readouterr().err
        assert err.startswith("error: ") and "some.trace" in err and re.search(message, err), err
        assert "Traceback" not in err


def test_a_missing_policy_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(tmp_path / "absent.safetensors")]) == 3
    assert "no file or folder" in capsys.readouterr().err
    assert not os.listdir(tmp_path)
