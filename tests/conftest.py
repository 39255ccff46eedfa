"""Of the whole run: Ctrl-C works in it, and it says loudly, last before pytest's closing line, what it left out."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from ccarena.core import programs
from ccarena.core.machine import is_linux
from ccarena.executors.ray import ENVIRONMENT


def pytest_configure() -> None:
    # Tests send it to themselves and to what they start; a shell starts its background jobs with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Read when they are imported: Ray as the package uses it, and ONNX Runtime without reports to its makers.
    for name, value in {**ENVIRONMENT, "ORT_DISABLE_TELEMETRY": "1"}.items():
        os.environ.setdefault(name, value)
    # pytest-xdist gives its workers the terminal's width; what is tested has none.
    os.environ.pop("COLUMNS", None)
    # The same cases every time, on a busy machine, too: what is tested is never how long one takes.
    settings.register_profile("ccarena", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ccarena")


@pytest.hookimpl(trylast=True)  # what other plugins write and remove is done
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a process that used Ray without the destructors of native libraries.

    Ray kills clusters here under drivers, and threads of theirs run on: one that uses what is destroyed has ended the
    process by a segmentation fault, after its last test.
    """
    session = config.pluginmanager.get_plugin("session")
    if session is None or "ray" not in sys.modules or hasattr(config, "workerinput"):
        return
    atexit._run_exitfuncs()
    config.get_terminal_writer().flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(session.exitstatus))


@pytest.hookimpl(trylast=True)  # folders mark theirs before
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in [] if is_linux() else items:
        if item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="SKIPPED, real-time backends are not tested: they need Linux"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    if packages := programs.lacking_packages():
        terminalreporter.section("LEFT OUT", red=True, bold=True)
        terminalreporter.write_line(
            f"NOT TESTED, because packages are missing ({packages}): the kernel bridge, which is the Rust crate "
            "ccarena-kernel with its tests, and every test here that needs its program.",
            red=True,
        )
        terminalreporter.write_line(
            "`make prerequisites` installs them; the next `make test` builds and tests the rest."
        )
