"""Command `ccarena leaderboard serve`: shows the pages over the current store, to this machine alone.

It only reads, unless it has a folder for submissions. Then anyone with the token may send one by POST, and valid
submissions are kept there. No submission is run, ranked or shown before `ccarena leaderboard verify`.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from ccarena.core.files import write_atomically
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.leaderboard.submission import LARGEST_BYTES, check

__all__ = ["SUBMISSIONS", "TOKEN", "Inbox", "make_server", "serve"]

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Nothing is loaded from elsewhere, and no page may frame these. Charts set styles, and the pages hold scripts; the
# simulator is WebAssembly in a worker that a page makes.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer, errors included."""
SILENT_S, CONNECTION_S = 10.0, 120.0
"""Longest silence of a client, and longest connection, s: a page over a slow tunnel takes a minute."""
MOST_CONNECTIONS = 64
"""Most connections at a time; each has a thread."""
TOKEN = "CCARENA_TOKEN"
"""Environment variable with the token; without it, each start makes one."""
SHORTEST_TOKEN = 16
MOST_SUBMISSIONS = 1000
"""Most submissions that are kept at a time, so that no sender fills the disk."""
SUBMISSIONS = "submissions"
"""Path of the address that takes submissions."""
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
_DIGITS = re.compile(r"[0-9]+")


@dataclass
class Inbox:
    """Inbox for submissions from anyone with the token."""

    folder: Path
    token: str
    _one: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, folder: Path) -> Inbox:
        """Returns an inbox with the environment's token, else a new one. Raises ConfigError for a short token."""
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
        if len(token) < SHORTEST_TOKEN or not token.isascii():
            raise ConfigError(f"{TOKEN}: expected at least {SHORTEST_TOKEN} ASCII characters, got {len(token)}")
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, token)

    def admits(self, authorisation: str) -> bool:
        """Returns whether the header `Authorization` has the token."""
        return hmac.compare_digest(authorisation.encode(), f"Bearer {self.token}".encode())

    def take(self, data: bytes) -> tuple[HTTPStatus, str]:
        """Keeps a valid submission; returns the answer's status and text. One at a time, as each takes memory."""
        with self._one:
            try:
                submission = check(data.decode("utf-8"))
            except (CcarenaError, UnicodeDecodeError) as error:
                return HTTPStatus.UNPROCESSABLE_ENTITY, str(error)
            file = self.folder / f"{submission.name}.submission.json"
            if file.exists():
                return HTTPStatus.CONFLICT, f"{submission.name}: a submission of this name is here; choose another"
            if sum(1 for _ in self.folder.glob("*.submission.json")) >= MOST_SUBMISSIONS:
                return HTTPStatus.INSUFFICIENT_STORAGE, f"{MOST_SUBMISSIONS} submissions wait already; try later"
            write_atomically(file, data.decode("utf-8"))
            return HTTPStatus.CREATED, f"{submission.name}: {len(submission.claims)} claims, to be verified"


def serve(where: str, port: int, started: Callable[[str, Inbox | None], None], submissions: Path | None = None) -> None:
    """Serves the store `where` until Ctrl-C, and takes submissions into the folder `submissions` if it is given.

    `started` is called with the address and the inbox. Raises ConfigError.
    """
    inbox = Inbox.of(submissions) if submissions is not None else None
    with make_server(where, port, inbox) as server:
        started(f"http://127.0.0.1:{server.server_address[1]}/", inbox)
        server.serve_forever()


def make_server(where: str, port: int, inbox: Inbox | None = None) -> ThreadingHTTPServer:
    """Returns the server, not yet serving. Raises ConfigError if the store is none, or the port is not available."""
    store = Store(where, read_only=True)
    Site(store)
    try:
        return _Server(("127.0.0.1", port), _handler(store, inbox))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        raise ConfigError(f"--port {port}: cannot listen there: {reason}; choose another, or 0 for any") from error


class _Server(ThreadingHTTPServer):
    """Server that ends long connections and limits their number."""

    def __init__(self, *args: Any) -> None:
        self._since_s: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._since_s) >= MOST_CONNECTIONS
            if not full:
                self._since_s[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        # A client that sends a byte now and then is never silent: its connection is ended from here.
        with self._lock:
            for request, since_s in self._since_s.items():
                if time.monotonic() - since_s > CONNECTION_S:
                    with suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that went away, and prints any other failure in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"a request failed: {type(error).__name__}: {error}", file=sys.stderr)


class _Refused(Exception):
    """Request that is answered with an error."""

    def __init__(self, status: HTTPStatus, said: str = "") -> None:
        super().__init__(said or status.description or status.phrase)
        self.status = status


def _handler(store: Store, inbox: Inbox | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "ccarena", ""
        timeout = SILENT_S
        # Whoever names no version gets headers, too.
        default_request_version = "HTTP/1.0"

        def do_GET(self) -> None:
            self._perform(self._page)

        def do_HEAD(self) -> None:
            self._perform(self._page)

        def do_POST(self) -> None:
            # What was not read would be taken for the next request.
            self.close_connection = True
            self._perform(self._submission)

        def _perform(self, answer: Callable[[str, int], None]) -> None:
            try:
                _check_host(self.headers.get_all("Host", []), self.request_version)
                size = _length(self.headers)
                answer(_path(self.path), size)
            except _Refused as refused:
                self.send_error(refused.status, str(refused))

        def _page(self, path: str, _size: int) -> None:
            path = path.lstrip("/") or "index.html"
            try:
                text = Site(store).render(path)
            except CcarenaError as error:
                raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error).splitlines()[0]) from error
            if text is None:
                raise _Refused(HTTPStatus.NOT_FOUND)
            self._send(HTTPStatus.OK, TYPES[PurePosixPath(path).suffix], text)

        def _submission(self, path: str, size: int) -> None:
            if inbox is None:
                raise _Refused(HTTPStatus.NOT_IMPLEMENTED, "this server reads only")
            if path != f"/{SUBMISSIONS}":
                raise _Refused(HTTPStatus.NOT_FOUND)
            if not inbox.admits(self.headers.get("Authorization", "")):
                raise _Refused(HTTPStatus.UNAUTHORIZED, "expected Authorization: Bearer TOKEN")
            if not size:
                raise _Refused(HTTPStatus.LENGTH_REQUIRED)
            data = self.rfile.read(size)
            if len(data) < size:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"expected {size} bytes, got {len(data)}")
            status, text = inbox.take(data)
            self._send(status, "application/json", json.dumps({"said": text}) + "\n")

        def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
            data = text.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Answers with an error; the base class calls it, too, for what is no request."""
            status = HTTPStatus(code)
            self.close_connection = True
            self._send(status, "application/json", json.dumps({"said": message or status.phrase}) + "\n")

        def end_headers(self) -> None:
            """Ends the headers of an answer, whichever it is, with those that all have."""
            for name, value in HEADERS.items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing of each request."""

    return Handler


def _check_host(hosts: Sequence[str], version: str) -> None:
    """Raises _Refused for a request to another host name.

    A stranger's page may have its own name point here (DNS rebinding); its browser then sends that name. The port may
    differ: that of a tunnel.
    """
    if not hosts and version == "HTTP/1.0":
        return
    if len(hosts) != 1:
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected one header Host")
    if not _HOST.fullmatch(hosts[0].strip().lower()):
        raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "expected this machine as Host: 127.0.0.1 or localhost")


def _length(headers: Message) -> int:
    """Returns the number of bytes that follow the headers. Raises _Refused."""
    if headers.get_all("Transfer-Encoding"):
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected Content-Length, and no Transfer-Encoding")
    given = headers.get_all("Content-Length", [])
    if not given:
        return 0
    # No sign, no space within, no digits of other scripts; a list of equal lengths is refused, too (RFC 9112, 6.3).
    if len(given) > 1 or not _DIGITS.fullmatch(given[0].strip(" \t")):
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected one Content-Length of decimal digits")
    digits = given[0].strip(" \t").lstrip("0")
    if len(digits) > len(str(LARGEST_BYTES)) or int(digits or "0") > LARGEST_BYTES:
        raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LARGEST_BYTES} bytes")
    return int(digits or "0")


def _path(target: str) -> str:
    """Returns the decoded path of a request. Raises _Refused if it has none."""
    path = target.partition("#")[0].partition("?")[0]
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        decoded = ""
    if not path.startswith("/") or not path.isascii() or not decoded.isprintable() or not decoded:
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected a path such as /index.html")
    return decoded
