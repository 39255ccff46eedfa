"""IPv6 through the emulator's shells: every kind of packet, nested, and where there is no IPv6."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Shell = Callable[..., "subprocess.CompletedProcess[str]"]

# A server on this machine over IPv6 that runs the shell `sys.argv[1:]`, whose command talks to it.
SERVE = """
import hashlib, os, socket, subprocess, sys, threading
server = socket.create_server(("::", 0), family=socket.AF_INET6)
echo = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
echo.bind(("::", 0))
def answer():
    while True:
        data, sender = echo.recvfrom(1 << 16)
        echo.sendto(data, sender)
def take():
    while True:
        connection, _ = server.accept()
        digest = hashlib.sha256()
        while piece := connection.recv(1 << 16):
            digest.update(piece)
        connection.sendall(digest.hexdigest().encode())
        connection.close()
for work in (answer, take):
    threading.Thread(target=work, daemon=True).start()
os.environ["PORTS"] = f"{server.getsockname()[1]} {echo.getsockname()[1]}"
sys.exit(subprocess.run(sys.argv[1:], timeout=50).returncode)
"""

# Talks to that server by ICMPv6, UDP (in one packet and in fragments) and TCP, and prints how long an echo took, in ms.
TALK = """
import hashlib, os, socket, struct, sys, time
base, (tcp, udp) = os.environ["CCARENA_BASE6"], map(int, os.environ["PORTS"].split())
icmp = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
icmp.settimeout(5)
icmp.sendto(struct.pack("!BBHHH", 128, 0, 0, 7, 7) + b"ping", (base, 0))
while (answer := icmp.recv(2000))[0] != 129:
    pass
assert answer[8:] == b"ping"
datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
datagrams.settimeout(5)
times = []
for size in (1, 1200, 20000):
    begun = time.monotonic()
    datagrams.sendto(b"x" * size, (base, udp))
    assert datagrams.recv(1 << 16) == b"x" * size
    times.append((time.monotonic() - begun) * 1e3)
stream = socket.create_connection((base, tcp), 5)
data = os.urandom(int(sys.argv[1]))
stream.settimeout(20)
stream.sendall(data)
stream.shutdown(socket.SHUT_WR)
assert stream.recv(100).decode() == hashlib.sha256(data).hexdigest()
print(times[0])
"""


def talk(*words: object, size: int, setup: str = "") -> subprocess.CompletedProcess[str]:
    """Talks to a server outside from inside the shell `words`, in a network namespace of its own after `setup`."""
    line = [sys.executable, "-c", SERVE, *map(str, words), sys.executable, "-c", TALK, str(size)]
    script = f'ip link set lo up; {setup} exec "$@"'
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", *line], capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    """120 Mbit/s."""
    path = tmp_path / "120mbps"
    path.write_text("1\n" * 10)
    return path


def test_every_kind_of_packet_passes(shell: Shell, program: str, fast: Path) -> None:
    # Segments of 64 KB come from the kernel at once; the emulator cuts them, and the digest says whether it is right.
    done = talk(program, "link", fast, fast, "--", size=3_000_000)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\[link\] \d{4,} packets, 0 dropped", done.stderr, re.M), done.stderr


def test_shells_nest(shell: Shell, program: str, fast: Path) -> None:
    joined = ("delay", 10, program, "link", fast, fast, program, "delay", 5)
    # An option of its own makes a shell a process of its own, with a device inside the one around it.
    apart = ("delay", 10, program, "delay", "--lateness-bound=2", 5)
    for words in (joined, apart):
        done = talk(program, *words, size=300_000)
        assert done.returncode == 0, done.stderr
        assert 30 <= float(done.stdout) < 50


def test_without_ipv6_shells_work_and_do_not_claim_it(shell: Shell, program: str, probe: list[str]) -> None:
    says = "import os; print(os.environ.get('CCARENA_BASE6')); os.execvp(os.sys.argv[1], os.sys.argv[1:])"
    setup = "for family in all default; do echo 1 >/proc/sys/net/ipv6/conf/$family/disable_ipv6; done;"
    # What an enclosing shell has set does not hold inside.
    script = f'ip link set lo up; {setup} export CCARENA_BASE6=fd00::1; exec "$@"'
    serve = 'import socket; s = socket.create_server(("0.0.0.0", 9000)); c, _ = s.accept(); c.send(c.recv(1))'
    server = f"{sys.executable} -c '{serve}'"
    line = [program, "delay", "--verbose", f"--far-command={server}", "5", "--", sys.executable, "-c", says,
            sys.executable, "-c", probe[2], "9000"]  # fmt: skip
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", *line], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    base, figures = done.stdout.splitlines()
    assert base == "None"
    assert 10 <= float(figures) < 30
    assert "no IPv6: " in done.stderr


def test_a_scenario_carries_ipv6(shell: Shell, program: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({
        "links": [{"service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10}],
        "flows": [{"scheme": "cubic"}, {"scheme": "cubic", "base_rtt_ms": 50}],
    }))  # fmt: skip
    client = """
import os, socket, time
for flow in range(2):
    s = socket.socket(socket.AF_INET6)
    s.bind((os.environ[f"CCARENA_SENDER6_{flow}"], 0))
    begun = time.monotonic()
    s.connect((os.environ[f"CCARENA_RECEIVER6_{flow}"], 9000))
    print((time.monotonic() - begun) * 1e3)
"""
    server = (
        'import socket; s = socket.create_server(("::", 9000), family=socket.AF_INET6); a = s.accept(); b = s.accept()'
    )
    done = shell(
        "emulate", f"--far-command={sys.executable} -c '{server}'", "s.json", "--", sys.executable, "-c", client
    )
    assert done.returncode == 0, done.stderr
    short, long = map(float, done.stdout.split())
    assert 20 <= short < 35 and 50 <= long < 65


def test_tcp_fills_a_link(shell: Shell, trace: Path) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("SKIPPED, throughput over IPv6 is not tested: iperf3 is not installed (apt install iperf3)")
    client = "iperf3 -6 -c $CCARENA_BASE6 -p 5298 -t 2 -J"
    done = shell("link", trace, trace, "--uplink-queue=droptail", "--uplink-queue-args=packets=100",
                 "--far-command=iperf3 -6 -s -1 -p 5298 >/dev/null", "--", "sh", "-c", client)  # fmt: skip
    assert done.returncode == 0, done.stderr
    received = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6
    assert 10 < received < 12


# This machine's part is a namespace, and so is the world's: nothing of either is changed.
TRANSLATED = """
unshare --net sleep 30 & world=$!
sleep 0.2
ip link set lo up
ip link add here type veth peer name there netns $world
ip address add fd00:1::1/64 dev here nodad
ip link set here up
nsenter --net --target $world sh -c 'ip address add fd00:1::2/64 dev there nodad; ip link set there up'
nsenter --net --target $world "$PYTHON" -c "$SERVER" & server=$!
sleep 0.5
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
CCARENA_BASE6=fd00:1::2 "$PROGRAM" delay 5 "$PYTHON" -c "$CLIENT"
status=$?
kill $world $server
exit $status
"""


def test_the_command_reaches_beyond_this_machine(shell: Shell, program: str) -> None:
    if shutil.which("nft") is None and shutil.which("ip6tables") is None:
        pytest.skip("SKIPPED, translation of IPv6 is not tested: neither nft nor ip6tables (apt install nftables)")
    server = "import socket; s = socket.create_server(('::', 9000), family=socket.AF_INET6); s.accept()[0].send(b'x')"
    client = (
        "import os, socket; assert socket.create_connection((os.environ['CCARENA_BASE6'], 9000), 5).recv(1) == b'x'"
    )
    environment = {**os.environ, "PROGRAM": program, "PYTHON": sys.executable, "SERVER": server, "CLIENT": client}
    line = ["unshare", "--net", "sh", "-c", TRANSLATED]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
