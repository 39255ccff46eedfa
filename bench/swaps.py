"""Swaps, rollbacks, moved shares and kill -9 of the loader, under connections that send all the while.

    python -m bench.swaps --rounds 1000

A connection is stalled if nothing arrives over it for longer than TCP's least retransmission timeout, while connections
of the kernel's own CUBIC beside it go on: a machine that is late is late for both. Fails if a connection is lost or
stalled, or if the program reports an error.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from ccarena.cc_kernel_bridge import bridge, policies
from ccarena.core.programs import find
from ccarena.errors import MachineError

NAME = "swapped"
RTO_S = 0.2
"""Linux's least retransmission timeout (TCP_RTO_MIN)."""
CONNECTIONS = 8
CONTROLS = 2
CHUNK = bytes(8192)
PAUSE_S = 0.004


@dataclass
class Traffic:
    """Connections under a policy and under CUBIC, on the loopback, that send a chunk every few milliseconds."""

    stop: threading.Event = field(default_factory=threading.Event)
    pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    arrivals: list[list[float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def open(self, controls: Sequence[str]) -> None:
        """Opens a connection for each congestion control."""
        with socket.create_server(("127.0.0.1", 0), backlog=len(controls)) as server:
            for name in controls:
                sender = socket.socket()
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                sender.connect(server.getsockname())
                receiver, _ = server.accept()
                for end in (sender, receiver):
                    end.setblocking(False)
                self.pairs.append((sender, receiver))
                self.arrivals.append([time.monotonic()])

    def run(self) -> None:
        """Sends and reads until `stop` is set."""
        selector = selectors.DefaultSelector()
        for k, (_, receiver) in enumerate(self.pairs):
            selector.register(receiver, selectors.EVENT_READ, k)
        due_s = time.monotonic()
        while not self.stop.is_set():
            now_s = time.monotonic()
            if now_s >= due_s:
                due_s = now_s + PAUSE_S
                for k, (sender, _) in enumerate(self.pairs):
                    self._attempt(k, partial(sender.send, CHUNK))
            for key, _ in selector.select(max(0.0, due_s - time.monotonic())):
                k = key.data
                if self._attempt(k, partial(self._read, k)):
                    self.arrivals[k].append(time.monotonic())

    def _attempt(self, k: int, what: Callable[[], int]) -> int:
        try:
            return what()
        except BlockingIOError:
            return 0
        except OSError as error:
            self.lost.append(f"connection {k}: {error}")
            self.stop.set()
            return 0

    def _read(self, k: int) -> int:
        data = self.pairs[k][1].recv(1 << 20)
        if not data:
            raise ConnectionError("closed by the other end")
        return len(data)

    def end(self) -> None:
        """Ends all arrivals now, so that a connection which stays silent until the end is stalled."""
        now_s = time.monotonic()
        for each in self.arrivals:
            each.append(now_s)

    def close(self) -> None:
        for pair in self.pairs:
            for end in pair:
                end.close()


def stalls(arrivals: Sequence[float], beside: Sequence[float]) -> tuple[list[float], float]:
    """Returns the gaps of more than RTO_S within which no gap `beside` is half as long, and the longest gap of all."""
    found, longest = [], 0.0
    for before, after in itertools.pairwise(arrivals):
        gap = after - before
        longest = max(longest, gap)
        if gap > RTO_S:
            within = [before, *(at for at in beside if before <= at <= after), after]
            if max(b - a for a, b in itertools.pairwise(within)) < gap / 2:
                found.append(gap)
    return found, longest


def kill_loader(rng: random.Random) -> None:
    """Starts the replacement of the policy, and kills it somewhere on the way."""
    words = [str(find("ccarena-kernel")), "load", str(policies.policy_file("acct")), "--as", NAME]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0, 0.02))
    child.send_signal(signal.SIGKILL)
    child.wait()


def steps(rng: random.Random) -> dict[str, Callable[[], object]]:
    """Everything that an operator may do to a policy that has connections, and a kill."""
    return {
        "swap": lambda: policies.load("acct", NAME, desired_mbps=rng.choice([1000, 5000, 10000]), guard=0),
        "rollback": lambda: policies.rollback(NAME),
        "share": lambda: policies.canary(NAME, rng.choice([0, 0.5, 1]), guard=rng.choice([0, 8])),
        "shadow": lambda: policies.load("acct", NAME, shadow=True),
        "kill": lambda: kill_loader(rng),
    }


def swaps(rounds: int, seed: int = 1) -> int:
    """Runs so many steps at random; returns the number of faults, which are printed."""
    rng, done = random.Random(seed), dict.fromkeys(steps(random.Random()), 0)
    policies.load("acct", NAME)
    policies.load("acct", NAME)
    traffic = Traffic()
    traffic.open([NAME] * CONNECTIONS + ["cubic"] * CONTROLS)
    thread = threading.Thread(target=traffic.run)
    thread.start()
    try:
        todo = steps(rng)
        for _ in range(rounds):
            step = rng.choice(list(todo))
            todo[step]()
            done[step] += 1
            time.sleep(rng.uniform(0, 0.03))
            if traffic.lost:
                break
    finally:
        time.sleep(2 * RTO_S)
        traffic.stop.set()
        thread.join()
        traffic.end()
        (loaded,) = policies.stats(NAME)
        traffic.close()
        with suppress(MachineError):
            policies.unload(NAME)
    beside = sorted(at for each in traffic.arrivals[CONNECTIONS:] for at in each)
    gaps = [stalls(each, beside) for each in traffic.arrivals[:CONNECTIONS]]
    stalled = [gap for found, _ in gaps for gap in found]
    own = max(longest for _, longest in gaps)
    cubic = max(stalls(each, beside)[1] for each in traffic.arrivals[CONNECTIONS:])
    print(f"{sum(done.values())} steps: " + ", ".join(f"{count} {step}" for step, count in done.items()))
    print(
        f"{CONNECTIONS} connections, {len(traffic.lost)} lost, {len(stalled)} times stalled for more than "
        f"{1e3 * RTO_S:.0f} ms"
    )
    print(
        f"longest silence {1e3 * own:.0f} ms; of CUBIC's connections {1e3 * cubic:.0f} ms; "
        f"policy number {loaded.generation}"
    )
    for fault in [*traffic.lost, *(f"stalled for {1e3 * gap:.0f} ms" for gap in stalled)]:
        print(fault)
    return len(traffic.lost) + len(stalled)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, metavar="N", help="number of steps (1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the steps (1)")
    args = parser.parse_args()
    if os.geteuid():
        print("swaps: you are not root; run it with sudo", file=sys.stderr)
        return 1
    if policies.stats() or bridge.status() is not None:
        print("swaps: something is attached; `ccarena kernel detach` first", file=sys.stderr)
        return 1
    return min(swaps(args.rounds, args.seed), 1)


if __name__ == "__main__":
    sys.exit(main())
