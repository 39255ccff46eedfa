"""What tests with privileges need, and a loud word where it is not there."""

import os
from pathlib import Path

import pytest

from ccarena import programs
from ccarena.errors import MachineError

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("alone")
            # A machine that others use, too, is now and then late; a fault of ours fails each time.
            item.add_marker(pytest.mark.flaky(reruns=3, reruns_delay=2))


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
