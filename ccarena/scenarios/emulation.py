"""Changes a running `ccarena emulate --control PATH` from Python."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ccarena.errors import MachineError, ScenarioError

_LONGEST = 1 << 20


class LinkValues(NamedTuple):
    """Values in force on one link; None of what cannot be changed."""

    rate_mbps: float | None
    delay_ms: float | None
    loss: float | None


class EmulatorControl:
    """A client of a running emulation.

    ```python
    with EmulatorControl("emulation.sock") as control:
        at_s = control.set("link0", rate_mbps=5, loss=0.01)
        print(control.get()["link0"].delay_ms)
    ```
    """

    def __init__(self, path: str | Path, timeout_s: float = 5.0) -> None:
        """Connects to the socket at `path`.

        Raises MachineError if no emulation listens there.
        """
        self.path = Path(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            reason = error.strerror or error
            raise MachineError(
                f"{path}: cannot reach an emulation: {reason}; expected the path of a running "
                f"`ccarena emulate --control {path} SCENARIO`"
            ) from error
        self._answers = self._socket.makefile("rb")

    def get(self) -> dict[str, LinkValues]:
        """Returns the values in force by the links' names."""
        links = self._ask({})["links"]
        return {link["name"]: LinkValues(*(link.get(field) for field in LinkValues._fields)) for link in links}

    def set(
        self,
        link: str | None = None,
        *,
        rate_mbps: float | None = None,
        delay_ms: float | None = None,
        loss: float | None = None,
    ) -> float:
        """Changes a link, which need not be named if it is the only one, and returns the time of the run in seconds.

        Raises ScenarioError if nothing is given or the emulation refuses a value.
        """
        if rate_mbps is delay_ms is loss is None:
            raise ScenarioError("nothing to set; expected rate_mbps, delay_ms or loss")
        given = {"link": link, "rate_mbps": rate_mbps, "delay_ms": delay_ms, "loss": loss}
        return float(self._ask({key: value for key, value in given.items() if value is not None})["at_s"])

    def close(self) -> None:
        """Closes the connection; the emulation goes on."""
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> EmulatorControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._answers.readline(_LONGEST)
        except OSError as error:
            raise MachineError(f"{self.path}: the emulation does not answer: {error.strerror or error}") from error
        if not line.endswith(b"\n"):
            raise MachineError(f"{self.path}: the emulation has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ScenarioError(f"{self.path}: {answer['error']}")
        return answer
