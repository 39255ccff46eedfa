"""Stacks of others: what their folders say, how they are built, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccarena.cli import main
from ccarena.errors import ConfigError, MachineError
from ccarena.scenarios.entrant_files import read_entrant_file
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.get_stack import get_stack
from ccarena.scenarios.schemes import registered
from ccarena.scenarios.stacks import HOME, RECIPES, SHIPPED, Stack, find_stack, shipped_stacks, stack_names
from docs.generate import stacks as docs

STACKS = shipped_stacks()
LOCKS = {"cargo": "Cargo.lock", "go": "go.sum", "python": "requirements.txt"}


def test_there_are_seven_or_more() -> None:
    assert len(STACKS) >= 7
    assert set(STACKS) == {path.name for path in SHIPPED.iterdir() if path.is_dir() and path.name != "__pycache__"}


@pytest.mark.parametrize("name", STACKS)
def test_a_folder_says_all_that_a_reader_needs(name: str) -> None:
    stack = STACKS[name]
    file = stack.shipped
    assert file.name == name
    assert file.title and file.version and file.licence and file.needs and file.congestion_controls
    if stack.recipe:
        locked = (stack.source / LOCKS[stack.recipe]).read_text()
        assert file.version in locked, "the version is not the one that is built"
    else:
        assert file.packages
    assert not set(stack_names({name: stack})) & set(registered())


def test_a_name_chooses_the_congestion_control() -> None:
    assert {"quinn", "quinn-bbr", "quinn-newreno"} <= set(stack_names())
    found = find_stack("quinn-bbr")
    assert found is not None and (found[0].name, found[1]) == ("quinn", "bbr")
    assert find_stack("quinn-cubic") is None


def test_a_stack_that_is_not_here_is_refused_with_the_command_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    with pytest.raises(MachineError, match="stack:quinn: it is not built; get it by: ccarena stacks get quinn"):
        parse("stack:quinn-bbr")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"not on this machine: nginx, curl, python3; get it by: ccarena"):
        parse("stack:nginx")


@pytest.mark.parametrize("name", [name for name, stack in STACKS.items() if stack.recipe != "python"])
def test_without_a_tool_or_a_package_it_says_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    stack = STACKS[name]
    with pytest.raises(MachineError, match=rf"stack:{name} .*(install Rust|install Go|sudo apt install {name})"):
        get_stack(stack, tmp_path)
    assert not list(tmp_path.iterdir())


CARGO = '#!/bin/sh\nset -eu\n[ "$3" = --path ]\ncd "$4"\nmkdir bin target\n'
WORKS = CARGO + "cp src/main.rs bin/made\nchmod +x bin/made\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack that a stand-in for cargo builds: `cargo(script)` below says how."""
    source = tmp_path / "shipped" / "made"
    (source / "src").mkdir(parents=True)
    (source / "Cargo.toml").write_text("")
    (source / "src" / "main.rs").write_text("#!/bin/sh\n")
    (source / "entrant.yaml").write_text(
        "name: made\nkind: command\nsender: bin/made\nreceiver: bin/made\nneeds: [bin/made]\n"
        "congestion_controls: [one, two]\n"
    )
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    return Stack("made", source, tmp_path / "home")


def cargo(stack: Stack, script: str) -> None:
    path = stack.place.parent / "path" / "cargo"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_stack_is_built_once_and_again_when_its_sources_change(made: Stack) -> None:
    cargo(made, WORKS)
    got = get_stack(made, made.place)
    assert got.seconds > 0 and got.size_bytes > 0 and not made.lacks
    assert not (made.folder / "target").exists()
    assert made.flow("two")["scheme"] == "made-two"
    cargo(made, "#!/bin/sh\nexit 1\n")
    assert get_stack(made, made.place).seconds == 0
    (made.source / "src" / "main.rs").write_text("#!/bin/sh\n# changed\n")
    assert made.lacks == "it was built from other sources"


def test_every_program_that_a_stack_needs_has_a_package() -> None:
    for stack in STACKS.values():
        file = stack.shipped
        on_path = [name for name in (*file.needs, *file.tools) if "/" not in name]
        assert not on_path or file.packages, stack.name
    assert "openssl" in STACKS["aioquic"].shipped.packages


def test_a_build_that_fails_says_how_and_leaves_the_old_one(made: Stack) -> None:
    cargo(made, WORKS)
    get_stack(made, made.place)
    old = (made.folder / "bin" / "made").read_text()
    (made.source / "src" / "main.rs").write_text("#!/bin/sh\n# changed\n")
    cargo(made, CARGO + "echo 'error: no linker'; exit 101\n")
    with pytest.raises(MachineError, match=r"stack:made: `cargo install .*` failed:\nerror: no linker"):
        get_stack(made, made.place)
    assert (made.folder / "bin" / "made").read_text() == old
    assert sorted(path.name for path in made.place.iterdir()) == [".lock", "made"]


def test_an_interrupted_build_leaves_nothing(made: Stack) -> None:
    cargo(made, CARGO + "kill -INT $PPID\nexec sleep 20\n")
    with pytest.raises(KeyboardInterrupt):
        get_stack(made, made.place)
    assert [path.name for path in made.place.iterdir()] == [".lock"]


def test_the_command_lists_stacks_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    assert main(["stacks", "list", "--json"]) == 0
    listed = {facts["name"]: facts for facts in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(STACKS)
    assert listed["quinn"]["lacks"] == "it is not built" and not listed["quinn"]["installed"]
    assert main(["stacks", "get", "quin"]) == ConfigError.exit_code
    assert 'unknown stack "quin"; did you mean "quinn"?' in capsys.readouterr().err


PROGRAMS = {"kind": "quic", "server": "true {control}", "client": "true", "congestion_controls": ["cubic", "bbr"]}


def test_programs_get_a_congestion_control_and_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "theirs.yaml"
    path.write_text(yaml.safe_dump({**PROGRAMS, "certificate": True, "env": {"MORE": "1"}}))
    foreign = read_entrant_file(path).flow("bbr")["foreign"]
    assert foreign["receiver"][-1] == "bbr"
    assert foreign["env"] == {"MORE": "1", "CCARENA_CONTROL": "bbr"}
    assert foreign["sender"] == [shutil.which("true")]
    # The listener's own words make the certificate, and then become the program.
    begin = foreign["receiver"][: -len(["true", "bbr"])]
    subprocess.run([*begin, "test", "-s", "cert.pem", "-a", "-s", "key.pem"], cwd=tmp_path, check=True)
    names = subprocess.run(
        ["openssl", "x509", "-in", "cert.pem", "-noout", "-text"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "DNS:stack" in names and "CA:FALSE" in names


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"congestion_controls": []}, r"{control} is in a command; expected `congestion_controls`"),
        ({"congestion_controls": "cubic"}, r"congestion_controls = 'cubic': expected a list of texts"),
        ({"congestion_controls": ["a b"]}, r"congestion_controls: 'a b': expected up to 60 letters"),
        ({"certificate": "yes"}, r"certificate = 'yes': expected true or false"),
        ({"packages": [1]}, r"packages = \[1\]: expected a list of texts"),
        ({"bound": ["cpu"]}, r"bound = \['cpu'\]: expected text"),
    ],
)
def test_wrong_keys_are_refused(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    path = tmp_path / "theirs.yaml"
    path.write_text(yaml.safe_dump({**PROGRAMS, **fields}))
    with pytest.raises(ConfigError, match=said):
        read_entrant_file(path)


def test_the_page_has_every_stack() -> None:
    page = (Path(__file__).parents[2] / "docs" / "entrant-files.md").read_text("utf-8")
    assert page.endswith(docs.markdown()), "run `make docs`"
    assert all(f"| `{file}`" in page for file in RECIPES)
