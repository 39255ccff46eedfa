"""Every error that ccarena raises on purpose: one tree, so that a caller can catch all of it or one kind.

`str(error)` is the complete message: what was wrong, where, what was expected, what to do next. The command line prints
`error: MESSAGE` to stderr, without a traceback, and exits with the class's `exit_code`:

| code | meaning                                                            |
|------|--------------------------------------------------------------------|
| 0    | success                                                            |
| 1    | it ran and failed, or the disk is full                             |
| 2    | the command, the configuration or the scenario is wrong            |
| 3    | an input file (trace, policy, checkpoint) cannot be used           |
| 4    | this machine lacks something (a package, a native part, a right)   |
| 5    | a download failed                                                  |
| 130  | interrupted (Ctrl-C)                                               |
"""

from __future__ import annotations

import difflib
import errno
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ccarena.extras import how_to_add

__all__ = [
    "DISK",
    "INTERRUPTED",
    "ActionError",
    "CcarenaError",
    "CheckpointError",
    "ConfigError",
    "ControllerError",
    "DownloadError",
    "MachineError",
    "MissingDependencyError",
    "PolicyError",
    "RunnerError",
    "ScenarioError",
    "TraceError",
    "TrainingError",
    "UnwatchableError",
    "WorkerError",
    "WriteError",
    "cannot_write",
    "did_you_mean",
    "excerpt",
    "several",
]


INTERRUPTED = 130
"""Exit code of an interrupted command: 128 + SIGINT, as shells count."""


class CcarenaError(Exception):
    """Root of the tree. Takes one argument, the complete message, so that it survives pickling between processes."""

    exit_code = 1


class ConfigError(CcarenaError, ValueError):
    """A configuration file, key or value that cannot be used; nothing was started."""

    exit_code = 2


class ScenarioError(CcarenaError, ValueError):
    """A scenario document that does not describe a possible experiment."""

    exit_code = 2


class UnwatchableError(ScenarioError):
    """A spec whose actions cannot describe what another scheme does, so that no trajectory can be recorded."""

    why = ""
    """Reason, such as `its base cubic moves the window between its actions`."""


class ControllerError(CcarenaError):
    """A user's controller that raised an exception, which is the cause of this one."""


class ActionError(CcarenaError, ValueError):
    """An action outside the action space, not finite, or of the wrong shape."""


class TrainingError(CcarenaError):
    """Training cannot go on: a worker was lost, or losses or weights are no longer finite."""


class WorkerError(CcarenaError):
    """A piece of work killed the process that ran it, or the cluster was lost."""


class WriteError(CcarenaError):
    """A disk that takes no more: it is full, a quota is used up, or it fails."""


class TraceError(CcarenaError, ValueError):
    """A capacity trace that is missing, empty or malformed; the message names file and line."""

    exit_code = 3


class PolicyError(CcarenaError, ValueError):
    """A policy artifact that is missing, truncated, of another version, not finite, or not a policy."""

    exit_code = 3


class CheckpointError(CcarenaError, ValueError):
    """A training checkpoint that is missing, damaged or of another configuration."""

    exit_code = 3


class MissingDependencyError(CcarenaError, ImportError):
    """Something optional is needed and not installed; the message says how to get it."""

    exit_code = 4

    @classmethod
    def for_extra(cls, package: str, extra: str, purpose: str) -> MissingDependencyError:
        """The error for a Python `package` that comes with ccarena's `extra` and that `purpose` needs."""
        return cls(f'{purpose} needs the Python package "{package}", which is not installed: {how_to_add(extra)}')


class MachineError(CcarenaError):
    """Missing right or feature of this machine (no root, no BPF, no TUN); the message says what to do."""

    exit_code = 4


class RunnerError(CcarenaError):
    """The program that carries a real-time run died, was silent for too long, or broke its protocol."""


class DownloadError(CcarenaError):
    """A file could not be fetched, or its checksum differs from the manifest's."""

    exit_code = 5


DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Numbers of system errors that blame the disk, not the place that was named."""


def cannot_write(
    path: Path | str, error: OSError, advice: str = "give another folder or free space", what: str = ""
) -> WriteError | ConfigError:
    """Returns the error for a file or folder that cannot be written: a WriteError if the disk is to blame.

    `advice`: what to do next; `what`: what was to be written, such as "the trace".
    """
    kind = WriteError if error.errno in DISK else ConfigError
    return kind(f"{path}: cannot write{what and f' {what}'}: {error.strerror or error}; {advice}")


MOST_PROBLEMS = 20
"""The most problems of one file that an error lists."""


def several(subject: str, problems: Iterable[str]) -> str:
    """The message that `subject` has these problems: each once, on its own line, at most `MOST_PROBLEMS` of them."""
    found = list(dict.fromkeys(itertools.islice(problems, MOST_PROBLEMS + 1)))
    if len(found) == 1:
        return found[0]
    number = f"more than {MOST_PROBLEMS}" if len(found) > MOST_PROBLEMS else str(len(found))
    return "\n  ".join([f"{subject} has {number} problems:", *found[:MOST_PROBLEMS]])


def excerpt(value: Any) -> Any:
    """`value` with long text and long lists cut, so that a message that shows it costs little whatever it is."""
    if isinstance(value, str):
        return value if len(value) <= 100 else f"{value[:97]}..."
    if isinstance(value, Mapping):
        return {excerpt(key): excerpt(item) for key, item in itertools.islice(value.items(), 30)}
    return [excerpt(item) for item in value[:30]] if isinstance(value, (list, tuple)) else value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an "unknown NAME" message: `; did you mean "cubic"?`, else the list of what is known.

    Returns an empty string if nothing is known.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; known: {', '.join(names)}" if names else ""
