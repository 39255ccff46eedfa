"""The control socket of a QUIC server (`ccarena quic serve --control SOCKET`): an operator's commands.

server = Server(Path("/run/mine.sock"))
server.canary("mine", 0.05)
print(server.stats("mine")[0].handed_back)
server.rollback("mine")
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.errors import MachineError, RunnerError
from ccarena.operation.loaded import Loaded, read_loaded

__all__ = ["Server"]

_PATIENCE_S = 30.0
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Server:
    """A server, by its control socket. Methods raise MachineError if it does not answer or refuses."""

    control: Path

    def stats(self, name: str | None = None) -> list[Loaded]:
        """Returns its policies, or `name` alone."""
        return [_loaded(found) for found in self._ask(command="stats", name=name)]

    def records(self, name: str, after: int = 0) -> list[dict[str, Any]]:
        """Returns the records of the policy's connections: open ones, and those ended after record `after`."""
        found: list[dict[str, Any]] = self._ask(command="connections", name=name, after=after)
        return found

    def load(
        self, file: Path, name: str, *, label: str | None = None, shadow: bool = False, guard: int | None = None
    ) -> Loaded:
        """Puts the policy in `file` in force under `name`; open connections follow at once, in slow start too.

        Arguments:
            label: origin of the policy in `stats` (None: the file).
            shadow: the policy decides, and the fallback scheme acts.
            guard: decisions in a row outside after which a connection is handed back (None: what is in force).
        """
        file = file.absolute()
        words = {"file": str(file), "label": label or str(file), "shadow": shadow, "guard": guard}
        return _loaded(self._ask(command="load", name=name, **words))

    def canary(self, name: str, share: float, *, to: str | None = None, guard: int | None = None) -> Loaded:
        """Gives the policy `name` a share of connections, from 0 to 1, of those from the prefix `to`."""
        return _loaded(self._ask(command="canary", name=name, share=share, to=to, guard=guard))

    def rollback(self, name: str) -> Loaded:
        """Returns the name to the policy before. A second call returns to the present one."""
        return _loaded(self._ask(command="rollback", name=name))

    def _ask(self, **command: Any) -> Any:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(_PATIENCE_S)
                client.connect(str(self.control))
                client.sendall(json.dumps(command).encode() + b"\n")
                with client.makefile("rb") as lines:
                    answer = lines.readline(_LARGEST)
        except OSError as error:
            raise MachineError(
                f"no server answers at {self.control}: {error.strerror or error}; start one with `ccarena quic serve "
                f"--control {self.control}`"
            ) from error
        try:
            found = json.loads(answer)
            if "error" in found:
                raise MachineError(str(found["error"]))
            return found["found"]
        except (ValueError, KeyError, TypeError) as error:
            raise RunnerError(f"the server's answer is not understood: {answer[:200]!r}") from error


def _loaded(found: dict[str, Any]) -> Loaded:
    return read_loaded(found, "ccarena-quic")
