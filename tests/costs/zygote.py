"""Runs command lines of `ccarena` in forked processes, each with a folder of its own, and says what they cost.

A request is a line of JSON on standard input (`words`, `folder`, `environment`), the answer one on standard output.
This process has imported what every command needs: a case costs what its input costs, not what Python's start does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

import numpy  # noqa: F401  (imported for the children, as all that follows)

import ccarena._core
import ccarena.commands.eval
import ccarena.commands.leaderboard
import ccarena.eval.reproduce.suite  # noqa: F401
from ccarena import cli

ADDRESS_SPACE_BYTES = 4 << 30
"""A case that goes wrong fails here and does not take the machine with it."""
PROCESSOR_S = 30
WALL_S = 120


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(request: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _become(request)
    begun = time.monotonic()
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - begun > WALL_S:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "processor_s": used.ru_utime + used.ru_stime,
        "memory_mb": used.ru_maxrss / 1024,
        "wall_s": time.monotonic() - begun,
    }


def _become(request: dict[str, Any]) -> None:
    code = 99
    try:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        for handle, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S,) * 2)
        code = cli.main(request["words"])
        sys.stdout.flush()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
