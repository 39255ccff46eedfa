"""Files that are written whole or not at all, whenever their process is killed, and folders without leftovers."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccarena.agents import checkpoint
from ccarena.agents.runs import locked
from ccarena.core.files import check_writable, remove_stale, replacing, scratch, write_atomically
from ccarena.errors import WriteError

WRITES = "from ccarena.core.files import replacing\nwith replacing(path) as file:\n    file.write(b'new')\n    {}"
SAVES = (
    "import os, numpy\nfrom ccarena.agents import checkpoint\n"
    "def stop(_): {}\n"
    "made = checkpoint.Checkpoint({{'a': numpy.zeros(3)}}, {{}})\n"
    "checkpoint.save(path, made)\nos.fsync = stop\ncheckpoint.save(path, made)"
)
SCRATCH = "from ccarena.core.files import scratch\nwith scratch() as folder:\n    (folder / 'x').touch()\n    {}"
KILL, STOP = (f"import os, signal; os.kill(os.getpid(), signal.{name})" for name in ("SIGKILL", "SIGSTOP"))


@contextmanager
def at(path: Path, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has killed or stopped itself in the midst of `code`."""
    whole = f"from pathlib import Path\npath = Path({str(path)!r})\n{code}"
    process = subprocess.Popen([sys.executable, "-c", whole], env=os.environ | {"PYTHONPATH": str(ROOT)})
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == -signal.SIGKILL
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


ROOT = Path(__file__).parents[2]


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".") and path.name != ".lock")


def test_what_a_killed_writer_left_goes_with_the_next_and_a_living_one_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, "old")
    with at(path, WRITES.format(STOP)) as alive:
        with at(path, WRITES.format(KILL)) as dead:
            assert len(hidden(tmp_path)) == 2 and path.read_text() == "old"
        write_atomically(tmp_path / "other.json", "x")
        assert len(hidden(tmp_path)) == 2, "a writer looks after its own file alone"
        write_atomically(path, "newer")
        (left,) = hidden(tmp_path)
        assert f".{alive.pid}-" in left and f".{dead.pid}-" not in left
        assert path.read_text() == "newer"
        os.kill(alive.pid, signal.SIGCONT)
        alive.wait(30)
    assert path.read_text() == "new" and hidden(tmp_path) == []


def test_a_lock_tells_a_writer_of_another_machine(tmp_path: Path) -> None:
    """Whose number means nothing here: a file system that both see shows the lock."""
    with replacing(tmp_path / "a"):
        (own,) = tmp_path.iterdir()
        foreign = own.rename(tmp_path / ".a.999999999-x.tmp")
        remove_stale(tmp_path)
        foreign.rename(own)
    foreign.touch()
    for name in (".a.999999999.tmp", ".checkpoint.safetensors.tmp", "a.tmp", ".a", ".a.tmp.json"):
        (tmp_path / name).touch()
    (tmp_path / ".link.999999999-x.tmp").symlink_to(tmp_path / "a")
    check_writable(tmp_path)
    assert hidden(tmp_path) == [".a", ".a.tmp.json", ".link.999999999-x.tmp"] and (tmp_path / "a.tmp").exists()


def test_a_training_that_starts_removes_checkpoints_that_were_never_finished(tmp_path: Path) -> None:
    with at(tmp_path, SAVES.format(KILL)):
        # As versions before this one called them.
        (tmp_path / ".checkpoint.safetensors.tmp").touch()
        (tmp_path / ".policy.best.safetensors.999999999.tmp").touch()
        assert len(hidden(tmp_path)) == 3
    with at(tmp_path, SAVES.format(STOP)) as alive, locked(tmp_path):
        (left,) = hidden(tmp_path)
        assert str(alive.pid) in left
        assert checkpoint.load(tmp_path).arrays["a"].tolist() == [0, 0, 0]


def test_scratch_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "ccarena-mine-x").mkdir()
    with at(tmp_path, SCRATCH.format(STOP)) as alive, at(tmp_path, SCRATCH.format(KILL)):
        assert len(list(tmp_path.iterdir())) == 3
        with scratch() as folder:
            assert {path.name.split("-")[1] for path in tmp_path.iterdir()} == {
                "mine",
                str(alive.pid),
                str(os.getpid()),
            }
        assert not folder.exists()


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    write_atomically(path, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(WriteError, match=r"rows\.csv: cannot write: No space left on device; give another folder or"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and hidden(tmp_path) == []
