"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages.

Entry points are strings, so that registering imports no environment, nor the native extension.
"""

from typing import Any

from gymnasium.envs.registration import register

from ccarena.core.learned_schemes import learned_schemes


def register_scheme(name: str, single: str, vector: str, kernel: str, **kwargs: Any) -> None:
    """Registers `ccarena/NAME-v0`, single and vectorised, and `ccarena/NAMEKernel-v0`, by classes in `ccarena.envs`."""
    entry, many = f"ccarena.envs.{single}", f"ccarena.envs.{vector}"
    register(id=f"ccarena/{name}-v0", entry_point=entry, vector_entry_point=many, kwargs=kwargs)
    register(id=f"ccarena/{name}Kernel-v0", entry_point=f"ccarena.envs.{kernel}", kwargs=kwargs)


register_scheme("Learned", "learned:LearnedEnv", "vector:LearnedVectorEnv", "kernel:LearnedKernelEnv")
for scheme in learned_schemes().values():
    classes = (f"described:{scheme.environment}{end}" for end in ("Env", "VectorEnv", "KernelEnv"))
    register_scheme(scheme.environment, *classes, spec=scheme.name)
