"""Policies that decide in the kernel: loaded, chosen by real programs, replaced while they send, and unloaded."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ccarena import _core, cli
from ccarena.cc_kernel_bridge import bridge, policies
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import MachineError
from ccarena.policies import artifact
from ccarena.policies.bpf_runtime import BpfRuntime
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.published import CONTROLLERS, spec_text
from ccarena.policies.spec import Spec
from ccarena.scenarios.entrants import find_policy
from tests.policies.made import continuous
from tests.privileged.controls import available

pytestmark = pytest.mark.usefixtures("kernel", "free")


@pytest.fixture
def free() -> Iterator[None]:
    """Nothing is loaded, before and afterwards."""
    if policies.stats() or bridge.status() is not None:
        pytest.skip("SKIPPED, policies in the kernel are not tested: something is attached; `ccarena kernel detach`")
    yield
    policies.unload()


def send(sock: socket.socket, server: socket.socket, megabytes: int) -> None:
    """Sends through a connected socket and reads it all."""
    receiver, _ = server.accept()
    with receiver:
        data, got = bytes(1 << 18), 0
        sock.setblocking(False)
        receiver.settimeout(10)
        while got < megabytes << 20:
            try:
                sock.send(data)
            except BlockingIOError:
                pass
            got += len(receiver.recv(1 << 20))


def test_sockets_choose_a_policy_and_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    before, mounts = available(), Path("/proc/mounts").read_text()
    loaded = policies.load("acct")
    assert (loaded.name, loaded.generation, loaded.decisions) == ("acct", 1, 0)
    assert cli.main(["kernel", "status"]) == 0
    said = f"acct: policy acct, number 1, {loaded.sha256[:12]}; all connections; loaded for"
    assert said in capsys.readouterr().out
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"acct")
        sock.connect(server.getsockname())
        send(sock, server, 8)
        (stats,) = policies.stats("acct")
        assert stats.sockets == 1 and stats.decisions > 3 and stats.missed == 0
        assert 0 < stats.ns_per_decision <= stats.ns_most
        assert sum(stats.zones.values()) == pytest.approx(1) and not stats.cases
        # Another one of the same scheme takes over while the socket lives.
        assert policies.load("acct", unrestricted=False).generation == 2
    assert policies.unload("acct") == ["acct"]
    assert available() == before and Path("/proc/mounts").read_text() == mounts
    with pytest.raises(MachineError, match='no policy is loaded as "acct"'):
        policies.unload("acct")


def test_a_bad_policy_leaves_the_good_one_running(tmp_path: Path) -> None:
    policies.load("acct", "mine")
    with pytest.raises(MachineError, match='mine runs a policy of scheme "acct", and this one is for "hyvar"'):
        policies.load("hyvar", "mine")
    image = tmp_path / "acct.image"
    policies.image("acct", image)
    broken = bytearray(image.read_bytes())
    broken[5000] ^= 1
    (tmp_path / "broken.image").write_bytes(broken)
    with pytest.raises(MachineError, match="checksum does not fit"):
        policies.load(str(tmp_path / "broken.image"), "mine")
    (tmp_path / "short.image").write_bytes(image.read_bytes()[:1000])
    with pytest.raises(MachineError, match="cut off"):
        policies.load(str(tmp_path / "short.image"), "mine")
    assert [(p.name, p.generation) for p in policies.stats()] == [("mine", 1)]
    assert policies.load(str(image), "mine").generation == 2
    with pytest.raises(MachineError, match="exists already"):
        policies.load("acct", "cubic")
    bridge.detach()
    assert policies.stats() == []


def test_iperf3_runs_a_policy() -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("SKIPPED, iperf3 under a policy is not tested: it is not installed")
    policies.load("hyvar")
    with socket.create_server(("127.0.0.1", 0)) as free_port:
        port = str(free_port.getsockname()[1])
    server = subprocess.Popen(["iperf3", "-s", "-1", "--forceflush", "-p", port], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            assert server.poll() is None
        command = ["iperf3", "-c", "127.0.0.1", "-p", port, "-C", "hyvar", "-t", "1", "-J"]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout)
    finally:
        server.kill()
        server.wait()
    assert told["end"]["sender_tcp_congestion"] == "hyvar"
    assert policies.stats("hyvar")[0].periods > 0


def unified_cgroup() -> Path:
    """The root of the cgroups of version 2."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    found = [Path(path) for _, path, kind, *_ in mounts if kind == "cgroup2"]
    if not found:
        pytest.skip("SKIPPED, ACCT's TCP option under a policy is not tested: no cgroup2 file system is mounted")
    return found[0]


def test_sockets_of_a_cgroup_carry_the_tcp_option() -> None:
    loaded = policies.load("acct", option=unified_cgroup(), desired_mbps=50)
    assert loaded.option and policies.stats("acct")[0].option
    everything = 3  # ETH_P_ALL
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(everything))
    with wire, socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        wire.bind(("lo", 0))
        wire.settimeout(5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"acct")
        sock.connect(server.getsockname())
        ports = struct.pack("!HH", sock.getsockname()[1], server.getsockname()[1])
        sock.sendall(b"advertised")
        # Ethernet's header is 14 bytes, IPv4's 20: then ports, and options after 20 bytes.
        while not ((packet := wire.recv(1 << 16))[34:38] == ports and packet.endswith(b"advertised")):
            pass
    assert struct.pack("!BBHI", 254, 8, 0xACC7, 50_000) in packet[54:]
    with pytest.raises(MachineError, match="unload"):
        policies.load("acct", option=unified_cgroup())


NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path body; client_max_body_size 0;
  server { listen 127.0.0.1:8080; root .; location /up/ { dav_methods PUT; create_full_put_path on; } }
}
"""
SERVED = """
ip link set lo up
%s
nginx -p . -c nginx.conf &
curl --silent --show-error --fail --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 10 %s
kill $!
wait
"""


CHOSEN_AND_SENT = [
    # By the namespace's default: nginx sends, and curl reads.
    ("sysctl -q -w net.ipv4.tcp_congestion_control=acct", "--output got http://127.0.0.1:8080/data"),
    # By the route: curl sends, and nginx reads.
    ("ip route replace local 127.0.0.1 dev lo table local congctl acct", "-T data http://127.0.0.1:8080/up/got"),
]


def test_programs_without_an_option_for_it_run_a_policy(tmp_path: Path) -> None:
    for program in ("ip", "sysctl", "unshare", "curl", "nginx"):
        if shutil.which(program) is None:
            pytest.skip(f"SKIPPED, curl and nginx under a policy are not tested: {program} is not installed")
    policies.load("acct", unrestricted=True)
    (tmp_path / "nginx.conf").write_text(NGINX)
    data = bytes(range(256)) * (1 << 15)
    (tmp_path / "data").write_bytes(data)
    decisions = 0
    for chosen, sent in CHOSEN_AND_SENT:
        script = SERVED % (chosen, sent)
        subprocess.run(["unshare", "--net", "sh", "-euc", script], cwd=tmp_path, check=True, timeout=30)
        (got,) = tmp_path.rglob("got")
        assert got.read_bytes() == data
        got.unlink()
        before, decisions = decisions, policies.stats("acct")[0].decisions
        assert decisions > before + 5


def of_the_authors_size(name: str) -> artifact.Artifact:
    """The published controller `name` with random weights; Aurora, which has none, with a small network."""
    if name == "aurora":
        return continuous("aurora", 0.05)
    controller, rng = CONTROLLERS[name], np.random.default_rng(1)
    tensors = {
        each.name: abs(rng.normal(0, each.shape[-1] ** -0.5, each.shape)).astype(np.float32)
        if each.name.endswith(".var")
        else rng.normal(0, each.shape[-1] ** -0.5, each.shape).astype(np.float32)
        for each in controller.wanted
    }
    interface = Spec.of(_core.learned(spec_text(name))).interface
    return artifact.Artifact.of(controller.graph(tensors), interface)


@pytest.mark.parametrize("name", ["aurora", "astraea", "indigo"])
def test_published_controllers_decide_in_the_kernel(name: str, tmp_path: Path) -> None:
    policy = tmp_path / f"{name}.safetensors"
    of_the_authors_size(name).save(policy)
    policies.load(str(policy), name)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        sock.connect(server.getsockname())
        receiver, _ = server.accept()
        with receiver:
            for _ in range(50):
                sock.sendall(bytes(1 << 16))
                receiver.recv(1 << 16, socket.MSG_WAITALL)
                time.sleep(0.005)
        (stats,) = policies.stats(name)
        (pacing,) = struct.unpack_from("=Q", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 112), 104)
    assert stats.decisions > 3 and stats.missed == 0
    # The rate of its spec is 1 Gbit/s at most, far below the loopback's.
    assert name != "aurora" or 12_500 <= pacing <= 125_000_000


@pytest.mark.parametrize("name", shipped_policies())
def test_the_verifier_takes_each_shipped_policy_and_bits_are_the_same(name: str) -> None:
    policy = artifact.load(find_policy(name))
    runtime, integer = BpfRuntime(policy), IntegerPolicy.of(policy)
    rows = np.random.default_rng(1).normal(0, 3e6, (100, integer.observation)).astype(np.int64)
    state = np.zeros((100, integer.state), np.int32)
    assert np.array_equal(runtime(rows, state), integer.outputs(rows, np.zeros((100, integer.state), np.int32)))
    assert runtime.spent_ns > 0
