"""The emulator's program, run as its shells."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccarena.core import programs
from ccarena.errors import MachineError

# Connects to $MAHIMAHI_BASE and prints how long one exchange took after that, in ms.
PROBE = """
import os, socket, sys, time
c = socket.create_connection((os.environ["MAHIMAHI_BASE"], int(sys.argv[1])), 5)
begun = time.monotonic()
c.sendall(b"x")
assert c.recv(1) == b"x"
print((time.monotonic() - begun) * 1e3)
"""

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def program() -> str:
    try:
        return str(programs.find("ccarena-link"))
    except MachineError as error:
        pytest.skip(f"SKIPPED, the emulator is not tested: {error}")


@pytest.fixture
def shell(program: str, tmp_path: Path) -> Shell:
    """Runs a shell with these words to its end."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED, the emulator is not tested: needs root, to create network namespaces")

    def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
        line = [program, *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path, **options)  # type: ignore[call-overload,no-any-return]

    return run


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server on this machine that echoes one byte."""
    with socket.create_server(("0.0.0.0", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(connection.recv(1))

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """12 Mbit/s: a packet per millisecond."""
    path = tmp_path / "12mbps"
    path.write_text("1\n")
    return path


@pytest.fixture
def probe(port: int) -> list[str]:
    """A command that prints how long an exchange with that server takes, in ms."""
    return [sys.executable, "-c", PROBE, str(port)]
