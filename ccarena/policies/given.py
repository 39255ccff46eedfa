"""What a user gives as a policy, as a file."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from ccarena.policies.artifact import Artifact
from ccarena.run_folder import POLICY, find_policy

__all__ = ["PolicyLike", "file_of"]

PolicyLike: TypeAlias = str | os.PathLike[str] | Artifact
"""A policy: its file, a run's folder, the name of a run in `runs/`, or what `ccarena.load_policy` returned."""


def file_of(policy: PolicyLike, stack: ExitStack) -> Path:
    """The policy's file; that of an artifact in memory is written for as long as `stack` lasts. Raises PolicyError."""
    if not isinstance(policy, Artifact):
        return find_policy(os.fspath(policy)).resolve()
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ccarena-")), POLICY)
    policy.save(path)
    return path
