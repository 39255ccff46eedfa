"""The kernel as a policy's runtime, where it is not to be had."""

from __future__ import annotations

import subprocess

import pytest

from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import MachineError
from ccarena.policies import artifact
from ccarena.policies.bpf_runtime import BpfRuntime


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_program_that_ends_early_is_an_error_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not sent to it is still in the pipe's buffer when the pipe is closed."""
    whole = subprocess.Popen

    def ended(command: list[str], **pipes: int) -> subprocess.Popen[bytes]:
        process = whole(["true"], **pipes)
        process.wait()
        return process

    monkeypatch.setattr("ccarena.policies.bpf_runtime.find", lambda name: name)
    monkeypatch.setattr("ccarena.policies.bpf_runtime.subprocess.Popen", ended)
    with pytest.raises(MachineError, match="ended without an answer"):
        BpfRuntime(artifact.load(shipped_policies()["hyvar"]))
