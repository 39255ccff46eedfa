"""The kernel bridge under kill -9: attach, traffic, kills in random order, detach, and nothing may be left.

    python -m bench.soak --rounds 1000 --seed 1

A round attaches the congestion controls, starts the bridge daemon and clients that send over the loopback, and then,
in random order, kills the daemon, a loader in the middle of its work and some of the clients, starts others, and
detaches. It fails if a flow made no progress for longer than its retransmission timeout, if anything of ours is left in
the kernel, or if the daemon's memory grows from round to round. `--churn N` opens N short connections under one daemon
instead.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ccarena.core import programs

PINS = Path("/run/ccarena/bpf")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
DRIVERS = (
    *(("--scheme", name) for name in ("vegas", "cubic", "hercules", "copa", "wcc-ai")),
    ("--scheme", "hyvar", "--action", "-0.5"),
)
CLIENTS = 4
CHUNK_BYTES = 4096
PERIOD_S = 0.005
GROWTH_PAGES = 256
"""The daemon's memory may differ so much between the beginning and the end: 1 MiB, as an allocator may keep."""


class Broken(Exception):
    """What must not happen."""


@dataclass
class Outcome:
    """What the rounds were like."""

    rounds: int = 0
    flows: int = 0
    daemons_killed: int = 0
    loaders_killed: int = 0
    clients_killed: int = 0
    longest_stall_ms: float = 0.0
    daemon_pages: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class TcpInfo:
    """A few of `struct tcp_info` (linux/tcp.h)."""

    rto_ms: float
    outstanding: bool
    acked_bytes: int

    @classmethod
    def of(cls, sock: socket.socket) -> TcpInfo:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 148)
        (rto_us,) = struct.unpack_from("<I", raw, 8)
        (unacked,) = struct.unpack_from("<I", raw, 24)
        (acked,) = struct.unpack_from("<Q", raw, 120)
        (notsent,) = struct.unpack_from("<I", raw, 144)
        return cls(rto_us / 1e3, bool(unacked or notsent), acked)


def client(address: tuple[str, int], report: int, stop: int) -> None:
    """Sends a little every few milliseconds until `stop` is closed, then reports how long it was stuck, and why."""
    sock = socket.socket()
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ccarena")
    except FileNotFoundError:
        pass  # detached already
    sock.connect(address)
    sock.setblocking(False)
    chunk, last, since = bytes(CHUNK_BYTES), -1, 0.0
    worst_ms, excess_ms, late_ms = 0.0, float("-inf"), 0.0
    os.set_blocking(stop, False)
    while True:
        begun = time.monotonic()
        try:
            sock.send(chunk)
        except BlockingIOError:
            pass
        info = TcpInfo.of(sock)
        now = time.monotonic()
        if info.acked_bytes != last or not info.outstanding:
            last, since = info.acked_bytes, now
        stuck_ms = (now - since) * 1e3
        worst_ms = max(worst_ms, stuck_ms)
        excess_ms = max(excess_ms, stuck_ms - info.rto_ms)
        try:
            if os.read(stop, 1) == b"":
                break
        except BlockingIOError:
            pass
        time.sleep(PERIOD_S)
        late_ms = max(late_ms, (time.monotonic() - begun - PERIOD_S) * 1e3)
    line = json.dumps({"stall_ms": worst_ms, "excess_ms": excess_ms, "late_ms": late_ms, "acked": last})
    os.write(report, line.encode() + b"\n")


class Sink:
    """Reads what clients send, in a thread."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        # A reader that the machine leaves waiting is not to close the window.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.address: tuple[str, int] = self.listener.getsockname()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self.listener:
                        selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                        continue
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    try:
                        more = connection.recv(1 << 18)
                    except ConnectionError:
                        more = b""
                    if not more:
                        selector.unregister(connection)
                        connection.close()


class Clients:
    """Processes that send."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.reports, self._write = os.pipe()
        self._stopped, self._stop = os.pipe()
        self.pids: list[int] = []

    def start(self) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(self._stop)
                client(self.address, self._write, self._stopped)
                code = 0
            finally:
                os._exit(code)
        self.pids.append(pid)

    def kill(self, pid: int) -> None:
        self.pids.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def finish(self) -> list[dict[str, float]]:
        """Ends all, and what they report."""
        for end in (self._stop, self._stopped, self._write):
            os.close(end)
        for pid in self.pids:
            _, status = os.waitpid(pid, 0)
            if status != 0:
                raise Broken(f"a client ended with status {status}")
        with os.fdopen(self.reports) as lines:
            reports = [json.loads(line) for line in lines]
        if len(reports) != len(self.pids):
            raise Broken(f"{len(self.pids)} clients made {len(reports)} reports")
        return reports


class Bridge:
    """The program, and the kernel as it was before."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.started: list[subprocess.Popen[bytes]] = []
        self.before = self.objects()

    def objects(self) -> dict[str, int]:
        """How many BPF programs, maps and links the machine has."""
        said = subprocess.run([self.program, "check", "--objects"], check=True, capture_output=True, text=True).stdout
        return {name: int(number) for name, number in (word.split("=") for word in said.split())}

    def run(self, *words: str) -> None:
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"{' '.join(words)}: {done.stderr.strip()}")

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([self.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started = [old for old in self.started if old.poll() is None] + [process]
        return process

    def kill_a_loader(self, after_s: float) -> None:
        """One that is attaching, or is about to find that somebody has."""
        loader = self.start("attach")
        time.sleep(after_s)
        kill(loader)

    def assert_nothing_left(self) -> None:
        """The kernel frees what nobody holds a little later, and other programs' objects come and go."""
        left: dict[str, int] = {}
        for _ in range(2400):
            now = self.objects()
            left = {name: now[name] - count for name, count in self.before.items() if now[name] > count}
            if not left:
                break
            time.sleep(0.05)
        names = [name for name in AVAILABLE.read_text().split() if name in ("ccarena", "wcc_ai", "wcc_md")]
        if left or names or PINS.exists():
            raise Broken(f"left behind: {left or names or PINS}")


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def pages(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


@contextmanager
def detached(bridge: Bridge) -> Iterator[None]:
    """Leaves nothing attached and nothing running, whatever fails."""
    try:
        yield
    finally:
        for process in bridge.started:
            kill(process)
        if PINS.exists():
            subprocess.run([bridge.program, "detach"], check=False, capture_output=True)


def a_round(bridge: Bridge, sink: Sink, dice: random.Random, outcome: Outcome) -> None:
    if dice.random() < 0.5:
        bridge.kill_a_loader(dice.uniform(0.0, 0.03))
        outcome.loaders_killed += 1
    if not (PINS / "attached").exists():
        bridge.run("attach")
    driver = dice.choice(DRIVERS)
    daemon = bridge.start("daemon", *driver)
    clients = Clients(sink.address)
    for _ in range(CLIENTS):
        clients.start()
    time.sleep(dice.uniform(0.05, 0.15))

    def kill_the_daemon() -> None:
        nonlocal daemon
        kill(daemon)
        outcome.daemons_killed += 1
        if dice.random() < 0.7:
            daemon = bridge.start("daemon", *driver)

    def kill_clients() -> None:
        for pid in dice.sample(clients.pids, CLIENTS // 2):
            clients.kill(pid)
            outcome.clients_killed += 1
        clients.start()

    def kill_another_loader() -> None:
        bridge.kill_a_loader(dice.uniform(0.0, 0.01))
        outcome.loaders_killed += 1

    steps: list[Callable[[], None]] = [kill_the_daemon, kill_clients, kill_another_loader, lambda: bridge.run("detach")]
    dice.shuffle(steps)
    for step in steps:
        step()
        time.sleep(dice.uniform(0.0, 0.1))
        if step is kill_another_loader and not PINS.exists():
            continue
    # Longer than the deadline after which CUBIC takes over, and than a retransmission timeout.
    time.sleep(0.5)
    if daemon.poll() is None:
        outcome.daemon_pages.append(pages(daemon.pid))
    for report in clients.finish():
        outcome.flows += 1
        outcome.longest_stall_ms = max(outcome.longest_stall_ms, report["stall_ms"])
        # A machine that left the client itself waiting may have left the kernel's timers waiting too.
        if report["excess_ms"] > 10 + report["late_ms"]:
            raise Broken(f"a flow under {' '.join(driver)} was stuck beyond its retransmission timeout: {report}")
    kill(daemon)
    # A loader that was killed late has attached after all, or in part, or not at all.
    subprocess.run([bridge.program, "detach"], check=False, capture_output=True)
    bridge.assert_nothing_left()
    outcome.rounds += 1


def soak(rounds: int, seed: int, say: Callable[[str], None]) -> Outcome:
    """Raises Broken."""
    dice, outcome = random.Random(seed), Outcome()
    bridge, sink = Bridge(programs.find("ccarena-kernel")), Sink()
    with detached(bridge):
        for number in range(rounds):
            try:
                a_round(bridge, sink, dice, outcome)
            except Broken as broken:
                raise Broken(f"round {number + 1}: {broken}") from broken
            if (number + 1) % 50 == 0:
                say(f"{number + 1} rounds, longest stall {outcome.longest_stall_ms:.0f} ms")
    early, late = outcome.daemon_pages[: len(outcome.daemon_pages) // 2], outcome.daemon_pages[-20:]
    if early and statistics.median(late) > statistics.median(early) + GROWTH_PAGES:
        raise Broken(f"the daemon's memory grew from {statistics.median(early)} to {statistics.median(late)} pages")
    return outcome


def churn(connections: int, seed: int) -> tuple[int, int]:
    """Many short connections under one daemon: its resident pages after a third, and at the end. Raises Broken."""
    bridge, sink = Bridge(programs.find("ccarena-kernel")), Sink()
    with detached(bridge):
        bridge.run("attach")
        daemon = bridge.start("daemon", *random.Random(seed).choice(DRIVERS))
        time.sleep(0.3)
        after_a_third = 0
        for number in range(connections):
            with socket.socket() as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"ccarena")
                # No TIME_WAIT, which would use the ports up.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.connect(sink.address)
                sock.sendall(bytes(3 * CHUNK_BYTES))
            if number == connections // 3:
                time.sleep(1.2)
                after_a_third = pages(daemon.pid)
        # The daemon looks once per second whether sockets have gone unheard.
        time.sleep(2.5)
        if daemon.poll() is not None:
            raise Broken(f"the daemon ended with code {daemon.returncode}")
        at_the_end = pages(daemon.pid)
        kill(daemon)
        bridge.run("detach")
        bridge.assert_nothing_left()
    if at_the_end > after_a_third + GROWTH_PAGES:
        raise Broken(f"the daemon's memory grew from {after_a_third} to {at_the_end} pages")
    return after_a_third, at_the_end


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="The kernel bridge under kill -9.")
    parser.add_argument("--rounds", type=int, default=1000, metavar="N")
    parser.add_argument("--churn", type=int, metavar="N", help="N short connections under one daemon instead")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("error: loading BPF programs takes root; run it with sudo", file=sys.stderr)
        return 2
    if PINS.exists():
        print("error: something is attached; `ccarena kernel detach` first", file=sys.stderr)
        return 2
    begun = time.monotonic()
    try:
        if args.churn:
            third, end = churn(args.churn, args.seed)
            print(f"{args.churn} connections; the daemon's pages after a third {third}, at the end {end}")
            return 0
        outcome = soak(args.rounds, args.seed, lambda line: print(line, flush=True))
    except Broken as broken:
        print(f"error: {broken}", file=sys.stderr)
        return 1
    sizes = outcome.daemon_pages
    print(
        f"{outcome.rounds} rounds in {time.monotonic() - begun:.0f} s: {outcome.daemons_killed} daemons, "
        f"{outcome.loaders_killed} loaders and {outcome.clients_killed} clients killed; {outcome.flows} flows, longest "
        f"stall {outcome.longest_stall_ms:.0f} ms; daemon {min(sizes, default=0)} to {max(sizes, default=0)} pages; "
        "nothing left"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
