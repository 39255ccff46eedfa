"""bench/guided.py, on the extension as it is: what is built with counts takes minutes."""

import zipfile
from pathlib import Path

import pytest

from bench import guided
from ccarena import _core


def test_a_wheel_with_the_same_extension_gives_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guided, "ROUNDS", 1)
    wheel = tmp_path / "ccarena.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(guided.ORDINARY, "ccarena/_core.abi3.so")
    assert guided.main(["compare", str(wheel)]) == 0
    assert capsys.readouterr().out.startswith("same results, in ")


@pytest.mark.parametrize("held", [None, {}, {"ccarena/_core.abi3.so": b"no library"}])
def test_what_is_no_wheel_of_ours_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], held: dict[str, bytes] | None
) -> None:
    wheel = tmp_path / "other.whl"
    if held is not None:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in held.items():
                archive.writestr(name, data)
    assert guided.main(["compare", str(wheel)]) == 1
    assert "error: " in capsys.readouterr().err


def test_every_scheme_and_every_queue_discipline_is_counted() -> None:
    scenarios = list(guided.scenarios(_core))
    assert {s["name"] for s in _core.schemes() if not s["rules"]} == {
        flow["scheme"] for s in scenarios for flow in s["flows"]
    }
    assert {q["name"] for q in _core.queue_disciplines()} == {
        link["queue"]["type"] for s in scenarios for link in s["links"]
    }
