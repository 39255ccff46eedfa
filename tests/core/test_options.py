"""Every option of every command does something that can be seen, or is refused with the reason.

The table is held against the parsers: an option without an entry fails, and so does an entry without an option. Where a
command hands over to what takes long, or needs root or the network, what it hands over is what is seen.
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
from pathlib import Path
from typing import Any, NamedTuple

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
from ccarena.traces.fetch_sets import FetchedSet
from ccarena.traces.public_sets import find_set
from tests.policies.made import continuous
from tests.remote.measured import measured

EVAL = "eval --link-sets slides --schemes reno --duration-s 1 --seeds 1"
COMPETE = "compete reno cubic --duration-s 1 --seeds 1 --stagger-s 0.1"
SUBMIT = "leaderboard submit policy.safetensors"
VERIFIED = "leaderboard verify mine.json --sample 1"
IMPORT = "policy import indigo weights.safetensors --out a"
RANKED = "leaderboard rank --store results.db"
EXPORTED = "leaderboard export --store results.db"
CONVERT = "traces convert table.csv --out x.trace"
CONDITIONS = "traces convert table.csv --out x.csv"
COLLECTED = "data collect --schemes reno"
TUNED = "tune-scheme copa --space ranges.yaml"
SEARCHED = "search copa@delta=0.1:1"
ATTACKED = "attack cubic"
REPLAYED = "attack --replay finds.yaml"
SERVED = "remote serve --token held.txt"
SENT = "remote run 192.0.2.1 entrants.yaml reno cubic --token held.txt"


class Case(NamedTuple):
    """`with_it` is seen to differ from `without`."""

    without: str
    with_it: str
    whole: bool = False
    """Nothing stands in: the command runs to its end."""


def more(without: str, extra: str, whole: bool = False) -> Case:
    return Case(without, f"{without} {extra}", whole)


EFFECTS: dict[str, dict[str, Case]] = {
    "train": {
        "--help": Case("train --print-config", "train --help"),
        "--config": more("train --print-config", "--config hyvar"),
        "--leave-out": more("train --print-config", "--leave-out att"),
        "--resume": Case("train --print-config", "train --print-config --resume"),
        "--ray-address": more("train --print-config --executor ray", "--ray-address head:6379"),
        "--print-config": Case("train --resume", "train --resume --out run --print-config"),
    },
    "new controller": {
        "name": Case("new controller mine", "new controller yours"),
        "--lang": more("new controller mine", "--lang rust"),
        "--into": more("new controller mine", "--into elsewhere"),
    },
    "build": {
        "path": Case("build first.c", "build second.c"),
        "--out": more("build first.c", "--out mine.wasm"),
    },
    "check": {
        "controller": Case("check first.py:Mine", "check second.py:Mine"),
    },
    "status": {
        "run": more("status", "run"),
        "--ray-address": more("status run", "--ray-address http://127.0.0.1:1"),
        "--lines": more("status job --ray-address http://127.0.0.1:1", "--lines 1"),
        "--json": more("status run", "--json", whole=True),
    },
    "tune": {
        "--config": more("tune --space space.yaml", "--config hyvar"),
        "--space": more("tune", "--space space.yaml"),
        "--samples": more("tune --space space.yaml", "--samples 2"),
        "--seeds": more("tune --space space.yaml", "--seeds 2"),
        "--search": more("tune --space space.yaml", "--search optuna"),
        "--scheduler": more("tune --space space.yaml", "--scheduler none"),
        "--validations": more("tune --space space.yaml", "--validations 2"),
        "--out": more("tune --space space.yaml", "--out elsewhere"),
        "--resume": more("tune --out elsewhere", "--resume"),
        "--ray-address": more("tune --space space.yaml", "--ray-address head:6379"),
    },
    "data collect": {
        "--config": more(COLLECTED, "--config aurora"),
        "--schemes": more("data collect", "--schemes reno"),
        "--links": more(COLLECTED, "--links 7"),
        "--seed": more(COLLECTED, "--seed 7"),
        "--out": more(COLLECTED, "--out elsewhere"),
        "--threads": more(COLLECTED, "--threads 1"),
    },
    "data show": {
        "data": Case("data show absent", "data show set"),
        "--json": more("data show set", "--json", whole=True),
    },
    "data export": {
        "data": Case(
            "data export absent --config aurora --name a/b-v0", "data export set --config aurora --name a/b-v0"
        ),
        "--name": more("data export set --config aurora", "--name a/b-v0"),
        "--config": more("data export set --name a/b-v0", "--config aurora"),
    },
    "tune-scheme": {
        "scheme": Case(TUNED, "tune-scheme ledbat --space ranges.yaml"),
        "--space": more("tune-scheme copa", "--space ranges.yaml"),
        "--distribution": more(TUNED, "--distribution aurora"),
        "--objective": more(TUNED, "--objective known_power"),
        "--candidates": more(TUNED, "--candidates 7"),
        "--links": more(TUNED, "--links 7"),
        "--test-links": more(TUNED, "--test-links 7"),
        "--seed": more(TUNED, "--seed 7"),
        "--threads": more(TUNED, "--threads 1"),
        "--out": more(TUNED, "--out elsewhere"),
        "--resume": more("tune-scheme --out elsewhere", "--resume"),
    },
    "search": {
        "template": Case(SEARCHED, "search copa@delta=0.2:1"),
        "--space": Case(SEARCHED, "search copa --space ranges.yaml"),
        "--generator": Case(SEARCHED, "search copa --generator true"),
        "--link": more(SEARCHED, "--link 12mbps"),
        "--beside": more(SEARCHED, "--beside cubic"),
        "--weights": more(SEARCHED, "--weights power=1"),
        "--candidates": more(SEARCHED, "--candidates 77"),
        "--population": more(SEARCHED, "--population 7"),
        "--rungs": more(SEARCHED, "--rungs 2"),
        "--seeds": more(SEARCHED, "--seeds 2"),
        "--duration-s": more(SEARCHED, "--duration-s 7"),
        "--test-link": more(SEARCHED, "--test-link 12mbps"),
        "--test-seeds": more(SEARCHED, "--test-seeds 2"),
        "--seed": more(SEARCHED, "--seed 7"),
        "--repeat": more(SEARCHED, "--repeat 2"),
        "--silence-s": more(SEARCHED, "--silence-s 7"),
        "--limit-s": more(SEARCHED, "--limit-s 7"),
        "--memory-mb": more(SEARCHED, "--memory-mb 777"),
        "--workers": more(SEARCHED, "--workers 1"),
        "--out": more(SEARCHED, "--out elsewhere"),
        "--resume": more("search --out elsewhere", "--resume"),
    },
    "attack": {
        "entrant": Case(ATTACKED, "attack reno"),
        "--harm": more(ATTACKED, "--harm loss"),
        "--space": more(ATTACKED, "--space links.yaml"),
        "--candidates": more(ATTACKED, "--candidates 77"),
        "--finds": more(ATTACKED, "--finds 7"),
        "--seeds": more(ATTACKED, "--seeds 7"),
        "--seed": more(ATTACKED, "--seed 7"),
        "--replay": more(ATTACKED, "--replay finds.yaml"),
        "--backend": more(REPLAYED, "--backend quic"),
        "--workers": more(ATTACKED, "--workers 1"),
        "--out": more(ATTACKED, "--out elsewhere"),
        "--resume": more("attack --out elsewhere", "--resume"),
        "--json": more(ATTACKED, "--json"),
        "--write-docs": more(ATTACKED, "--write-docs docs.json"),
    },
    "eval": {
        "entries": more("eval", "policy.safetensors"),
        "--link-sets": more("eval", "--link-sets slides"),
        "--traces": more("eval", "--traces up.trace"),
        "--buffers": more("eval --traces up.trace", "--buffers 7"),
        "--delays-ms": more("eval --traces up.trace", "--delays-ms 7"),
        "--pairs": more("eval --traces both.down", "--pairs"),
        "--scenario": more("eval", "--scenario scenario.yaml"),
        "--schemes": more("eval", "--schemes vegas"),
        "--seeds": more("eval", "--seeds 2"),
        "--duration-s": more("eval", "--duration-s 2"),
        "--backend": more("eval", "--backend kernel"),
        "--threads": more("eval", "--threads 1"),
        "--executor": more("eval", "--executor ray"),
        "--ray-address": more("eval --executor ray", "--ray-address head:6379"),
        "--out": more("eval", "--out elsewhere"),
        "--plot": more(EVAL, "--plot picture.svg", whole=True),
        "--pcap": more("eval --scenario scenario.yaml", "--pcap run.pcap", whole=True),
        "--digest": more("eval --scenario scenario.yaml", "--digest", whole=True),
        "--kind": more(f"{EVAL} --plot picture.svg", "--kind bar", whole=True),
        "--record": more(
            "eval policy.safetensors --link-sets slides --seeds 1 --duration-s 1", "--record figures.json", whole=True
        ),
        "--json": more(EVAL, "--json", whole=True),
    },
    "compete": {
        "entries": more("compete reno", "cubic"),
        "--link": more("compete reno cubic", "--link 12mbps"),
        "--scenario": more("compete reno cubic", "--scenario scenario.yaml"),
        "--traces": more("compete reno cubic", "--traces up.trace"),
        "--buffers": more("compete reno cubic --traces up.trace", "--buffers 7"),
        "--delays-ms": more("compete reno cubic --traces up.trace", "--delays-ms 7"),
        "--pairs": more("compete reno cubic --traces both.down", "--pairs"),
        "--group": more("compete reno cubic", "--group reno+reno+cubic"),
        "--rtt-ms": more("compete reno cubic", "--rtt-ms 20,80"),
        "--stagger-s": more("compete reno cubic", "--stagger-s 3"),
        "--duration-s": more("compete reno cubic", "--duration-s 3"),
        "--seeds": more("compete reno cubic", "--seeds 1"),
        "--backend": more("compete reno cubic", "--backend kernel"),
        "--threads": more("compete reno cubic", "--threads 1"),
        "--out": more("compete reno cubic", "--out elsewhere"),
        "--plot": more(COMPETE, "--plot picture.svg", whole=True),
        "--kind": more(f"{COMPETE} --plot picture.svg", "--kind bar", whole=True),
        "--json": more(COMPETE, "--json", whole=True),
    },
    "leaderboard run": {
        "--store": more("leaderboard run", "--store other.db"),
        "--traces": more("leaderboard run", "--traces up.trace"),
        "--scenario": more("leaderboard run", "--scenario own.yaml"),
        "--entrants": more("leaderboard run", "--entrants cubic"),
        "--schemes": more("leaderboard run", "--schemes cubic"),
        "--policies": more("leaderboard run", "--policies policy.safetensors"),
        "--delays-ms": more("leaderboard run", "--delays-ms 7"),
        "--buffers": more("leaderboard run", "--buffers 7"),
        "--duration-s": more("leaderboard run", "--duration-s 7"),
        "--seeds": more("leaderboard run", "--seeds 7"),
        "--meeting-seeds": more("leaderboard run", "--meeting-seeds 0"),
        "--backend": more("leaderboard run", "--backend kernel"),
        "--threads": more("leaderboard run", "--threads 1"),
        "--executor": more("leaderboard run", "--executor ray"),
        "--ray-address": more("leaderboard run --executor ray", "--ray-address head:6379"),
    },
    "leaderboard rank": {
        "--store": more(RANKED, "--store absent.db", whole=True),
        "--group": more(RANKED, "--group absent", whole=True),
        "--score": more(RANKED, "--score score_delay", whole=True),
        "--baselines": more(RANKED, "--baselines", whole=True),
        "--backend": more(RANKED, "--backend kernel", whole=True),
        "--json": more(RANKED, "--json", whole=True),
    },
    "leaderboard page": {
        "out": Case("leaderboard page a --store results.db", "leaderboard page b --store results.db"),
        "--store": Case("leaderboard page a --store results.db", "leaderboard page a --store absent.db"),
        "--policies": more("leaderboard page a --store results.db", "--policies acct"),
        "--scenario": more("leaderboard page a --store results.db", "--scenario scenario.yaml"),
    },
    "leaderboard serve": {
        "--port": more("leaderboard serve", "--port 0"),
        "--store": more("leaderboard serve", "--store other.db"),
        "--submissions": more("leaderboard serve", "--submissions inbox"),
    },
    "leaderboard export": {
        "out": Case(f"{EXPORTED} a.csv", f"{EXPORTED} b.csv", whole=True),
        "--means": more(f"{EXPORTED} a.csv", "--means", whole=True),
        "--store": Case(f"{EXPORTED} a.csv", f"{EXPORTED} a.csv --store absent.db", whole=True),
    },
    "leaderboard import": {
        "file": Case("leaderboard import a.csv", "leaderboard import b.csv"),
        "--reported": Case("leaderboard import --reported a.csv", "leaderboard import --reported b.csv"),
        "--store": more("leaderboard import a.csv", "--store other.db"),
        "--sample": more("leaderboard import a.csv", "--sample 3"),
        "--sample-seed": more("leaderboard import a.csv", "--sample-seed 3"),
        "--policies": more("leaderboard import a.csv", "--policies policy.safetensors"),
    },
    "leaderboard submit": {
        "entrant": Case("leaderboard submit absent", SUBMIT),
        "--out": more(SUBMIT, "--out mine.json"),
        "--name": more(SUBMIT, "--name mine"),
        "--author": more(SUBMIT, "--author me"),
        "--note": more(SUBMIT, "--note new"),
        "--traces": more(SUBMIT, "--traces lte-bus"),
        "--delays-ms": more(SUBMIT, "--delays-ms 7"),
        "--buffers": more(SUBMIT, "--buffers 7"),
        "--duration-s": more(SUBMIT, "--duration-s 7"),
        "--seeds": more(SUBMIT, "--seeds 7"),
        "--threads": more(SUBMIT, "--threads 1"),
        "--cpu-s": more(SUBMIT, "--cpu-s 7"),
        "--memory-mb": more(SUBMIT, "--memory-mb 700"),
    },
    "leaderboard verify": {
        "file": Case("leaderboard verify a.json", "leaderboard verify b.json"),
        "--sample": more("leaderboard verify a.json", "--sample 3"),
        "--sample-seed": more("leaderboard verify a.json", "--sample-seed 3"),
        "--keep": more(VERIFIED, "--keep kept", whole=True),
        "--threads": more("leaderboard verify a.json", "--threads 1"),
        "--cpu-s": more("leaderboard verify a.json", "--cpu-s 7"),
        "--memory-mb": more("leaderboard verify a.json", "--memory-mb 700"),
    },
    "fidelity": {
        "cases": more("fidelity", "CASES.json"),
        "--traces": more("fidelity CASES.json", "--traces absent"),
        "--json": more("fidelity CASES.json --offsets 1 --jobs 1", "--json out.json", whole=True),
        "--plot": more("fidelity CASES.json --offsets 1 --jobs 1", "--plot out.html", whole=True),
        "--record": more("fidelity CASES.json --offsets 1 --jobs 1", "--record out.json", whole=True),
        "--only": more("fidelity CASES.json", "--only cubic"),
        "--limit": more("fidelity CASES.json", "--limit 1"),
        "--offsets": more("fidelity CASES.json", "--offsets 2"),
        "--jobs": more("fidelity CASES.json", "--jobs 1"),
        "--backend": more("fidelity CASES.json", "--backend kernel"),
        "--live": more("fidelity", "--live"),
        "--repeats": more("fidelity --live", "--repeats 3"),
        "--wide": more("fidelity --live", "--wide"),
        "--policy": more("fidelity --live", "--policy absent"),
        "--duration-s": more("fidelity --live", "--duration-s 3"),
    },
    "assess": {
        "entrants": more("assess", "cubic"),
        "--list": more("assess", "--list"),
        "--question": more("assess cubic", "--question aqm"),
        "--backend": more("assess cubic", "--backend kernel"),
        "--quick": more("assess cubic", "--quick"),
        "--seeds": more("assess cubic", "--seeds 9"),
        "--out": more("assess cubic", "--out elsewhere"),
        "--jobs": more("assess cubic", "--jobs 1"),
        "--executor": more("assess cubic", "--executor ray"),
        "--ray-address": more("assess cubic --executor ray", "--ray-address head:6379"),
        "--json": more("assess --list", "--json"),
    },
    "reproduce": {
        "suites": more("reproduce", "hercules/penalty-curves"),
        "--all": more("reproduce", "--all"),
        "--list": more("reproduce", "--list"),
        "--backend": more("reproduce hyvar/cellular-1", "--backend kernel"),
        "--quick": more("reproduce hercules/capacity", "--quick"),
        "--discriminate": more("reproduce hercules/capacity", "--discriminate"),
        "--seeds": more("reproduce hercules/capacity", "--seeds 3"),
        "--out": more("reproduce hercules/capacity", "--out elsewhere"),
        "--policy": more("reproduce hercules/capacity", "--policy absent"),
        "--traces": more("reproduce pilot/cellular", "--traces up.trace"),
        "--jobs": more("reproduce hercules/capacity", "--jobs 1"),
        "--executor": more("reproduce hercules/capacity", "--executor ray"),
        "--ray-address": more("reproduce hercules/capacity --executor ray", "--ray-address head:6379"),
        "--json": more("reproduce --list", "--json"),
        "--write-docs": more("reproduce", "--write-docs page.md"),
    },
    "kernel attach": {
        "--deadline-ms": more("kernel attach", "--deadline-ms 50"),
        "--no-wcc": more("kernel attach", "--no-wcc"),
        "--option": more("kernel attach", "--option"),
        "--unrestricted": more("kernel attach", "--unrestricted"),
        "--sockets-per-user": more("kernel attach", "--sockets-per-user 3"),
        "--changes-per-s": more("kernel attach", "--changes-per-s 3"),
    },
    "kernel load": {
        "policy": Case("kernel load acct", "kernel load policy.safetensors"),
        "--as": more("kernel load acct", "--as mine"),
        "--unrestricted": more("kernel load acct", "--unrestricted"),
        "--option": more("kernel load acct", "--option ."),
        "--desired-mbps": more("kernel load acct", "--desired-mbps 7"),
        "--param": more("kernel load acct", "--param budget_ms=7"),
        "--shadow": more("kernel load acct", "--shadow"),
        "--guard": more("kernel load acct", "--guard 7"),
    },
    "kernel canary": {
        "name": Case("kernel canary acct --share 1", "kernel canary mine --share 1"),
        "--share": Case("kernel canary acct --share 1", "kernel canary acct --share 0.5"),
        "--cgroup": more("kernel canary acct --share 1", "--cgroup ."),
        "--to": more("kernel canary acct --share 1", "--to 10.0.0.0/8"),
        "--guard": more("kernel canary acct --share 1", "--guard 7"),
    },
    "kernel report": {
        "name": Case("kernel report acct", "kernel report mine"),
        "--json": more("kernel report acct", "--json"),
    },
    "kernel rollback": {"name": Case("kernel rollback acct", "kernel rollback mine")},
    "kernel connections": {
        "name": Case("kernel connections acct", "kernel connections mine"),
        "--follow": more("kernel connections acct", "--follow 1"),
    },
    "kernel unload": {"name": more("kernel unload", "mine")},
    "kernel stats": {
        "name": more("kernel stats", "mine"),
        "--json": more("kernel stats", "--json"),
        "--prometheus": more("kernel stats", "--prometheus"),
        "--listen": more("kernel stats", "--listen 127.0.0.1:9100"),
    },
    "kernel status": {"--json": more("kernel status", "--json")},
    "kernel weight": {
        "weight": Case("kernel weight 1", "kernel weight 2"),
        "--mark": more("kernel weight 2", "--mark 7"),
        "--cgroup": more("kernel weight 2", "--cgroup ."),
    },
    "kernel daemon": {
        "who": Case("kernel daemon cubic", "kernel daemon policy.safetensors"),
        "--action": more("kernel daemon acct", "--action 5"),
        "--param": more("kernel daemon acct", "--param budget_ms=7"),
        "--weight": more("kernel daemon multcp", "--weight 2"),
        "--desired-mbps": more("kernel daemon acct", "--desired-mbps 5"),
    },
    "quic serve": {
        "--listen": more("quic serve", "--listen 127.0.0.1:5000"),
        "--scheme": more("quic serve", "--scheme reno"),
        "--policy": more("quic serve", "--policy policy.safetensors"),
        "--fixed": more("quic serve", "--fixed"),
        "--ack-every": more("quic serve", "--ack-every 10"),
        "--qlog": more("quic serve", "--qlog elsewhere"),
        "--param": more("quic serve", "--param hystart=0"),
        "--requirement": more("quic serve", "--requirement 10:15"),
        "--weight": more("quic serve", "--weight 2"),
        "--interval-s": more("quic serve", "--interval-s 1"),
        "--mtu": more("quic serve", "--mtu 1300"),
        "--control": more("quic serve", "--control s"),
        "--fallback": more("quic serve", "--fallback reno"),
        "--shadow": more("quic serve", "--shadow"),
        "--guard": more("quic serve", "--guard 7"),
    },
    "quic load": {
        "policy": Case("quic load acct --control s", "quic load policy.safetensors --control s"),
        "--as": more("quic load acct --control s", "--as mine"),
        "--shadow": more("quic load acct --control s", "--shadow"),
        "--guard": more("quic load acct --control s", "--guard 7"),
        "--control": Case("quic load acct", "quic load acct --control s"),
    },
    "quic canary": {
        "name": Case("quic canary acct --share 1 --control s", "quic canary mine --share 1 --control s"),
        "--share": Case("quic canary acct --share 1 --control s", "quic canary acct --share 0.5 --control s"),
        "--to": more("quic canary acct --share 1 --control s", "--to 10.0.0.0/8"),
        "--guard": more("quic canary acct --share 1 --control s", "--guard 7"),
        "--control": Case("quic canary acct --share 1", "quic canary acct --share 1 --control s"),
    },
    "quic report": {
        "name": Case("quic report acct --control s", "quic report mine --control s"),
        "--json": more("quic report acct --control s", "--json"),
        "--control": Case("quic report acct --control s", "quic report acct --control t"),
    },
    "quic rollback": {
        "name": Case("quic rollback acct --control s", "quic rollback mine --control s"),
        "--control": Case("quic rollback acct --control s", "quic rollback acct --control t"),
    },
    "quic connections": {
        "name": Case("quic connections acct --control s", "quic connections mine --control s"),
        "--follow": more("quic connections acct --control s", "--follow 1"),
        "--control": Case("quic connections acct --control s", "quic connections acct --control t"),
    },
    "quic stats": {
        "name": more("quic stats --control s", "mine"),
        "--json": more("quic stats --control s", "--json"),
        "--prometheus": more("quic stats --control s", "--prometheus"),
        "--listen": more("quic stats --control s", "--listen 127.0.0.1:9100"),
        "--control": Case("quic stats --control s", "quic stats --control t"),
    },
    "remote serve": {
        "--listen": more(SERVED, "--listen 127.0.0.1:5000"),
        "--most-s": more(SERVED, "--most-s 5"),
        "--most-mb": more(SERVED, "--most-mb 5"),
        "--token": Case("remote serve", SERVED),
    },
    "remote run": {
        "remote": Case(SENT, "remote run 192.0.2.1:5000 entrants.yaml reno --token held.txt"),
        "scenario": Case(SENT, "remote run 192.0.2.1 scenario.yaml --token held.txt"),
        "entrants": more("remote run 192.0.2.1 --token held.txt entrants.yaml reno", "cubic"),
        "--repeats": more(SENT, "--repeats 2"),
        "--order-seed": more(f"{SENT} --repeats 9", "--order-seed 7"),
        "--duration-s": more(SENT, "--duration-s 2"),
        "--out": more(SENT, "--out elsewhere"),
        "--resume": more(f"{SENT} --out measured", "--resume"),
        "--token": Case("remote run 192.0.2.1 scenario.yaml", "remote run 192.0.2.1 scenario.yaml --token held.txt"),
    },
    "fit": {
        "runs": Case("fit nowhere", "fit measured", whole=True),
        "--out": more("fit measured", "--out fitted.yaml", whole=True),
        "--json": more("fit measured", "--json fit.json", whole=True),
    },
    "quic get": {
        "remote": Case("quic get 127.0.0.1:4433", "quic get 127.0.0.1:5000"),
        "--connections": more("quic get 127.0.0.1:4433", "--connections 2"),
        "--scheme": more("quic get 127.0.0.1:4433", "--scheme reno"),
        "--policy": more("quic get 127.0.0.1:4433", "--policy acct"),
        "--bytes": more("quic get 127.0.0.1:4433", "--bytes 1000"),
        "--desired-mbps": more("quic get 127.0.0.1:4433", "--desired-mbps 5"),
        "--change": more("quic get 127.0.0.1:4433", "--change 1:weight=2"),
        "--duration-s": more("quic get 127.0.0.1:4433", "--duration-s 1"),
        "--timeout-s": more("quic get 127.0.0.1:4433", "--timeout-s 2"),
        "--fingerprint": more("quic get 127.0.0.1:4433", "--fingerprint 00"),
        "--param": more("quic get 127.0.0.1:4433", "--param hystart=0"),
        "--requirement": more("quic get 127.0.0.1:4433", "--requirement 10:15"),
        "--weight": more("quic get 127.0.0.1:4433", "--weight 2"),
        "--interval-s": more("quic get 127.0.0.1:4433", "--interval-s 1"),
        "--mtu": more("quic get 127.0.0.1:4433", "--mtu 1300"),
    },
    "policy show": {
        "policy": Case("policy show absent", "policy show policy.safetensors"),
        "--json": more("policy show policy.safetensors", "--json"),
    },
    "policy rule": {
        "policy": Case("policy rule absent --out a", "policy rule ruled.safetensors --out a"),
        "--out": Case("policy rule ruled.safetensors --out a", "policy rule ruled.safetensors --out b"),
    },
    "policy import": {
        "controller": Case(IMPORT, "policy import orca weights.safetensors --out a"),
        "path": Case(IMPORT, "policy import indigo absent --out a"),
        "--out": Case(IMPORT, "policy import indigo weights.safetensors --out b"),
    },
    "export": {
        "policy": Case("export absent --to onnx", "export policy.safetensors --to onnx"),
        "--to": Case("export policy.safetensors --to onnx", "export policy.safetensors --to c"),
        "--out": more("export policy.safetensors --to onnx", "--out elsewhere"),
        "--name": more("export policy.safetensors --to onnx", "--name mine"),
        "--json": more("export policy.safetensors --to onnx", "--json"),
        "--decisions": more("export policy.safetensors --to c", "--decisions 7"),
        "--duration-s": more("export policy.safetensors --to c", "--duration-s 7"),
    },
    "certify": {
        "policy": Case("certify absent", "certify policy.safetensors --boxes 1 --form float", whole=True),
        "properties": Case("certify policy.safetensors --boxes 1", "certify policy.safetensors holds.yaml", whole=True),
        "--form": more("certify policy.safetensors holds.yaml --json", "--form float", whole=True),
        "--boxes": more("certify policy.safetensors --form float --json", "--boxes 1", whole=True),
        "--json": more("certify policy.safetensors holds.yaml", "--json", whole=True),
        "--guard": more("certify policy.safetensors holds.yaml", "--guard guarded.safetensors", whole=True),
    },
    "parity": {
        "policy": Case("parity absent", "parity policy.safetensors"),
        "--decisions": more("parity policy.safetensors", "--decisions 7"),
        "--seed": more("parity policy.safetensors", "--seed 7"),
        "--link-sets": more("parity policy.safetensors", "--link-sets"),
        "--duration-s": more("parity policy.safetensors", "--duration-s 7"),
        "--json": more("parity policy.safetensors --decisions 8 --link-sets", "--json out.json", whole=True),
    },
    "schemes": {
        "name": more("schemes", "cubic"),
        "--queues": more("schemes", "--queues"),
        "--json": more("schemes", "--json"),
    },
    "stacks list": {"--json": more("stacks list", "--json")},
    "stacks get": {
        "names": Case("stacks get nginx", "stacks get ngtcp2"),
        "--into": more("stacks get nginx", "--into elsewhere"),
    },
    "traces list": {"--json": more("traces list", "--json")},
    "traces stats": {
        "traces": more("traces stats", "up.trace"),
        "--duration-s": more("traces stats lte-bus", "--duration-s 3"),
        "--seed": more("traces stats lte-bus", "--seed 3"),
        "--mean-mbps": more("traces stats lte-bus", "--mean-mbps 3"),
        "--json": more("traces stats up.trace", "--json"),
    },
    "traces validate": {
        "traces": Case("traces validate up.trace", "traces validate both.down"),
        "--json": more("traces validate up.trace", "--json"),
    },
    "traces plot": {
        "traces": Case("traces plot lte-bus", "traces plot up.trace"),
        "--duration-s": more("traces plot lte-bus", "--duration-s 3"),
        "--seed": more("traces plot lte-bus", "--seed 3"),
        "--mean-mbps": more("traces plot lte-bus", "--mean-mbps 3"),
        "--out": more("traces plot up.trace", "--out picture.html"),
        "--window-ms": more("traces plot up.trace", "--window-ms 50"),
        "--json": more("traces plot up.trace", "--json"),
    },
    "traces generate": {
        "preset": Case("traces generate lte-bus --out x", "traces generate lte-walking --out x"),
        "--duration-s": more("traces generate lte-bus", "--duration-s 3"),
        "--seed": more("traces generate lte-bus", "--seed 3"),
        "--mean-mbps": more("traces generate lte-bus", "--mean-mbps 3"),
        "--out": more("traces generate lte-bus", "--out x"),
        "--json": more("traces generate lte-bus", "--json"),
    },
    "traces compare": {
        "model": Case("traces compare wifi table.csv", "traces compare cable table.csv"),
        "tables": more("traces compare wifi table.csv", "absent.csv"),
        "--sessions": more("traces compare wifi table.csv", "--sessions even"),
        "--format": more("traces compare wifi table.csv", "--format fcc"),
        "--rate": more("traces compare wifi table.csv", "--rate length"),
        "--unit": more("traces compare wifi table.csv", "--unit kbps"),
        "--delay": more("traces compare wifi table.csv", "--delay length"),
        "--rtt": more("traces compare wifi table.csv", "--rtt length"),
        "--delay-unit": more("traces compare wifi table.csv --delay length", "--delay-unit s"),
        "--loss": more("traces compare wifi table.csv", "--loss length"),
        "--loss-unit": more("traces compare wifi table.csv --loss length", "--loss-unit percent"),
        "--fill": more("traces compare wifi table.csv --delay missing", "--fill"),
        "--interval": more("traces compare wifi table.csv", "--interval length"),
        "--time": more("traces compare wifi table.csv", "--time start"),
        "--time-unit": more("traces compare wifi table.csv --interval length", "--time-unit ms"),
        "--time-format": more("traces compare wifi table.csv --time start", "--time-format %M"),
        "--max-gap": more("traces compare wifi table.csv --time start", "--max-gap 1"),
        "--interval-s": more("traces compare wifi table.csv", "--interval-s 2"),
        "--delimiter": more("traces compare wifi table.csv", "--delimiter tab"),
        "--no-header": more("traces compare wifi table.csv", "--no-header"),
        "--keep": more("traces compare wifi table.csv", "--keep rate_mbps=12"),
        "--drop": more("traces compare wifi table.csv", "--drop rate_mbps=12"),
        "--json": more("traces compare wifi table.csv --interval-s 60", "--json", whole=True),
    },
    "traces convert": {
        "table": Case(CONVERT, "traces convert absent.csv --out x.trace"),
        "--out": Case(CONVERT, "traces convert table.csv"),
        "--format": more(CONVERT, "--format fcc"),
        "--from": more(CONVERT, "--from 1"),
        "--until": more(CONVERT, "--until 1"),
        "--max-mbps": more(CONVERT, "--max-mbps 20"),
        "--rate": more(CONVERT, "--rate length"),
        "--unit": more(CONVERT, "--unit kbps"),
        "--interval": more(CONVERT, "--interval length"),
        "--time": more(CONVERT, "--time start"),
        "--time-unit": more(f"{CONVERT} --interval length", "--time-unit ms"),
        "--time-format": more(f"{CONVERT} --time start", "--time-format %M"),
        "--gaps": more(f"{CONVERT} --time start --max-gap 1", "--gaps cut"),
        "--max-gap": more(f"{CONVERT} --time start", "--max-gap 1"),
        "--interval-s": more(CONVERT, "--interval-s 2"),
        "--delimiter": more(CONVERT, "--delimiter tab"),
        "--no-header": more(CONVERT, "--no-header"),
        "--delay": more(CONDITIONS, "--delay length"),
        "--rtt": Case(f"{CONDITIONS} --delay length", f"{CONDITIONS} --rtt length"),
        "--delay-unit": more(f"{CONDITIONS} --delay length", "--delay-unit us"),
        "--loss": more(CONDITIONS, "--loss missing"),
        "--loss-unit": more(f"{CONDITIONS} --loss lost", "--loss-unit percent"),
        "--fill": more(f"{CONDITIONS} --delay missing", "--fill"),
        "--keep": more(CONVERT, "--keep rate_mbps=12"),
        "--drop": more(CONVERT, "--drop rate_mbps=12"),
        "--burstiness": more(CONVERT, "--burstiness 0.5"),
        "--seed": more(f"{CONVERT} --burstiness 0.5", "--seed 3"),
        "--json": more(CONVERT, "--json"),
    },
    "traces fetch": {
        "set": more("traces fetch", "nyc-lte"),
        "--from": more("traces fetch", "--from ."),
        "--to": more("traces fetch", "--to elsewhere"),
        "--json": more("traces fetch", "--json"),
    },
    "completion": {"shell": Case("completion bash", "completion fish")},
    "play": {
        "scenario": more("play", "scenario.yaml"),
        "--out": more("play", "--out mine.html"),
        "--no-open": Case("play --open", "play --no-open"),
    },
    "doctor": {"--link-speed": more("doctor", "--link-speed"), "--json": more("doctor", "--json", whole=True)},
}

REFUSED: dict[str, str] = {
    "train --help --resume": "--resume has no effect beside --help",
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

EMPTY: dict[str, Any] = {"privileged": [], "report": []}
STANDING_IN = (
    "ccarena.commands.play.show",
    "ccarena.commands.build.build",
    "ccarena.commands.new.new_controller",
    "ccarena.commands.doctor.link_speed",
    "ccarena.commands.stacks.get_stack",
    "ccarena.commands.status._jobs",
    "ccarena.commands.tune.sweep",
    "ccarena.tune.scheme.run",
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
        Path("entrants.yaml").write_text('duration_s: 1\nflows:\n  - {scheme: "${entrant}"}\n')
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
