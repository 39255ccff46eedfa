"""The command line as a user meets it: exit codes, one-line errors, tracebacks only when asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest
import yaml

from ccarena import __version__, cli
from ccarena.attacks.api import PLAN
from ccarena.configs import TrainConfig, load_config, save_config
from ccarena.core import files
from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError
from ccarena.extras import how_to_add
from ccarena.runs.run_folder import free_folder, newest_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Makes `ccarena doctor` raise what the test gives."""

    def install(error: BaseException) -> None:
        def run(args: object) -> int:
            raise error

        monkeypatch.setattr("ccarena.commands.doctor.run", run)

    return install


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["link", "48mbit", "48mbit"], "48mbit: cannot read the trace: it looks like a rate"),
        (["link", "up.trce", "up.trace"], 'there is no such file; did you mean "up.trace"?'),
    ],
)
@pytest.mark.linux
def test_what_is_no_trace_of_a_link_gets_what_was_meant(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "up.trace").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 3
    assert message in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "-V"):
        with pytest.raises(SystemExit) as caught:
            cli.main([option])
        assert caught.value.code == 0
        assert capsys.readouterr().out == f"ccarena {__version__}\n"


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name not in cli.SHELLS])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main([name, "--help"])
    except SystemExit as left:
        code = left.code
    assert code == 0
    assert f"ccarena {name}" in capsys.readouterr().out


def test_unknown_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trian"]) == 2
    assert capsys.readouterr().err == 'error: unknown command "trian"; did you mean "train"?\n'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor", "--jsn"], 'ccarena doctor: unexpected "--jsn"; did you mean "--json"?'),
        (["eval", "--seds", "3"], 'unexpected "--seds"; did you mean "--seeds"?'),
        (["kernel", "attach", "--no-wc"], 'ccarena kernel attach: unexpected "--no-wc"; did you mean "--no-wcc"?'),
        (["--vers"], 'unexpected "--vers"; did you mean "--version"?'),
        (["traces", "stat"], 'unknown "stat"; did you mean "stats"?'),
        (["eval", "--backend", "kernl"], 'unknown "kernl"; did you mean "kernel"?'),
        (["compete", "cubic", "reno", "--link", "48mbit"], 'did you mean "48mbps"?'),
        (["compete", "cubic", "reno", "--link", "1.5Gb/s"], 'did you mean "1.5gbps"?'),
        (["train", "--seds", "3"], 'did you mean "seed"?'),
        (["train", "--resum"], 'did you mean "resume"?'),
    ],
)
def test_what_is_misspelt_gets_the_nearest(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("eval cubik", 2, 'did you mean "cubic"?'),
        ("eval cubic --seeds x", 2, 'argument --seeds: got "x"; expected a whole number ('),
        ("eval cubic --duration-s x", 2, 'argument --duration-s: got "x"; expected a number ('),
        ("eval cubic --seeds 0", 2, "seeds = 0: expected 1 to 10000\n"),
        ("eval cubic --seeds 100000000000", 2, "seeds = 100000000000: expected 1 to 10000"),
        ("compete cubic --seeds 100000000000", 2, "--seeds 100000000000: expected 1 to 10000"),
        ("eval cubic --duration-s 1e300", 2, "duration_s = 1e+300: expected above 0 and at most 100000 s"),
        ("eval cubic --record .", 2, ".: is a folder; nothing was run"),
        ("compete cubic --link -5mbps", 2, '--link "-5mbps": '),
        ("compete cubic --rtt-ms -1,20", 2, "--rtt-ms -1,20: expected base RTTs above 0"),
        ("compete cubic --rtt-ms 20,x", 2, '--rtt-ms "20,x": an RTT is "x"; expected a number'),
        ("compete cubic --plot a-file/heat.svg", 2, "a-file: cannot write there: "),
        ("compete acct --policy acct=foo", 2, 'unexpected "--policy"'),
        ("reproduce hercules/worst-case --jobs 0", 2, "--jobs 0: expected at least 1"),
        ("reproduce hercules/worst-case --write-docs a-file/x.md", 2, "a-file: cannot write there: "),
        ("fidelity", 2, "got 0 files; expected one of recorded runs"),
        ("fidelity --live --json .", 2, ".: is a folder; nothing was run"),
        ("parity acct --seed -1", 2, "seed = -1: expected a whole number, 0 to 4,294,967,295"),
        ("tune-scheme copa --space space.yaml --seed -1", 2, "seed = -1: expected a whole number, 0 to 4,294,967,295"),
        ("attack cubic --seed 4294967296", 2, "seed = 4294967296: expected a whole number, 0 to 4,294,967,295"),
        ("train --until -5", 2, "until = -5: expected at least 1"),
        (
            "train --total-decisions 1e30",
            2,
            "total_decisions = 1.0e+30: expected a whole number, at least 1 and at most",
        ),
        ("train --out a-file", 2, "a-file: cannot write there: "),
        ("train --track wandb", 4, 'needs the Python package "wandb"'),
        ("fit a-file", 2, "a-file: has no runs; expected a folder that `ccarena remote run --out DIR` wrote"),
        ("parity acct --decisions 0", 2, "decisions = 0: expected 1 to 1000000"),
        ("parity acct --link-sets stepz", 2, 'unknown link set "stepz"; did you mean "steps"?'),
        ("parity acct --duration-s nan", 2, "duration_s = nan: expected above 0 and at most 100000 s"),
        ("parity acct --json .", 2, ".: is a folder; nothing was run"),
        ("export acct --to c --out made --decisions 0", 2, "--decisions 0: expected 1 to 1000000"),
        ("export acct --to c --out made --duration-s 0", 2, "duration_s = 0: expected above 0 and at most 100000 s"),
        ("export acct --to onnx --out made --name ../x", 2, '--name "../x": expected up to 100 letters, digits'),
        ("policy rule acct --out a-file/x", 2, "error: argument --out: a-file: cannot write there: "),
        ("leaderboard rank --store absent.db", 2, "absent.db: no store is here"),
        ("leaderboard submit acct --out .", 2, ".: is a folder; nothing was run"),
        ("leaderboard run --store a-file/x.db", 2, "--store a-file/x.db: cannot write: File exists; name another"),
        ("leaderboard rank --store mysql://x/y", 2, "--store mysql://x/y: expected a file, or postgresql://HOST/NAME"),
        ("leaderboard import absent.csv", 2, "absent.csv: no such file; expected a table that"),
        ("leaderboard submit acct --delays-ms nan", 2, "--delays-ms: got nan; expected a number from 0.1 to 1000"),
        ("leaderboard submit acct --duration-s inf", 2, "--duration-s: got inf; expected a number from 1 to 600"),
        ("leaderboard submit acct --seeds 100000000", 2, "1,200,000,000 runs on all links; expected 1 to 10,000"),
        ("leaderboard submit acct --threads 0", 2, "--threads 0: expected at least 1"),
        ("leaderboard submit acct --memory-mb 0", 2, "memory_mb = 0: expected 1 to 1,000,000"),
        ("leaderboard verify a-file --cpu-s -1", 2, "cpu_s = -1: expected 1 to 1,000,000"),
        ("eval cubic --record a-file", 2, "a-file: not a file of measurements"),
        ("reproduce hercules/worst-case --seeds 100000000000", 2, "--seeds 100000000000: expected 1 to 10000"),
        ("assess cubic --seeds 0", 2, "--seeds 0: expected 1 to 10000"),
        ("fidelity --live --duration-s nan", 2, "--duration-s nan: expected above 0 and at most 100000 s"),
        ("fidelity --live --record a-file", 2, "a-file: not a file of measurements"),
        ("remote run x:99999 absent --token absent", 2, '"x:99999": expected HOST or HOST:PORT, with a port from'),
        ("remote run x absent --token absent --order-seed -1", 2, "--order-seed = -1: expected a whole number, 0 to"),
        ("kernel load a-file", 3, "a-file: not a policy artifact"),
        ("traces stats .", 3, ".: a folder; expected a trace"),
        ("traces convert rates.trace --format mbps-csv", 2, "rates.trace: is the table itself"),
        ("traces convert rates.trace --format mbps-csv --out x --seed -1 --burstiness 1", 2, "--seed = -1: expected"),
        ("play absent.yaml", 2, "absent.yaml: cannot read the scenario: No such file or directory"),
        ("tune --space space.yaml --seeds 100000000000", 2, "--seeds 100000000000: expected 1 to 10,000"),
        ("traces fetch nothing", 2, 'unknown trace set "nothing"'),
        ("tune --space wrong.yaml", 2, "wrong.yaml, line 2, column 1: not valid YAML"),
        ("tune --resume --out absent", 2, "absent holds no sweep (plan.json: No such file or directory)"),
        ("tune --resume --out .", 2, "plan.json is damaged: "),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    words: str,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is run, so that nothing is lost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ccarena.commands.parity.record", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    Path("a-file").touch()
    Path("plan.json").write_text("{")
    Path("space.yaml").write_text("delta: [0.1, 0.9]\n")
    Path("wrong.yaml").write_text("a: [\n")
    Path("rates.trace").write_text("time_s,rate_mbps\n0,5\n1,6\n")
    before = sorted(tmp_path.iterdir())
    assert cli.main(words.split()) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert message in captured.err
    assert not captured.out and sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        "train --algorithm.name PPOO",
        "train --network.name mpl",
        "train --reward.name acctt",
        "train --objective.name rewrad",
        "train --document nothing",
        "train --leave-out nobody",
        "train --env.link.presets [nothing]",
        "reproduce hercules/nothing",
        "traces stats nothing-of-this-name",
    ],
)
def test_what_is_known_is_named_once(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words.split()) in (2, 3)
    err = capsys.readouterr().err
    assert err.count("did you mean") + err.count("known: ") == 1 and "there are" not in err


@pytest.mark.parametrize(
    ("config", "decisions", "others"), [("acct", 3_000_000, "n_epochs"), ("aurora", 2_000_000, "actor_lr")]
)
def test_help_of_train_has_the_values_in_force(
    config: str, decisions: int, others: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the configuration chosen, wherever --config stands, and with what is overridden."""
    for words in (["--help", "--config", config], ["--config", config, "-h"]):
        assert cli.main(["train", *words]) == 0
        out = capsys.readouterr().out
        assert f"--total_decisions {decisions}\n" in out
        assert others not in out
        assert max(map(len, out.splitlines())) <= 110
    assert cli.main(["train", "--help", "--config", config, "--total-decisions", "7"]) == 0
    assert "--total_decisions 7\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("a: b"), 2, "error: a: b\n"),
        (MissingDependencyError.for_extra("ray", "ray", "executor ray"), 4, how_to_add("ray")),
        (KeyboardInterrupt(), 130, "error: interrupted; run it again with: ccarena doctor\n"),
        (
            OSError(28, "No space left on device", "runs/x"),
            1,
            "error: runs/x: No space left on device; free some space\n",
        ),
        (
            ModuleNotFoundError("no", name="ccarena._core"),
            4,
            "the native extension (ccarena._core) is not built: " + how_to_add(),
        ),
        (ModuleNotFoundError("no", name="torch.nn"), 4, 'the Python package "torch.nn" is not installed here'),
        (ZeroDivisionError("oh"), 1, "error: internal error: ZeroDivisionError: oh"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(error, code, message, failing, capsys) -> None:
    failing(error)
    assert cli.main(["doctor"]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_tree_without_the_extension_says_so(tmp_path: Path) -> None:
    unbuilt = tmp_path / "ccarena"
    unbuilt.mkdir()
    for path in (ROOT / "ccarena").iterdir():
        if not path.name.startswith("_core."):
            (unbuilt / path.name).symlink_to(path)
    command, env = [sys.executable, "-m", "ccarena.cli", "schemes"], {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (4, "")
    assert ran.stderr.startswith("error: the native extension (ccarena._core) is not built: ")


def test_ctrl_c_at_the_start_of_a_training_says_that_nothing_was_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ccarena.commands.train.load_config", interrupted)
    assert cli.main(["train", "--seed", "3"]) == 130
    expected = "error: interrupted; nothing was begun; run it again with: ccarena train --seed 3\n"
    assert capsys.readouterr().err == expected


def test_debug_shows_the_traceback(failing, capsys) -> None:
    failing(ConfigError("a: b"))
    assert cli.main(["doctor", "--debug"]) == 2
    captured = capsys.readouterr()
    assert "Traceback" in captured.err
    assert captured.err.endswith("error: a: b\n")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m ccarena.cli train --help | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        (">&-", "error: standard output is closed; send it to a file or to /dev/null\n"),
        (">/dev/full", "error: standard output: No space left on device; free some space\n"),
    ],
)
@pytest.mark.linux
def test_standard_output_that_takes_nothing_is_named(shell: str, says: str) -> None:
    command = ["bash", "-c", f"{sys.executable} -m ccarena.cli schemes {shell}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (1, says)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("certify hyvar absent.yaml", 2, "absent.yaml: cannot be read: No such file or directory; expected properties"),
        ("certify hyvar empty.yaml", 2, "empty.yaml: is empty; expected properties of a policy in YAML"),
        ("certify hyvar --guard folder", 2, "argument --guard: folder: is a folder; nothing was run"),
        ("certify hyvar --guard empty.yaml/x", 2, "argument --guard: empty.yaml: cannot write there"),
        ("export hyvar --to c --out empty.yaml", 2, 'argument --out: "empty.yaml" is a file; expected the name of a'),
        ("export bytes.yaml --to c", 3, "expected YAML in UTF-8; this takes a policy file, a run's folder"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused_before_any_work(
    words: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "bytes.yaml").write_bytes(b"\x91\xff")
    assert cli.main(words.split()) == code
    out, err = capsys.readouterr()
    assert says in err and not out


@pytest.mark.parametrize(
    "words",
    [
        "eval --scenario one.yaml --out OUT",
        "compete cubic --link 12mbps,20ms,1bdp --duration-s 1 --stagger-s 0.1 --seeds 1 --out OUT",
        "eval cubic --link-sets constant --duration-s 1 --seeds 1 --out OUT",
        "attack fixed --harm idle_link --candidates 2 --seeds 1 --workers 1 --out OUT",
    ],
)
def test_a_full_disk_loses_no_figures(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.yaml").write_text(
        "links: [{service: {type: constant, rate_mbps: 12}}]\nflows: [{name: a, scheme: cubic}]\nduration_s: 1\n"
    )
    monkeypatch.chdir(tmp_path)

    room = files.replacing

    def full(path: Path, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        if path.name == PLAN:  # written before anything is earned
            return room(path, durable)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ccarena.core.files.replacing", full)
    for number, more in enumerate(("", " --json")):
        assert cli.main(f"{words}{number}{more}".split()) == 1
        out, err = capsys.readouterr()
        assert "cannot write: No space left on device; give another folder or free space" in err
        assert any(word in out.lower() for word in ("utilisation", "share", "finds", "counterexample"))


def test_print_config_checks_the_reward(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--config", "aurora", "--reward.target", "5", "--print-config"]
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and "reward.target" in err
    monkeypatch.setattr("ccarena.commands.train.find_spec", lambda name: None)
    assert cli.main(words) == 0, "a machine without the native extension shows its configuration"


def test_a_training_says_that_it_loads_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: its loading was not tested")
    wrong = ["train", "--config", "aurora", "--algorithm", "Nothing", "--out", str(tmp_path / "run")]
    for modules, said in (({}, True), ({"torch": None}, False)):
        monkeypatch.setattr("ccarena.agents.api.sys", SimpleNamespace(modules=modules, stderr=sys.stderr))
        assert cli.main(wrong) == 2
        assert capsys.readouterr().err.startswith("loading PyTorch\n") == said


def test_print_config_goes_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--print-config", "--env.link.rate_mbps", "48"]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["env"]["link"]["rate_mbps"] == [48.0, 48.0]
    path = tmp_path / "again.yaml"
    path.write_text(printed)
    assert cli.main(["train", "--config", str(path), "--print-config"]) == 0
    assert capsys.readouterr().out == printed


def test_a_wrong_configuration_starts_nothing(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--env.link.rat_mbps", "48"]) == 2
    assert 'did you mean "env.link.rate_mbps"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_train_py_is_the_train_command() -> None:
    result = subprocess.run(
        [sys.executable, "train.py", "--config", "acct", "--print-config", "--seed", "5"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert yaml.safe_load(result.stdout)["seed"] == 5


def test_a_new_run_never_lands_on_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config("acct")
    for expected in ("runs/acct", "runs/acct-2", "runs/acct-3"):
        assert free_folder(config.name, config.out) == Path(expected)
        save_config(config, Path(expected) / "config.yaml")
        assert newest_run("acct") == Path(expected)
    with pytest.raises(ConfigError, match="holds a run already"):
        free_folder("acct", "runs/acct-2")


def test_resume_reads_the_run_s_own_configuration(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--resume"]) == 2
    assert "runs/acct holds no run" in capsys.readouterr().err
    save_config(load_config("acct", {"seed": 77}), tmp_path / "runs" / "acct" / "config.yaml")
    assert cli.main(["train", "--config", "acct", "--resume", "--total-decisions", "9", "--print-config"]) == 0
    resumed = TrainConfig.model_validate(yaml.safe_load(capsys.readouterr().out))
    assert (resumed.seed, resumed.total_decisions, resumed.out) == (77, 9, "runs/acct")


def test_importing_the_command_line_is_cheap() -> None:
    costly = {"torch", "ray", "numpy", "gymnasium", "pydantic", "ccarena._core"}
    code = f"import sys, ccarena_command; print(sorted({costly} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stdout == "[]\n", result.stderr


def test_every_error_survives_pickling() -> None:
    import pickle

    def tree(kind: type[CcarenaError]) -> list[type[CcarenaError]]:
        return [kind, *(k for sub in kind.__subclasses__() for k in tree(sub))]

    for kind in tree(CcarenaError):
        again = pickle.loads(pickle.dumps(kind("what: where")))
        assert (type(again), str(again)) == (kind, "what: where")


def test_no_permission_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:
        path = tmp_path / "a-file"
        path.write_text("")
        target = path / "below.yaml"  # not a folder: an error that root gets as well
    else:
        tmp_path.chmod(0)
        target = tmp_path / "config.yaml"
    assert cli.main(["train", "--config", str(target)]) == 2
    assert capsys.readouterr().err.startswith("error: ")
