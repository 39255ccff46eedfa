"""Says how to go on if this process is ended because its Ray cluster is lost.

If the node that a driver is connected to dies, Ray ends the driver's process at once and without a word. If the head
dies, the driver waits inside Ray, where Python cannot raise, until Ray ends the process with a line of its log after
`RAY_gcs_rpc_server_reconnect_timeout_s`. A small process therefore keeps the sentence that is then to be said, and a
thread ends this process a little before Ray would. A head that is back by then costs nothing.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ccarena.core.terminal import again

__all__ = ["watch"]

_LOOK_EVERY_S, _ANSWERS_WITHIN_S = 1.0, 2.0
_SHARE = 0.5
"""The share that is waited of the time after which Ray itself ends the process."""
_KEEPER = """
import sys
last = ""
for last in sys.stdin: pass
if last.strip(): print("\\nerror: " + last.strip(), file=sys.stderr)
"""
"""Prints the last line that it was given when its input ends, as it does with the process that gives it."""


def watch(address: str, connected: Callable[[], bool]) -> None:
    """Starts the watch over the cluster whose head is at `address` (HOST:PORT). It ends when `connected` says no."""
    watching = _Watch(address, connected)
    atexit.register(watching.end)
    threading.Thread(target=watching.run, daemon=True, name="ray-watch").start()


class _Watch:
    def __init__(self, address: str, connected: Callable[[], bool]) -> None:
        self._address, self._connected = address, connected
        # In a session of its own: Ctrl-C is for this process alone.
        command = [sys.executable, "-S", "-E", "-c", _KEEPER]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self._lock = threading.Lock()
        self._kept = ""
        self._keep("this process was killed, or lost")

    def run(self) -> None:
        """Looks after the head until the process is no longer connected."""
        patience_s = _SHARE * float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", "60"))
        answered_s = time.monotonic()
        while self._connected():
            self._keep("this process was killed, or lost")
            if _answers(self._address):
                answered_s = time.monotonic()
            elif (silent_s := time.monotonic() - answered_s) > patience_s:
                self._keep(f"for {silent_s:.0f} s nobody has answered at the head of")
                os._exit(1)
            time.sleep(_LOOK_EVERY_S)
        self.end()

    def end(self) -> None:
        """Nothing is to be said."""
        with self._lock, suppress(OSError, ValueError):
            assert self._keeper.stdin is not None
            self._keeper.stdin.write("\n")
            self._keeper.stdin.close()
            self._keeper.wait(10)

    def _keep(self, what: str) -> None:
        said = (
            f"{what} the Ray cluster at {self._address}; start it again or another one (--ray-address), and {again()}"
        )
        with self._lock, suppress(OSError, ValueError):  # ended, or the keeper was killed
            assert self._keeper.stdin is not None
            if said != self._kept:
                self._keeper.stdin.write(said + "\n")
                self._keeper.stdin.flush()
                self._kept = said


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()
    except OSError:
        return False
    return True
