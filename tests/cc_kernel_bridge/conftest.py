"""The helper modules beside these tests by their names, and a program in the place of `ccarena-kernel`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import kernel_frames


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("linux")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kernel_frames.Program:
    """Puts a Python program in the place of `ccarena-kernel`; gives the file in which it may write."""

    def install(code: str) -> Path:
        path = tmp_path / "ccarena-kernel"
        head = "import json, os, struct, sys, time\nread, write = sys.stdin.buffer, sys.stdout.buffer\n"
        head += f"heard = open({str(tmp_path / 'heard')!r}, 'wb', buffering=0)\n"
        path.write_text(f"#!{sys.executable}\n{head}{code}\n")
        path.chmod(0o755)
        return tmp_path / "heard"

    monkeypatch.setenv("CCARENA_BIN_DIR", str(tmp_path))
    return install
