"""Every option of every command does something that can be seen, or is refused with the reason.

The table, `tests/core/options`, is held against the parsers: an option without an entry fails, and so does an entry
without an option. Where a command hands over to what takes long, or needs root or the network, what it hands over is
what is seen.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ccarena import cli
from ccarena.configs import load_config
from ccarena.configs.unused import RULES
from ccarena.core.arguments import parsers
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard.run import Board
from ccarena.eval.leaderboard.run import run as run_board
from ccarena.eval.leaderboard.submitting import links_of
from ccarena.eval.leaderboard.submitting import submit as submit_policy
from ccarena.policies import tensorfile
from ccarena.policies.published import CONTROLLERS
from ccarena.policies.spec import spec_of
from ccarena.quic.server import Server
from ccarena.remote import records
from ccarena.remote.run import plan
from ccarena.traces.fetch_sets import FetchedSet
from ccarena.traces.public_sets import find_set
from tests.core.options import EFFECTS
from tests.core.options.case import CONVERT
from tests.policies.made import continuous
from tests.remote.measured import measured

REFUSED: dict[str, str] = {
    "train --help --resume": "--resume has no effect beside --help",
    "train --print-config --until 7": "--until has no effect beside --print-config",
    "train --until 7 --validation.kinds []": "--until has no effect without validations",
    "train --config acct --out run --resume": "--config has no effect beside --resume and --out",
    "eval --buffers 7": "--buffers has no effect without --traces",
    "eval --kind rate": "--kind has no effect without --plot",
    "status run --lines 3": "--lines has no effect without a job and its --ray-address",
    "tune --resume --out elsewhere --seeds 3": "--seeds has no effect beside --resume",
    "search --resume --out elsewhere --seed 3": "--seed has no effect beside --resume",
    "tune-scheme --resume --out elsewhere --seed 3": "--seed has no effect beside --resume",
    "eval --ray-address head:6379": "--ray-address has no effect without --executor ray",
    "eval --executor ray --threads 2": "--threads has no effect beside --executor ray",
    "reproduce hercules/capacity --executor ray --jobs 2": "--jobs has no effect beside --executor ray",
    "eval --pcap run.pcap": "--pcap has no effect without --scenario",
    "eval --digest": "--digest has no effect without --scenario",
    "eval --scenario scenario.yaml --digest --json": "--json has no effect beside --digest",
    "eval --scenario scenario.yaml --link-sets slides": "--link-sets has no effect beside --scenario",
    "eval --scenario scenario.yaml --schemes reno": "--schemes has no effect beside --scenario",
    "leaderboard run --ray-address head:6379": "--ray-address has no effect without --executor ray",
    "leaderboard run --executor ray --threads 2": "--threads has no effect beside --executor ray",
    "leaderboard import --reported a.csv --sample 2": "--sample has no effect beside --reported",
    "leaderboard import --reported a.csv --sample-seed 2": "--sample-seed has no effect beside --reported",
    "leaderboard import --reported a.csv --policies a": "--policies has no effect beside --reported",
    "compete reno cubic --pairs": "--pairs has no effect without --traces",
    "fidelity CASES.json --repeats 3": "--repeats has no effect without --live",
    "fidelity CASES.json --policy policy.safetensors": "--policy has no effect without --live",
    "fidelity CASES.json --wide": "--wide has no effect without --live",
    "fidelity --live scenario.yaml --duration-s 3": "--duration-s has no effect on scenarios of your own",
    "fidelity --live --traces .": "--traces has no effect beside --live",
    "fidelity --live --backend kernel": "--backend has no effect beside --live",
    "attack --replay finds.yaml --candidates 9": "--candidates has no effect beside --replay",
    "attack cubic --backend kernel": "--backend has no effect without --replay: the search runs in the simulator",
    "assess --list --quick": "--quick has no effect beside --list",
    "assess cubic --executor ray --jobs 2": "--jobs has no effect beside --executor ray",
    "reproduce --list --quick": "--quick has no effect beside --list",
    "reproduce hercules --list": "SUITE has no effect beside --list",
    "reproduce --write-docs page.md --seeds 3": "--seeds has no effect beside --write-docs alone",
    "reproduce hercules/penalty-curves --seeds 3": "--seeds has no effect on suites that are computed",
    "reproduce hercules/capacity --policy policy.safetensors": "--policy has no effect with policy.safetensors",
    "kernel daemon cubic --action 5": "--action has no effect with cubic, which is not learned",
    "kernel daemon cubic --desired-mbps 5": "--desired-mbps has no effect with cubic, which is not learned",
    "kernel daemon cubic --weight 2": "--weight has no effect with cubic, which has no weight",
    "kernel daemon policy.safetensors --action 1": "--action has no effect beside the policy",
    "export policy.safetensors --to onnx --decisions 7": "--decisions has no effect with --to onnx",
    "traces stats up.trace --seed 3": "--seed has no effect on recorded traces",
    "traces plot up.trace --mean-mbps 3": "--mean-mbps has no effect on recorded traces",
    f"{CONVERT} --seed 3": "--seed has no effect without --burstiness",
    "traces convert table.csv --out x.json --burstiness 0.5": (
        "--burstiness has no effect on rates (--out NAME.json or NAME.csv)"
    ),
    f"{CONVERT} --time start --gaps hold --max-gap 3": "--max-gap has no effect with --gaps hold",
    f"{CONVERT} --gaps cut": "--gaps has no effect without --time",
    f"{CONVERT} --format iperf3 --keep x=1": "--keep has no effect on a file of the format iperf3",
    f"{CONVERT} --time-unit ms": "--time-unit has no effect without --interval or --time",
    f"{CONVERT} --interval length --interval-s 2": "--interval-s has no effect beside the column length",
}

ENTRANTS = 'duration_s: 1\nflows:\n  - {scheme: "${entrant}"}\n'
EMPTY: dict[str, Any] = {"privileged": [], "report": []}
STANDING_IN = (
    "ccarena.commands.play.show",
    "ccarena.commands.build.build",
    "ccarena.commands.new.new_controller",
    "ccarena.commands.doctor.link_speed",
    "ccarena.commands.stacks.get_stack",
    "ccarena.commands.status._jobs",
    "ccarena.commands.train.train",
    "ccarena.commands.tune.sweep",
    "ccarena.tune.scheme.run",
    "ccarena.agents.off_policy.evaluate",
    "ccarena.data.collect.collect",
    "ccarena.data.minari.export",
    "ccarena.searches.api.carry_out",
    "ccarena.attacks.api.carry_out",
    "ccarena.attacks.api.replay",
    "ccarena.eval.heldout.outcome.evaluate",
    "ccarena.commands.eval_scenarios.show_scenario",
    "ccarena.commands.compete.compete",
    "ccarena.commands.leaderboard.run_board",
    "ccarena.eval.leaderboard.exchange.take",
    "ccarena.eval.leaderboard.submitting.submit",
    "ccarena.eval.leaderboard.submitting.verify",
    "ccarena.commands.leaderboard.serve",
    "ccarena.commands.leaderboard.write_site",
    "ccarena.commands.fidelity.fidelity",
    "ccarena.eval.fidelity.live.live",
    "ccarena.eval.reproduce.runner.execute",
    "ccarena.commands.assess.assess",
    "ccarena.commands.assess.find",
    "ccarena.commands.reproduce.find",
    "ccarena.eval.reproduce.pages.write",
    "ccarena.cc_kernel_bridge.bridge.attach",
    "ccarena.cc_kernel_bridge.bridge.set_weight",
    "ccarena.cc_kernel_bridge.policies.load",
    "ccarena.cc_kernel_bridge.policies.unload",
    "ccarena.cc_kernel_bridge.policies.canary",
    "ccarena.cc_kernel_bridge.policies.rollback",
    "ccarena.operation.command.follow",
    "ccarena.operation.command.serve_text",
    "ccarena.quic.server.Server._ask",
    "ccarena.commands.kernel.os.execv",
    "ccarena.traces.fetch_sets.fetch_set",
    "ccarena.traces.compare.compare",
    "ccarena.commands.parity.parity",
    "ccarena.remote.run.measure",
)
"""Where commands hand over."""


@functools.cache
def results() -> bytes:
    """A leaderboard's store of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.db")
        run_board(Board(("lte-bus",), ("reno",), (), buffers_packets=(100,), duration_s=1.0, seeds=1), str(path))
        return path.read_bytes()


@functools.cache
def submission(policy: bytes) -> bytes:
    """A policy with one claim, which is true."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "policy.safetensors"), Path(folder, "mine.json")
        file.write_bytes(policy)
        submit_policy(file, out, "mine", links_of([20.0], [100], 1.0, 1, ["lte-bus"]))
        return out.read_bytes()


@functools.cache
def no_flows() -> dict[str, Any]:
    """The manifest of a dataset of aurora without schemes."""
    spec = spec_of(load_config("aurora"))
    found = {"format": "ccarena trajectories", "version": 1, "ccarena": "0", "spec": json.loads(spec.canonical)}
    return {**found, "digest": spec.digest, "links": 1, "seed": 1, "schemes": [], "shards": {}, **EMPTY}


@functools.cache
def measured_run() -> bytes:
    """A run between two machines."""
    link = {"service": {"type": "constant", "rate_mbps": 10}, "queue": {"type": "droptail", "packets": 30}}
    with tempfile.TemporaryDirectory() as folder:
        path, flows = Path(folder, "0000.npz"), [{"scheme": "reno"}]
        records.save(path, measured(link, *flows, seconds=1), {"links": [link], "flows": flows, "duration_s": 1})
        return path.read_bytes()


@functools.cache
def finished_run() -> bytes:
    """The run of `remote run` with ENTRANTS and the entrant reno."""
    with tempfile.TemporaryDirectory() as folder:
        path, file = Path(folder, "0000.npz"), Path(folder, "entrants.yaml")
        file.write_text(ENTRANTS)
        [planned] = plan(file, ["reno"], 1, None, 1)
        run = measured({"service": {"type": "constant", "rate_mbps": 10}}, {"scheme": "reno"}, seconds=1)
        records.save(path, replace(run, scenario=planned.name, axes=planned.axes), planned.document)
        return path.read_bytes()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes a new working directory with what the table names, the same every time."""
    made = iter(range(10**6))
    policy = continuous("aurora", 0.1).encode()
    rule = {"kind": "constant", "label": "aurora 0.1 always", "policy": {"constant": 0.1}, "params": {}, "score": 1.0}
    ruled = continuous("aurora", 0.1, rules=[rule]).encode()
    tensors = {each.name: np.ones(each.shape, np.float32) for each in CONTROLLERS["indigo"].wanted}
    weights = tensorfile.encode(tensors, {})
    monkeypatch.setattr("ccarena.cc_kernel_bridge.bridge.status", lambda: None)
    monkeypatch.setattr("ccarena.cc_kernel_bridge.policies.stats", lambda name=None: print(f"stats of {name}") or [])
    monkeypatch.setattr(Server, "stats", lambda at, name=None: print(f"stats of {name} at {at.control}") or [])
    monkeypatch.setattr(
        "ccarena.operation.command.connections",
        lambda place, name: print(f"connections of {name} at {getattr(place, 'control', 'the kernel')}") or [],
    )
    monkeypatch.setattr("ccarena.commands.kernel.find", lambda name: Path(name))
    monkeypatch.setattr("ccarena.commands.quic.find", lambda name: Path(name))
    monkeypatch.setattr("ccarena.commands.remote.find", lambda name: Path(name))

    def change() -> None:
        folder = tmp_path / str(next(made))
        (folder / "run").mkdir(parents=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("CCARENA_TRACE_DIR", str(folder))
        Path("policy.safetensors").write_bytes(policy)
        Path("ruled.safetensors").write_bytes(ruled)
        Path("weights.safetensors").write_bytes(weights)
        Path("results.db").write_bytes(results())
        Path("mine.json").write_bytes(submission(policy))
        Path("measured", "runs").mkdir(parents=True)
        Path("measured", "runs", "0000.npz").write_bytes(measured_run())
        Path("held.txt").write_text("0" * 64)
        Path("held.txt").chmod(0o600)
        Path("finished", "runs").mkdir(parents=True)
        Path("finished", "runs", "0000.npz").write_bytes(finished_run())
        Path("entrants.yaml").write_text(ENTRANTS)
        Path("up.trace").write_text("".join(f"{ms}\n" for ms in range(1, 2001)))
        Path("both.down").write_text("1\n2\n")
        Path("both.up").write_text("1\n3\n")
        Path("table.csv").write_text("rate_mbps,length,start,lost,missing\n12,1,1,0.1,-\n24,2,3,0,1\n12,1,4,0,-\n")
        Path("space.yaml").write_text("env.worlds: [16, 32]\n")
        Path("ranges.yaml").write_text("delta: [0.1, 1]\n")
        Path("holds.yaml").write_text("properties: [{then: {action: {most: 2}}}]\n")
        Path("links.yaml").write_text("parameters: {loss: 0}\n")
        Path("set").mkdir()
        Path("set", "manifest.json").write_text(json.dumps(no_flows()))
        Path("run", "config.yaml").write_text("spec: acct\nname: other\n")
        scenario = {
            "version": 1,
            "duration_s": 1,
            "links": [{"name": "b", "service": {"type": "constant", "rate_mbps": 10}, "delay_ms": 5}],
            "flows": [{"name": "f", "scheme": "reno"}],
        }
        Path("scenario.yaml").write_text(yaml.safe_dump(scenario))
        case = {"up": "up.trace", "down": "up.trace", "owd_ms": 10, "queue": "droptail", "queue_args": "packets=20"}
        case["result"] = {"first_data_ms": 100, "throughput_mbps": 11.9, "qdelay_ms": {"mean": 9.0, "p95": 19}}
        Path("CASES.json").write_text(json.dumps([{**case, "cc": cc, "seconds": 1} for cc in ("reno", "cubic")]))

    return change


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress lines depend on the machine's load; outputs are compared to the letter here."""
    monkeypatch.setattr("ccarena.core.terminal.EVERY_S", math.inf)


def standing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STANDING_IN:

        def stand_in(*args: Any, name: str = name, **kwargs: Any) -> FetchedSet:
            print(name, args, sorted(kwargs.items()))
            if name.endswith("fetch_set"):  # that nothing was fetched is printed, too
                return FetchedSet(find_set(str(args[0])), Path(), (), (), ())
            raise ConfigError("this is as far as the test goes")

        monkeypatch.setattr(name, stand_in)


def seen(command: str, place: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    """Everything that `command` does that can be seen: exit code, both outputs, and the files it leaves."""
    place()
    capsys.readouterr()
    try:
        code: Any = cli.main(shlex.split(command))
    except SystemExit as left:
        code = left.code
    captured = capsys.readouterr()
    plain = re.compile(rf" at 0x[0-9a-f]+|{re.escape(str(Path.cwd()))}/?")
    files = {str(path): path.stat().st_size for path in sorted(Path().rglob("*")) if path.is_file()}
    return code, plain.sub("", captured.out), plain.sub("", captured.err), files


def each_option() -> Iterator[tuple[str, str]]:
    for command in cli.COMMANDS:
        if command in cli.SHELLS:  # their program reads its own options
            continue
        for parser in parsers(cli.build_parser(command)):
            where = parser.prog.removeprefix("ccarena ")
            if where.split()[0] != command:
                continue
            for action in parser._actions:
                if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
                    yield where, action.option_strings[-1] if action.option_strings else action.dest


def test_the_table_has_every_option_and_no_other() -> None:
    there = {(where, option) for where, options in EFFECTS.items() for option in options}
    found = set(each_option())
    assert found - there == set(), "these options have no entry in EFFECTS that shows what they do"
    assert there - found == set(), "these entries are of no option"


@pytest.mark.parametrize(
    ("where", "option"), [(where, option) for where, options in EFFECTS.items() for option in options]
)
def test_every_option_has_an_effect(
    where: str, option: str, place: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    case = EFFECTS[where][option]
    if not case.whole:
        standing_in(monkeypatch)
    without, with_it = (seen(command, place, capsys) for command in case[:2])
    assert "internal error" not in with_it[2] and "unexpected" not in with_it[2]
    assert with_it != without
    if not case.whole:
        assert seen(case.with_it, place, capsys) == with_it, "what differs has to be the option, not chance"


@pytest.mark.parametrize("command", REFUSED)
def test_an_option_in_vain_is_refused(command: str, place: Callable[[], None], capsys) -> None:
    code, out, err, _ = seen(command, place, capsys)
    assert (code, out) == (2, "")
    assert REFUSED[command] in err


def test_every_rule_is_tried() -> None:
    """Whatever a command's UNUSED says is in REFUSED."""
    tried = list(REFUSED.values())
    for command, (module, _) in cli.COMMANDS.items():
        for rule in getattr(importlib.import_module(module), "UNUSED", ()):
            because = rule.because.split(",")[0]
            assert any(f"has no effect {because}" in text for text in tried), (command, rule.options, rule.because)


@functools.cache
def key_cases() -> list[tuple[str, str]]:
    """For each key of the configuration that may be in vain, what makes it so."""
    makes = {
        "env.link.rate_mbps": "--env.link.kinds.constant 0 --env.link.kinds.random_steps 0",
        "env.link.step_s": "--env.link.kinds.random_steps 0",
        "env.link.presets": "--env.link.kinds.cellular 0",
        "env.link.traces": "--env.link.kinds.trace 0",
        "env.link.buffer_bdp": "--env.link.buffer_packets 100",
        "env.link.lossy": "--env.link.loss 0",
        "env.link.router_headroom": "--env.link.signal 0",
        "env.link.router": "--env.link.signal 0",
        "env.cross_traffic.schemes": "--env.cross_traffic.probability 0",
        "env.cross_traffic.flows": "--env.cross_traffic.probability 0",
        "env.cross_traffic.on_off": "--env.cross_traffic.probability 0",
        "algorithm.reward_below": "--algorithm.reward_floor null",
        "algorithm.discount_unit_s": "--algorithm PPO --algorithm.discount step",
        "eval.duration_s": "--eval.link_sets []",
        "eval.seeds": "--eval.link_sets []",
        "eval.recordings": "--eval.link_sets []",
        "rules.links": "--eval.link_sets []",
        "rules.law": "--rules.links 0",
        "rules.law_action": "--rules.links 0",
        "rules.law_candidates": "--rules.links 0",
        "ray.address": "--executor local",
        "ray.workers": "--executor local",
        "ray.exchange": "--executor local",
        "ray.max_staleness": "--executor local",
        "ray.deaths": "--executor local",
        "ray.patience_s": "--executor local",
    }
    keys = [key for keys, _, _ in RULES for key in keys]
    return [(key, makes.get(key, "--validation.kinds []")) for key in keys]


@pytest.mark.parametrize(("key", "makes"), key_cases())
def test_a_configuration_key_in_vain_is_refused(key: str, makes: str, capsys) -> None:
    values = {
        "schemes": "[reno]",
        "presets": "[lte-bus]",
        "traces": "[]",
        "models": "[wifi]",
        "policy": "best",
        "recordings": "[]",
        "exchange": "rollouts",
        "reward_below": "flat",
        "router": "'{bits: 3}'",
        "wifi": "'{retry: 0.1}'",
        "grants": "'{slot_ms: 1}'",
        "adversarial": "[finds]",
    }
    value = {**values, "law": "{}", "law_candidates": "20"}.get(key.split(".")[-1], "1")
    given = f"train {makes} --{key} {value}"
    assert cli.main([*shlex.split(given), "--print-config"]) == 2
    assert f"{key} has no effect, because" in capsys.readouterr().err
