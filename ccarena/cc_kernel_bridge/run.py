"""Scenarios on real Linux TCP over the emulated link, in real time: a client of `ccarena-kernel run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.core.programs import KERNEL_BRIDGE
from ccarena.errors import ConfigError, did_you_mean
from ccarena.scenarios.frames import ANSWER
from ccarena.scenarios.real_time import LATENESS_BOUND_MS, RealTimeRun

__all__ = ["TRAFFIC", "Runner", "check_traffic", "run_scenario"]

TRAFFIC = ("own", "iperf3")
"""Programs that send and receive: `ccarena-kernel` itself, or a client and a server of iperf3 for each flow."""


def run_scenario(document: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Runs a scenario document in real time. The result has the layout of `ccarena._core.simulate`'s.

    Its key `machine` says how the run went. The options are those of `Runner`. Raises ScenarioError, TraceError,
    PolicyError, MachineError or RunnerError.
    """
    with Runner(document, **options) as runner:
        return runner.to_its_end()


class Runner(RealTimeRun):
    """One run. With `environment` the caller decides for the flows of a learned scheme that have no policy:

        with Runner(document, environment=True) as runner:
            while (due := runner.wait()) is not None:
                runner.act(due.flow, choose(due.observation))
            print(runner.result["flows"])

    The flows begin with the first action of their scheme. `traffic` names who sends. `bridge` drives even CUBIC, BBR
    and Reno by this package's code in user space; `in_kernel` runs learned flows with a policy, and those of `pilot`,
    in the kernel.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        environment: bool = False,
        traffic: str = "own",
        bridge: bool = False,
        in_kernel: bool = False,
        lateness_bound_ms: float = LATENESS_BOUND_MS,
    ) -> None:
        check_traffic(traffic)
        super().__init__(
            KERNEL_BRIDGE,
            document,
            lateness_bound_ms=lateness_bound_ms,
            environment=environment,
            traffic=traffic,
            bridge=bridge,
            in_kernel=in_kernel,
        )

    def act(self, flow: int, action: float) -> None:
        """Puts `action` in force for flow number `flow`, at once."""
        if not self.is_over:
            self._write(ANSWER.pack(flow, action))


def check_traffic(traffic: str) -> None:
    """Raises ConfigError if the traffic is not one of `TRAFFIC`."""
    if traffic not in TRAFFIC:
        raise ConfigError(f'unknown traffic "{traffic}"{did_you_mean(traffic, TRAFFIC)}')
