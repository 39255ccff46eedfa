"""A Ray cluster of several nodes on this machine, each of which can be killed with everything on it.

`python -m bench.nodes CORES` is a head in a process of its own, which says its address and lasts until its input ends.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ccarena.errors import CcarenaError
from ccarena.executors.ray import module

__all__ = ["add", "apart", "kill", "started"]

NOTICED = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
"""A lost node is noticed within seconds, not half a minute."""
_ATTEMPTS = 4


def started(num_cpus: int = 0, **head: Any) -> Any:
    """A cluster (`ray.cluster_utils.Cluster`) whose head has `num_cpus` cores. `shutdown()` ends it."""
    module()
    from ray.cluster_utils import Cluster

    given = {"num_cpus": num_cpus, "include_dashboard": False, "_system_config": NOTICED, **_ports(), **head}
    return _patiently(lambda: Cluster(initialize_head=True, head_node_args=given))


def add(cluster: Any, num_cpus: int = 1, **more: Any) -> Any:
    """One more node."""
    return _patiently(lambda: cluster.add_node(num_cpus=num_cpus, **_ports(), **more))


def kill(node: Any) -> None:
    """Kills a node with SIGKILL: its raylet, all processes that this has started, and of a head what it keeps."""
    _end({process.process.pid for kind in node.all_processes.values() for process in kind})


@contextmanager
def apart(num_cpus: int, before: Sequence[str] = (), **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of another cluster, and the process of its head: killed, it takes all of it along. The head is
    started by the command `before`, if there is one.

    Only so does the death of a head leave other clusters of this process alone: Ray has one client of its key-value
    store per process, which is of the head that was started last, and ends the process when that does not answer.
    """
    there = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment
    command = [*before, sys.executable, "-m", "bench.nodes", str(num_cpus)]
    with subprocess.Popen(command, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            if not (address := process.stdout.readline().strip()):
                raise CcarenaError(f"the head did not start: `{' '.join(command)}` ended with {process.wait()}")
            yield address, process
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(60)


def _patiently(start: Callable[[], Any]) -> Any:
    """Ray gives a node half a minute to start, which busy machines exceed; what it has started by then goes on, and
    would keep the next attempt from being any faster."""
    for _ in range(_ATTEMPTS - 1):
        before = _children(os.getpid())
        try:
            return start()
        except Exception as error:  # no subclass of it
            if "timed out during startup" not in str(error):
                raise
            _end(_children(os.getpid()) - before)
    return start()


def _children(process: int) -> set[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True).stdout
    return set(map(int, listed.split()))


def _end(processes: set[int]) -> None:
    """Kills them and their children, so that none of them can start another one."""
    for process in processes:
        for each in [process, *_children(process)]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def _ports() -> dict[str, int]:
    """Free ports for a node's agents. Without them it waits fifteen seconds for its agents to say theirs, and dies if
    they do not (`NodeManager::WaitForDashboardAgentPorts`), as on a busy machine."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: int(each.getsockname()[1]) for name, each in zip(names, sockets, strict=True)}


def _head() -> None:
    cluster = started(int(sys.argv[1]))
    try:
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    _head()
