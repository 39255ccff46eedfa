"""Shows the pages over a store as it is now, to this machine alone, and reads only: `ccarena leaderboard serve`."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store

__all__ = ["make_server", "serve"]

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Nothing is loaded from elsewhere, and no other page may frame these. Charts set styles, and the pages hold scripts.
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


def serve(where: str, port: int, started: Callable[[str], None]) -> None:
    """Serve the store `where` until Ctrl-C; `started` is called with the address. Raises ConfigError."""
    with make_server(where, port) as server:
        started(f"http://127.0.0.1:{server.server_address[1]}/")
        server.serve_forever()


def make_server(where: str, port: int) -> ThreadingHTTPServer:
    """The server, not yet serving. Raises ConfigError if the store is none, or the port cannot be had."""
    store = Store(where, read_only=True)
    Site(store)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), _handler(store))
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--port {port}: cannot listen there: {error}; choose another, or 0 for any") from error


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "ccarena"
        timeout = 30  # of a client that says nothing

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

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
            data = text.encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{TYPES[PurePosixPath(path).suffix]}; charset=utf-8")
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
