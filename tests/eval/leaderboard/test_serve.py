"""The server beside hostile clients, by raw sockets: every answer has its headers, and nobody holds it up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from ccarena.eval.leaderboard import serve
from ccarena.eval.leaderboard.serve import HEADERS, TOKEN, Inbox, make_server
from ccarena.eval.leaderboard.submission import LARGEST_BYTES

TOKENS = "x" * 32


@pytest.fixture(scope="module")
def server(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadingHTTPServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, TOKENS)
        inbox = Inbox.of(tmp_path_factory.mktemp("inbox"))
        patch.setattr(serve, "SILENT_S", 1.0)
        patch.setattr(serve, "CONNECTION_S", 3.0)
        patch.setattr(serve, "MOST_CONNECTIONS", 8)
        with make_server(str(small), 0, inbox) as running:
            thread = threading.Thread(target=running.serve_forever, args=(0.1,), daemon=True)
            thread.start()
            yield running
            running.shutdown()


def said(server: ThreadingHTTPServer, request: bytes) -> bytes:
    """The whole answer to these bytes."""
    with socket.create_connection(server.server_address[:2], timeout=10) as client:
        client.sendall(request)
        answer = b""
        while part := client.recv(65536):
            answer += part
    return answer


def status(answer: bytes) -> int:
    """Returns the status of an answer, and checks that it has all headers."""
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    for name, value in HEADERS.items():
        assert f"{name}: {value}" in head, name
    assert "frame-ancestors 'none'" in head
    return int(head.split()[1])


def get(target: str, *headers: str, host: str | None = "127.0.0.1", version: str = "1.1") -> bytes:
    lines = [f"GET {target} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(*headers: str, body: bytes = b"") -> bytes:
    lines = ["POST /submissions HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKENS}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((), 411),
        (("Content-Length: -1",), 400),
        (("Content-Length: +1",), 400),
        (("Content-Length: 1", "Content-Length: 2"), 400),
        (("Content-Length: 1", "Content-Length: 1"), 400),
        (("Content-Length: 1, 1",), 400),
        (("Content-Length: 0x10",), 400),
        (("Content-Length: 1e3",), 400),
        (("Content-Length: \xb2",), 400),
        (("Content-Length: 1_0",), 400),
        (("Content-Length:",), 400),
        (("Content-Length: 1", "Transfer-Encoding: chunked"), 400),
        (("Transfer-Encoding: identity",), 400),
        ((f"Content-Length: {LARGEST_BYTES + 1}",), 413),
        ((f"Content-Length: {'9' * 5000}",), 413),
        ((f"Content-Length: {'0' * 5000}2",), 422),
        (("Content-Length: 2",), 422),
    ],
)
def test_a_length_is_read_once_and_has_a_bound(
    server: ThreadingHTTPServer, headers: tuple[str, ...], expected: int
) -> None:
    assert status(said(server, post(*headers, body=b"{}"))) == expected


def test_a_page_is_asked_for_with_the_same_lengths(server: ThreadingHTTPServer) -> None:
    assert status(said(server, get("/", "Content-Length: 1", "Content-Length: 2"))) == 400


@pytest.mark.parametrize(
    "target",
    [
        *("http://[", "http://127.0.0.1/", "*", "index.html", "/%ff", "/%00", "/a%0d%0aSet-Cookie:x", "/\xe9"),
        *("//[", "/%c3%28", "?x", "#x"),
    ],
)
def test_a_target_that_is_no_path_is_answered(server: ThreadingHTTPServer, target: str) -> None:
    answer = said(server, get(target))
    assert status(answer) in ((404,) if target == "//[" else (400,)) and b"Set-Cookie" not in answer.split(b"{")[0]


@pytest.mark.parametrize(
    "target", [f"/entrant/{'9' * 5000}.html", "/entrant/\u0661.html", "/data/place-1.js/..", "/.."]
)
def test_a_path_that_is_no_page_is_answered(server: ThreadingHTTPServer, target: str) -> None:
    request = get(target.encode("utf-8").decode("latin-1"))
    assert status(said(server, request)) in (400, 404)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", 200), ("localhost:9999", 200), ("[::1]:8311", 200), ("LOCALHOST", 200)),
        *(("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost@evil.example", 421), ("", 421)),
        *((None, 400), ("127.0.0.1\r\nHost: evil.example", 400), ("10.0.0.1", 421), ("localhost:x", 421)),
    ],
)
def test_another_host_is_refused(server: ThreadingHTTPServer, host: str | None, expected: int) -> None:
    """A page of a stranger, whose name points here, reads nothing and sends nothing."""
    assert status(said(server, get("/index.html", host=host))) == expected


def test_a_client_of_before_hosts_is_served(server: ThreadingHTTPServer) -> None:
    assert status(said(server, get("/index.html", host=None, version="1.0"))) == 200


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_answered_with_the_same_headers(server: ThreadingHTTPServer, request_: bytes) -> None:
    answer = said(server, request_)
    if answer:  # what was not read may reset the connection
        assert status(answer) >= 400


def test_clients_that_are_slow_are_left(server: ThreadingHTTPServer) -> None:
    """One that says nothing after a second, one that says a byte now and then after three; a body that never comes."""
    address = server.server_address[:2]
    with (
        socket.create_connection(address, timeout=10) as silent,
        socket.create_connection(address, timeout=10) as trickling,
        socket.create_connection(address, timeout=10) as waiting,
    ):
        began_s = time.monotonic()
        waiting.sendall(post("Content-Length: 1000", body=b"{"))
        ended_s: dict[socket.socket, float] = {}
        while len(ended_s) < 3 and time.monotonic() - began_s < 9:
            for client in {silent, trickling, waiting} - ended_s.keys():
                try:
                    if client is trickling:
                        client.sendall(b"G")
                    client.settimeout(0.1)
                    if client.recv(1) == b"":
                        ended_s[client] = time.monotonic() - began_s
                except TimeoutError:
                    continue
                except OSError:
                    ended_s[client] = time.monotonic() - began_s
        assert set(ended_s) == {silent, trickling, waiting}
        assert ended_s[trickling] >= 2.5
    assert status(said(server, get("/index.html"))) == 200


def test_more_connections_than_it_takes_are_closed_and_it_goes_on(server: ThreadingHTTPServer) -> None:
    clients = [socket.create_connection(server.server_address[:2], timeout=10) for _ in range(20)]
    try:
        refused = 0
        for client in clients[8:]:
            try:
                refused += client.recv(1) == b""
            except OSError:
                refused += 1
        assert refused >= 10
    finally:
        for client in clients:
            client.close()
    deadline_s = time.monotonic() + 8
    while not (answer := said(server, get("/index.html"))):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert status(answer) == 200
