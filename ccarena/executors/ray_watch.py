"""Message about how to continue if Ray ends this process because its cluster is lost.

If the node that a driver is connected to dies, Ray ends the driver's process at once, without a message. If the head
dies, the driver waits inside Ray, where Python cannot raise. Ray ends the process after
`RAY_gcs_rpc_server_reconnect_timeout_s` with a line of its log.

A small second process therefore holds the message, and a thread ends this process a little before Ray would. If the
head returns before that, nothing happens.
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
"""Share of Ray's own timeout after which this process is ended."""
_KEEPER = """
import sys
last = ""
for last in sys.stdin: pass
if last.strip(): print("\\nerror: " + last.strip(), file=sys.stderr)
"""
"""Program that prints the last line it was given when its input ends, as it does when the parent process ends."""


def watch(address: str, connected: Callable[[], bool]) -> None:
    """Starts the watch over the cluster whose head is at `address` (HOST:PORT). It ends when `connected`
    returns False.
    """
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
        """Checks the head until the process is no longer connected."""
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
        """Ends the watch without a message."""
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
