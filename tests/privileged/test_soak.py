"""The kernel bridge and policies in the kernel, briefly: kill -9, swaps, many short connections; `make soak` takes its
time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("kernel")


@pytest.mark.parametrize(
    "words", [("bench.soak", "--rounds", "3"), ("bench.soak", "--churn", "3000"), ("bench.swaps", "--rounds", "16")]
)
def test_nothing_is_left_stalls_or_grows(words: tuple[str, ...]) -> None:
    # In a process of its own, which forks its clients.
    line = [sys.executable, "-m", *words]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    if "something is attached" in done.stderr:
        pytest.skip(
            "SKIPPED, the bridge's endurance is not tested: something is attached; `ccarena kernel detach` first"
        )
    assert done.returncode == 0, done.stdout + done.stderr
