"""A machine that serves, on this one: `ccarena remote serve` on loopback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ccarena.core import programs
from ccarena.errors import MachineError
from ccarena.remote import token


class Server(NamedTuple):
    process: subprocess.Popen[str]
    address: str
    token: Path

    def line(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=10)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server with these options; all end with the test."""
    try:
        programs.find(programs.QUIC)
    except MachineError as error:
        pytest.skip(f"SKIPPED, runs between machines are not tested: {error}")
    started: list[Server] = []

    def start(*options: str, name: str = "token.txt", address: str = "127.0.0.1:0") -> Server:
        file = tmp_path / name
        words = ["remote", "serve", "--token", str(file), "--listen", address, *options]
        process = subprocess.Popen([sys.executable, "-m", "ccarena_command", *words], stdout=subprocess.PIPE, text=True)
        server = Server(process, "", file)
        server = server._replace(address=server.line()["listening"])
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end()


@pytest.fixture
def secret(serve: Callable[..., Server], tmp_path: Path) -> str:
    """The token of servers that have no other."""
    token.make(tmp_path / "token.txt")
    return token.read(tmp_path / "token.txt")
