"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages.

Entry points are strings, so that registering imports no environment, nor the native extension.
"""

from typing import Any

from gymnasium.envs.registration import register


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
register_scheme("Acct", spec="acct")
register_scheme("Aurora", spec="aurora")
register_scheme("Hyvar", spec="hyvar")
register_scheme("Orca", spec="orca")
register_scheme("Pilot", spec="pilot")
