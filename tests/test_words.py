"""Old names are gone: each concept has one name (docs/glossary.md), in code, docs and messages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Old(NamedTuple):
    """A name that is gone."""

    pattern: str
    """A regular expression over lines."""
    new: str
    """The name in its place."""
    where: tuple[str, ...] = ("ccarena", "crates", "docs", "tests", "bench", "examples", "fuzz", "README.md")
    """Files and folders of the repository that are searched."""


RUST = ("crates", "fuzz", "docs")
PYTHON = ("ccarena", "bench", "examples", "docs", "README.md")
OLD = [
    Old(r"\bpolicy control\b", "policy rule"),
    Old(r"\bCompany\b|\bcompanies\b", "Competition, competitions", ("ccarena/attacks", "tests/attacks")),
    Old(r"\becn_(packets|ratio)\b", "ce_packets, ce_ratio"),
    Old(r"\bpolicies[/.]shipped\b", "the folder of the policy's scheme, ccarena/SCHEME/policies"),
    Old(r"\$\{policy\b", "${policies.SCHEME}", ("ccarena/eval/suites", "docs")),
    Old(r"\bREAL_TIME\b|\bbackends\.TITLES\b", "BACKENDS[NAME].real_time, .title"),
    Old(r"\breport\.html\b", "page.html"),
    Old(r"\bcannot[- ]tell\b", "undecided", ("ccarena/eval", "docs/reproduction.md", "docs/measurements.md", "bench")),
    Old(r"\bcontract\b", "interface, or spec", PYTHON),
    Old(r"\brecord_of\b|\brecord: TrainConfig", "configuration_of, config", PYTHON),
    Old(r"\bdomain_json\b", "distribution_json"),
    Old(r"\bshipped_documents\b|\bdocument_of\b|\bread_document\b", "shipped_specs, spec_json, read_spec", PYTHON),
    Old(r"^document: ", "spec: ", (*PYTHON, "tests")),
    Old(r"^controls:", "constant_actions:", (*PYTHON, "tests")),
    Old(r"(?<!_)\b(c|bpf)_home\b|\bHOMES\b|\bhomes of a policy\b|\bpolicy's homes\b", "runtimes", (*PYTHON, "tests")),
    Old(r"\blaw:pilot\b|\bpilot=0\b|\bpilot-law\b|ccarena/Pilot|\bgoal_exp\b", "pilot, a scheme without actions"),
    Old(r"\bWorth\b|\bworth_of\b|\bheldout\.worth\b", "Gain, gain_of", PYTHON),
    Old(r"\b[Nn]etwork[ _]agents?\b|\bNetworkAgent\b|\bAgentConfig\b|\bagent_headroom\b", "router"),
    Old(r"\blinks?(\[\w*\])?\.agent\b|[\"'`]agent[\"'`]?: *(true|false|True|False|abc|xcp|\{)", "router"),
    Old(r"\bagent_cpu_\w+|\bkernel agent\b", "daemon"),
    Old(r"\b(truths?|TRUTH|needs_truth|write_truth)\b(?! about)", "privileged"),
    Old(r"\b(hears_every_segment|takes_rate_samples)\b", "TransportNeeds, PacketTracker"),
    Old(r"\b(adopt_verdict|Reasoning|Verdict)\b", "adopt_decision, ReasonerOptions, Decision", RUST),
    Old(r"\bstruct mind\b|\bmind_\w+|\bmind\.[ch]\b", "learned", RUST),
    Old(r"\buntold\b", "unreported"),
    Old(
        r"\bLearnedSpec\b|\bccarena_cc::Document\b|\bContract\b|learned/documents?\b", "Spec, Interface, Trained", RUST
    ),
    Old(r"\b(Run|Flow|Link|Machine|Lateness|Bridge)Record\b", "RunResult, FlowResult and so on", RUST),
    Old(r"\benum Home\b|\bHome::|\bstruct (Law|Said|Told)\b", "Runtime, ControlLaw, Deferred", RUST),
    Old(r"\bworth its network\b|\bworth the network\b", "could a simple rule do it? (Verdict.simple_rule)"),
    Old(r"\bverdict\.line\b|\bverdict: learned\b", "Verdict.learned, Verdict.simple_rule, each with its sentence"),
    Old(
        r"pip install \"?ccarena\[",
        'pip install "WHEEL[EXTRA]", or ccarena.extras',
        ("ccarena", "docs", "README.md", "examples"),
    ),
]


def found(old: Old, root: Path = ROOT) -> list[str]:
    """Lines of tracked text files that hold the old name, as `file:line: text`."""
    listed = subprocess.run(["git", "ls-files", "-z", *old.where], cwd=root, capture_output=True, check=True).stdout
    lines = []
    for name in listed.decode().split("\0"):
        path = root / name
        if not name or name == "tests/test_words.py" or name.startswith("tests/locks/") or not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        lines += [
            f"{name}:{k}: {line.strip()[:120]}"
            for k, line in enumerate(text.split("\n"), 1)
            if re.search(old.pattern, line)
        ]
    return lines


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.new)
def test_it_is_gone(old: Old) -> None:
    assert found(old) == [], f"write {old.new}"


def test_an_old_name_is_found(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "README.md").write_text("`ccarena policy control` writes it\n")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert found(OLD[0], tmp_path) == ["README.md:1: `ccarena policy control` writes it"]
