"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages."""

from typing import Any

from gymnasium.envs.registration import register as _register

SHIPPED = {
    "Acct": "acct",
    "Aurora": "aurora",
    "Hyvar": "hyvar",
    "Orca": "orca",
}
"""Records of this package that have an environment of their own name, `ccarena/NAME-v0` and `ccarena/NAMEKernel-v0`."""


def register() -> None:
    """Registers every environment; entry points are strings, so that listing is not importing."""
    _register_scheme("Learned", {})
    for name, record in SHIPPED.items():
        _register_scheme(name, {"spec": record})


def _register_scheme(name: str, kwargs: dict[str, Any]) -> None:
    _register(
        id=f"ccarena/{name}-v0",
        entry_point="ccarena.envs.learned:LearnedEnv",
        vector_entry_point="ccarena.envs.vector:LearnedVectorEnv",
        kwargs=kwargs,
    )
    _register(id=f"ccarena/{name}Kernel-v0", entry_point="ccarena.envs.kernel:LearnedKernelEnv", kwargs=kwargs)
