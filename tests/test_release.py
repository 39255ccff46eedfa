"""A release and what hosted CI does for one: versions agree, and workflows call what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import image
from ccarena import __version__, cli
from ccarena.core.arguments import parse

ROOT = Path(__file__).parents[1]
HOSTED = ROOT / ".github"
WORKFLOWS = sorted((HOSTED / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "--no-print-directory", *words], cwd=ROOT, capture_output=True, text=True)


def test_every_file_names_the_same_version() -> None:
    crates = re.search(
        r'^\[workspace\.package\]\nversion = "(.*)"', (ROOT / "Cargo.toml").read_text("utf-8"), flags=re.M
    )
    assert crates is not None and crates[1] == __version__
    assert read(ROOT / "CITATION.cff")["version"] == __version__
    for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
        locked = re.findall(r'name = "(ccarena-(?!fuzz)\w+)"\nversion = "(.*)"', (ROOT / lock).read_text("utf-8"))
        assert locked and {version for _, version in locked} == {__version__}


def test_the_changelog_has_a_section_of_the_version_below_unreleased() -> None:
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)
    assert heads[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} – \d{{4}}-\d\d-\d\d", heads[1])


def test_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    done = make("release-notes", f"TAG=v{__version__}")
    assert done.returncode == 0, done.stderr
    assert "### Added" in done.stdout and "\n## " not in done.stdout
    wrong = make("release-notes", "TAG=v99.0.0")
    assert wrong.returncode != 0 and f"the tag is v99.0.0, but the version is {__version__}" in wrong.stderr
    assert wrong.stdout == ""


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_exists(workflow: Path) -> None:
    called = "\n".join(step["run"] for step in steps(workflow) if "run" in step)
    targets = re.findall(r"\bg?make ([a-z-]+)", re.sub(r"install make\b", "", called))
    scripts = re.findall(r"(?<![\w/])((?:\.ci|ccarena|fuzz)/[\w./-]+)", called)
    assert targets and set(targets) <= TARGETS
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


def test_commands_of_workflows_and_images_are_taken() -> None:
    texts = [step.get("run", "") for workflow in WORKFLOWS for step in steps(workflow)]
    texts += [re.sub("docker run .*?ccarena(-kernel)?", "ccarena", (ROOT / "Dockerfile").read_text("utf-8"))]
    found = [words for text in texts for words in re.findall(r"ccarena ([a-z]+(?: [\w-]+)*)$", text, flags=re.M)]
    found += [words for commands in image.CHECKS.values() for words in commands]
    assert len(found) >= 6
    for words in found:
        chosen = words.split()
        _, rest = parse(lambda name=chosen[0]: cli.build_parser(name), chosen)
        assert not rest, words


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights_and_fixed_actions(workflow: Path) -> None:
    document = read(workflow)
    assert document["permissions"] == {"contents": "read"}
    rights = {name: job["permissions"] for name, job in document["jobs"].items() if "permissions" in job}
    assert rights in ({}, {"release": {"contents": "write"}})
    for step in steps(workflow):
        assert re.fullmatch(r"[\w/-]+@(v\d+|[0-9a-f]{40})", step.get("uses", "an/action@v1"))
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False


def test_workflows_are_as_actionlint_wants_them() -> None:
    if (program := shutil.which("actionlint")) is None:
        pytest.skip("SKIPPED, workflows are not linted: actionlint is not on PATH")
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_forms_of_issues_ask_for_something() -> None:
    forms = [read(path) for path in (HOSTED / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) >= 2
    for form in forms:
        assert form["name"] and form["description"]
        assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_devcontainer_calls_what_exists() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8")
    container = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
    assert set(re.findall(r"make ([a-z-]+)", container["postCreateCommand"])) <= TARGETS
