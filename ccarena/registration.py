"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages.

Entry points are strings, so that registering imports no environment, nor the native extension.
"""

from typing import Any

from gymnasium.envs.registration import register

from ccarena.core.learned_schemes import learned_schemes


def register_scheme(name: str, **kwargs: Any) -> None:
    """Registers `ccarena/NAME-v0`, single and vectorised, and `ccarena/NAMEKernel-v0`."""
    register(
        id=f"ccarena/{name}-v0",
        entry_point="ccarena.envs.learned:LearnedEnv",
        vector_entry_point="ccarena.envs.vector:LearnedVectorEnv",
        kwargs=kwargs,
    )
    register(id=f"ccarena/{name}Kernel-v0", entry_point="ccarena.envs.kernel:LearnedKernelEnv", kwargs=kwargs)


register_scheme("Learned")
for scheme in learned_schemes().values():
    register_scheme(scheme.environment, spec=scheme.name)
