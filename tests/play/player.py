"""The page in a browser, as tests drive it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ccarena.pages.browser import Browser
from ccarena.play import assets

DEADLINE_S = 60.0
MESSAGE = "(message.hidden ? '' : message.firstChild.innerText)"


class Player:
    """Page in a browser without a window."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def open(self, address: str = "", page: Path | None = None, wait: str = "ccarena.state().digest !== null") -> None:
        """Opens the page at an address, and waits until it has run what is there."""
        self.browser.call("Page.navigate", url="about:blank")
        self.browser.messages.clear()
        self.browser.call("Page.navigate", url=f"{(page or assets() / 'play.html').resolve().as_uri()}{address}")
        if wait:
            self.until(wait)

    def until(self, condition: str) -> None:
        """Waits until a condition holds in the page."""
        end = time.monotonic() + DEADLINE_S
        while not self.browser.evaluate(f"(window.ccarena || window.ccarenaCell) && !!({condition})"):
            said = self.browser.evaluate(f"document.getElementById('message') ? {MESSAGE} : null")
            assert time.monotonic() < end, f"{condition} did not come; the page says {said!r} {self.browser.messages}"
            time.sleep(0.03)

    def state(self) -> dict[str, Any]:
        """Returns what the page has: its scenario, times, digest and figures."""
        return dict(self.browser.evaluate("ccarena.state()"))

    def do(self, script: str) -> Any:
        """Runs a script in the page."""
        return self.browser.evaluate(f"(() => {{ {script} }})()")

    def click(self, identifier: str) -> None:
        """Clicks the button of this id."""
        self.do(f"document.getElementById('{identifier}').click()")

    def key(self, key: str, code: str = "") -> None:
        """Presses and releases a key."""
        about = {"key": key, "code": code or key, **({"text": key} if len(key) == 1 else {})}
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, **about)

    def turn(self, knob: int, place: int) -> None:
        """Moves a slider to a place, 0 to 1000."""
        self.do(
            f"const knob = document.querySelectorAll('.knob input')[{knob}]; knob.value = {place};"
            "knob.dispatchEvent(new Event('input')); knob.dispatchEvent(new Event('change'));"
        )

    def give(self, *files: Path) -> None:
        """Chooses files in the page's dialog."""
        root = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.call("DOM.querySelector", nodeId=root, selector="#files")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def message(self) -> str:
        """Returns the message that the page shows; empty if there is none."""
        return str(self.browser.evaluate(MESSAGE))
