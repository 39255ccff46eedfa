"""Attaching to the whole machine: names that sockets can take, weights, and a machine as it was before."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccarena.cc_kernel_bridge import bridge
from ccarena.errors import MachineError
from tests.privileged.controls import available
from tests.privileged.test_kernel_policies import unified_cgroup

pytestmark = pytest.mark.usefixtures("kernel", "free")

SYSCTL = Path("/proc/sys/net/ipv4")


@pytest.fixture
def free() -> Iterator[None]:
    """Nothing is attached, before and afterwards."""
    if bridge.status() is not None:
        pytest.skip("SKIPPED, attaching is not tested: something is attached; `ccarena kernel detach` first")
    yield
    if bridge.status() is not None:
        bridge.detach()


def chosen(sock: socket.socket, name: str) -> str:
    """What a socket has after it asked for `name`."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def test_sockets_take_the_names_and_detaching_restores_the_machine() -> None:
    before, mounts = available(), Path("/proc/mounts").read_text()
    default = (SYSCTL / "tcp_congestion_control").read_text()
    with bridge.attached() as status:
        assert {"ccarena", "wcc_ai", "wcc_md", "multcp", "ewtcp"} == set(status.names)
        assert set(status.names) <= available() and not status.option
        assert bridge.status() is not None, "it outlives the command"
        for name in status.names:
            with socket.socket() as sock:
                assert chosen(sock, name) == name
        with pytest.raises(MachineError, match="already attached"):
            bridge.attach()
    assert bridge.status() is None and not available() & set(status.names)
    assert available() - before == set() and Path("/proc/mounts").read_text() == mounts
    assert (SYSCTL / "tcp_congestion_control").read_text() == default
    with pytest.raises(MachineError, match="nothing is attached"):
        bridge.detach()
    with socket.socket() as sock, pytest.raises(OSError):
        chosen(sock, "wcc_ai")


def test_a_transfer_without_a_daemon_is_not_stalled() -> None:
    """The bridge's congestion control falls back to CUBIC."""
    data = bytes(1 << 20)
    with bridge.attached(), socket.create_server(("127.0.0.1", 0)) as server:
        with socket.socket() as sender:
            assert chosen(sender, "ccarena") == "ccarena"
            sender.connect(server.getsockname())
            receiver, _ = server.accept()
            with receiver:
                receiver.settimeout(10)
                sent, got = 0, 0
                sender.setblocking(False)
                while got < 4 * len(data):
                    try:
                        sent += sender.send(data)
                    except BlockingIOError:
                        pass
                    got += len(receiver.recv(1 << 20))
        assert got >= 4 * len(data)


def test_weights_of_sockets_and_marks() -> None:
    with pytest.raises(MachineError, match="nothing is attached"):
        bridge.set_weight(2.0)
    with bridge.attached(), socket.socket() as sock:
        chosen(sock, "wcc_ai")
        for weight in (3.0, 0.75, None):
            bridge.set_weight(weight, of=sock)
            bridge.set_weight(weight, mark=5)
            bridge.set_weight(weight, cgroup=unified_cgroup())
            bridge.set_weight(weight)
    with bridge.attached(weighted=False) as status, pytest.raises(MachineError, match="weighted"):
        assert set(status.names) == {"ccarena"}
        bridge.set_weight(2.0)
