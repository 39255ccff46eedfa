"""A Ray cluster of several nodes on this machine, each of which can be killed with everything on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from typing import Any

from ccarena.executors.ray import module

__all__ = ["add", "kill", "started"]

NOTICED = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
"""A lost node is noticed within seconds, not half a minute."""


def started(num_cpus: int = 0, **head: Any) -> Any:
    """A cluster (`ray.cluster_utils.Cluster`) whose head has `num_cpus` cores. `shutdown()` ends it."""
    module()
    from ray.cluster_utils import Cluster

    given = {"num_cpus": num_cpus, "include_dashboard": False, "_system_config": NOTICED, **_ports(), **head}
    return Cluster(initialize_head=True, head_node_args=given)


def add(cluster: Any, num_cpus: int = 1, **more: Any) -> Any:
    """One more node."""
    return cluster.add_node(num_cpus=num_cpus, **_ports(), **more)


def kill(node: Any) -> None:
    """Kills a node with SIGKILL: its raylet, all processes that this has started, and of a head what it keeps."""
    for each in [process.process.pid for kind in node.all_processes.values() for process in kind]:
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(each)], capture_output=True, text=True).stdout
        for process in [each, *map(int, children.split())]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _ports() -> dict[str, int]:
    """Free ports for a node's agents. Without them it waits fifteen seconds for its agents to say theirs, and dies if
    they do not (`NodeManager::WaitForDashboardAgentPorts`), as on a busy machine."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: int(each.getsockname()[1]) for name, each in zip(names, sockets, strict=True)}
