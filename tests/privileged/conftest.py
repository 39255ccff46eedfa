"""What tests with privileges need, and a loud word where it is not there."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccarena.core import programs
from ccarena.errors import MachineError

HERE = Path(__file__).parent
ATTEMPTS = 4
STOLEN = 0.02
"""The share of the time that this machine's host gave to others from which nothing is measured in real time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("alone")
            item.add_marker("linux")
            # A machine that others use, too, is now and then late; a fault of ours fails each time.
            item.add_marker(pytest.mark.flaky(reruns=ATTEMPTS - 1, reruns_delay=2))


def times() -> tuple[int, int]:
    """Ticks of all processors so far: stolen by the host, and all (`steal` of proc_stat(5))."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    item.stash[BEFORE] = times()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """The last attempt says SKIPPED and not FAILED if the host took the processor away meanwhile: nothing is proved."""
    report: Any = yield
    if report.when == "call" and report.failed and getattr(item, "execution_count", 1) >= ATTEMPTS:
        stolen, passed = (after - before for after, before in zip(times(), item.stash[BEFORE], strict=True))
        if passed and stolen >= STOLEN * passed:
            report.outcome = "skipped"
            reason = f"SKIPPED: in {ATTEMPTS} attempts it failed while the host took {stolen / passed:.0%} of the time"
            report.longrepr = (str(item.path), None, reason)
    return report


BEFORE = pytest.StashKey[tuple[int, int]]()


@pytest.fixture(scope="session")
def quic() -> str:
    """The path of `ccarena-quic`, which this user may run scenarios with."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED, QUIC is not tested over the emulator: namespaces take root; run pytest as root")
    return str(programs.find("ccarena-quic"))


@pytest.fixture(scope="session")
def kernel() -> str:
    """The path of `ccarena-kernel`, which this user may run."""
    try:
        program = str(programs.find("ccarena-kernel"))
    except MachineError as error:
        pytest.skip(f"SKIPPED, kernel TCP is not tested: {error}")
    if os.geteuid() != 0:
        pytest.skip("SKIPPED, kernel TCP is not tested: loading BPF programs takes root; run pytest as root")
    return program
