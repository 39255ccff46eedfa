"""A small leaderboard, run once for all tests of this folder, and a PostgreSQL server where one is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccarena.eval.leaderboard.run import run

sys.path.insert(0, str(Path(__file__).parent))

from boards import SMALL


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three schemes on the generated traces. Nobody changes it."""
    path = tmp_path_factory.mktemp("leaderboard") / "results.db"
    run(SMALL, str(path))
    return path


@pytest.fixture(scope="package")
def postgresql() -> Iterator[str]:
    """The URL of a server that is started for these tests, on a socket in a folder of its own."""
    on_path = shutil.which("initdb")
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian's place
    if not found:
        pytest.skip("NO POSTGRESQL: the store is tested with SQLite alone (apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="NO PSYCOPG: the store is tested with SQLite alone")
    # The server refuses to run as root, and a socket's path has to be short.
    root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="ccarena-pg-", dir="/tmp"))
    if root:
        shutil.chown(folder, "postgres")

    def call(program: str, options: str) -> None:
        words = [*(["runuser", "-u", "postgres", "--"] if root else []), str(found[-1].with_name(program))]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": "/", "timeout": 60}
        subprocess.run([*words, "-D", f"{folder}/data", *shlex.split(options)], check=True, **quiet)

    try:
        call("initdb", "-A trust -N -U ccarena --locale=C -E UTF8")
        call("pg_ctl", f"start -w -l {folder}/log -o \"-k {folder} -c listen_addresses='' -c fsync=off\"")
        yield f"postgresql://ccarena@/postgres?host={folder}"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            call("pg_ctl", "stop -m immediate")
        shutil.rmtree(folder, ignore_errors=True)
