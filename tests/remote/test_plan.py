"""The runs of `ccarena remote run` before they are made: their order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: runs between machines not planned (run make)")

import ccarena
from ccarena.commands.remote import address_of
from ccarena.errors import ConfigError, ScenarioError
from ccarena.remote.run import PATH, Planned, plan

NAMES = ["cubic", "bbr", "copa", "kernel:cubic"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text('seed: 5\nduration_s: 3\nflows:\n  - {scheme: "${entrant}"}\n')
    return path


def entrants(planned: list[Planned]) -> list[str]:
    return [str(each.axes["entrant"]) for each in planned]


def test_each_repeat_has_every_entrant_once_in_an_order_of_its_own(file: Path) -> None:
    planned = plan(file, NAMES, 6, None, 1)
    repeats = [entrants(planned[at : at + 4]) for at in range(0, 24, 4)]
    assert all(sorted(each) == sorted(NAMES) for each in repeats)
    assert len({tuple(each) for each in repeats}) > 2
    assert [each.document["seed"] for each in planned] == [5 + repeat for repeat in range(6) for _ in NAMES]
    assert entrants(plan(file, NAMES, 6, None, 1)) == entrants(planned) != entrants(plan(file, NAMES, 6, None, 2))


def test_the_path_takes_the_place_of_links(file: Path) -> None:
    link = "{name: a, service: {type: constant, rate_mbps: 3}}"
    file.write_text(f"links: [{link}]\nflows:\n  - {{scheme: cubic, path: [a], return_path: [a]}}\n")
    [only] = plan(file, [], 1, 2.5, 1)
    assert only.document["duration_s"] == 2.5 and only.axes == {"direction": "forward"}
    assert [each.axes for each in plan(file, [], 1, 2.5, 1, reverse=True)] == [{"direction": "reverse"}]
    assert [each["name"] for each in only.document["links"]] == [PATH]
    assert only.document["flows"] == [{"scheme": "cubic"}]


def test_what_cannot_run_is_refused_before_anything_runs(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"--repeats 0: expected at least 1"):
        plan(file, NAMES, 0, None, 1)
    program = file.with_name("program.yaml")
    program.write_text("name: program\nkind: command\nsender: 'true'\nreceiver: 'true'\n")
    with pytest.raises(ConfigError, match=r"a program, which does not run over a real path; use --backend kernel"):
        plan(file, [str(program)], 1, None, 1)
    [kernel] = plan(file, ["kernel:cubic"], 1, None, 1)
    assert kernel.document["flows"][0]["foreign"] == {"type": "kernel", "name": "cubic"}
    with pytest.raises(ConfigError, match=r"xcp routers have no place in the packets"):
        plan(file, ["xcp"], 1, None, 1)
    with pytest.raises(ConfigError, match="needs a second machine: use `ccarena remote run`"):
        ccarena.run({"flows": [{"scheme": "cubic"}]}, backend="remote")
    file.write_text("flows:\n  - {scheme: cubic}\n")
    with pytest.raises(ConfigError, match=r"does not use it; write \$\{entrant\}"):
        plan(file, NAMES, 1, None, 1)
    file.write_text("flows:\n  - {skeme: cubic}\n")
    with pytest.raises(ScenarioError, match=r"two.yaml: flows\[0\]"):
        plan(file, [], 1, None, 1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", "host:4433"),
        ("192.0.2.1:5000", "192.0.2.1:5000"),
        ("2001:db8::1", "[2001:db8::1]:4433"),
        ("[2001:db8::1]", "[2001:db8::1]:4433"),
        ("[2001:db8::1]:5000", "[2001:db8::1]:5000"),
    ],
)
def test_a_port_may_be_missing(text: str, address: str) -> None:
    assert address_of(text) == address
