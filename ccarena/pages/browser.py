"""Installed Chrome or Chromium without a window, for drawing pages.

It is controlled by the Chrome DevTools Protocol over two pipes, which needs no package and no port. Messages are JSON,
each ended by a zero byte, on descriptors 3 and 4 (https://chromedevtools.github.io/devtools-protocol,
`--remote-debugging-pipe`). Every answer has a deadline, because a browser sometimes never answers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ccarena.core.files import scratch
from ccarena.errors import MissingDependencyError

__all__ = ["Browser", "find_browser"]

NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
"""Usual names of the program on PATH, and where macOS has it."""
DEADLINE_S = 30.0


def find_browser() -> str | None:
    """Returns the browser's program: BROWSER_PATH (as for kaleido), else the first of `NAMES`."""
    named = os.environ.get("BROWSER_PATH")
    found = [named] if named and Path(named).is_file() else [shutil.which(name) for name in NAMES]
    return next((program for program in found if program), None)


class Browser:
    """Browser with one page. Use it in a `with` block, which ends the program.

    Methods raise MissingDependencyError if it does not start, ends, or does not answer in time.
    """

    def __init__(self) -> None:
        program = find_browser()
        if program is None:
            raise MissingDependencyError(
                "drawing an image needs Chrome or Chromium, and none was found: install one (Debian: apt-get install "
                "chromium), name it in BROWSER_PATH, or write .html, which needs neither"
            )
        self._opened = contextlib.ExitStack()
        folder = self._opened.enter_context(scratch())
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-gpu"]
        options += ["--no-first-run", "--hide-scrollbars", "--disable-extensions", "--disable-background-networking"]
        # The sandbox cannot be had as root, nor /dev/shm in a small container.
        options += ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        # Above 9, so that neither is the 3 or 4 that the other becomes.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]
        quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
        piped = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(ends, (3, 4), strict=True)]
        self._program = program
        self._process: int | None = os.posix_spawn(
            program, [program, *options, "about:blank"], os.environ, file_actions=[*quiet, *piped], setpgroup=0
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.messages: list[str] = []
        """Warnings and errors that pages wrote to the console, and uncaught exceptions."""
        try:
            pages = self.call("Target.getTargets")["targetInfos"]
            target = next(page["targetId"] for page in pages if page["type"] == "page")
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser and all of its processes."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._process = None
        for end in (self._to, self._from):
            os.close(end)
        self._opened.close()

    def open(self, path: Path) -> None:
        """Loads a page from a file and waits until its tables are shown and its charts are drawn."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))"
            ".then(() => window.ccarena?.shown).then(() => window.ccarena?.drawn)"
        )

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression, or the value of its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            what = details.get("exception", {}).get("description", details["text"])
            raise MissingDependencyError(f"the browser could not draw the page: {what}")
        return answer["result"].get("value")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command of the protocol and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        try:
            os.write(self._to, json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise MissingDependencyError(f"the browser {self._program} ended by itself: {error.strerror}") from error
        until = time.monotonic() + DEADLINE_S
        while True:
            answer = self._read(until, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise MissingDependencyError(f"the browser refused {method}: {answer['error'].get('message')}")
                return dict(answer.get("result", {}))
            self._heard(answer)

    def _read(self, until: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0.0))
            more = os.read(self._from, 1 << 20) if ready else b""
            if not more:
                what = "ended by itself" if ready else f"did not answer {method} within {DEADLINE_S:g} s"
                raise MissingDependencyError(f"the browser {self._program} {what}; try again, or write .html")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _heard(self, event: Mapping[str, Any]) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.messages.append(" ".join(str(one.get("value", one.get("description"))) for one in about["args"]))
        elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.messages.append(about["entry"]["text"])
