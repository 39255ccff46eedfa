"""Shows the pages over a store as it is now, to this machine alone: `ccarena leaderboard serve`.

It reads only, unless it is told a folder for submissions. Then whoever has the token may send one by POST, and what is
one is kept there; nothing of it is run, ranked or shown before `ccarena leaderboard verify`.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.leaderboard.submission import LARGEST_BYTES, check
from ccarena.files import write_atomically

__all__ = ["SUBMISSIONS", "TOKEN", "Inbox", "make_server", "serve"]

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Nothing is loaded from elsewhere, and no other page may frame these. Charts set styles, and the pages hold scripts.
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
TOKEN = "CCARENA_TOKEN"
"""The environment variable that has the token; without it each start makes one."""
SHORTEST_TOKEN = 16
MOST_SUBMISSIONS = 1000
"""Kept at a time, so that no sender fills the disk."""
SUBMISSIONS = "submissions"
"""The path that takes them."""


@dataclass
class Inbox:
    """A folder that takes submissions from whoever has the token."""

    folder: Path
    token: str
    _one: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, folder: Path) -> Inbox:
        """With the token that the environment has, else a new one. Raises ConfigError for one that is short."""
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
        if len(token) < SHORTEST_TOKEN or not token.isascii():
            raise ConfigError(f"{TOKEN}: expected at least {SHORTEST_TOKEN} ASCII characters, got {len(token)}")
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, token)

    def admits(self, authorisation: str) -> bool:
        """Whether the header `Authorization` has the token."""
        return hmac.compare_digest(authorisation.encode(), f"Bearer {self.token}".encode())

    def take(self, data: bytes) -> tuple[HTTPStatus, str]:
        """Keeps what is a submission; the answer's status and text. One at a time, as each takes memory."""
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
    """Serve the store `where` until Ctrl-C, and take `submissions` into that folder if it is given.

    `started` is called with the address, and with what takes them. Raises ConfigError.
    """
    inbox = Inbox.of(submissions) if submissions is not None else None
    with make_server(where, port, inbox) as server:
        started(f"http://127.0.0.1:{server.server_address[1]}/", inbox)
        server.serve_forever()


def make_server(where: str, port: int, inbox: Inbox | None = None) -> ThreadingHTTPServer:
    """The server, not yet serving. Raises ConfigError if the store is none, or the port cannot be had."""
    store = Store(where, read_only=True)
    Site(store)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), _handler(store, inbox))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        raise ConfigError(f"--port {port}: cannot listen there: {reason}; choose another, or 0 for any") from error


def _handler(store: Store, inbox: Inbox | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "ccarena"
        timeout = 30  # of a client that says nothing

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_POST(self) -> None:
            if inbox is None:
                self.send_error(HTTPStatus.NOT_IMPLEMENTED, "this server reads only")
                return
            # What was not read would be taken for the next request.
            self.close_connection = True
            size = self.headers.get("Content-Length", "")
            if urlsplit(self.path).path != f"/{SUBMISSIONS}":
                self.send_error(HTTPStatus.NOT_FOUND)
            elif not inbox.admits(self.headers.get("Authorization", "")):
                self.send_error(HTTPStatus.UNAUTHORIZED, "expected Authorization: Bearer TOKEN")
            elif not (size.isascii() and size.isdigit()):
                self.send_error(HTTPStatus.LENGTH_REQUIRED)
            elif int(size[:12]) > LARGEST_BYTES:
                self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LARGEST_BYTES} bytes")
            else:
                status, text = inbox.take(self.rfile.read(int(size)))
                self._send(status, "application/json", json.dumps({"said": text}) + "\n", body=True)

        def _answer(self, body: bool) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/") or "index.html"
            try:
                text = Site(store).render(path)
            except CcarenaError as error:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error).splitlines()[0])
                return
            if text is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self._send(HTTPStatus.OK, TYPES[PurePosixPath(path).suffix], text, body)

        def _send(self, status: HTTPStatus, kind: str, text: str, body: bool) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-cache")
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing of each request."""

    return Handler
