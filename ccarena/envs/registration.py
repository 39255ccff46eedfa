"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages."""

from gymnasium.envs.registration import register as _register


def register() -> None:
    """Registers every environment; entry points are strings, so that listing is not importing."""
    _register(
        id="ccarena/Acct-v0",
        entry_point="ccarena.envs.acct:AcctEnv",
        vector_entry_point="ccarena.envs.vector:AcctVectorEnv",
    )
    _register(id="ccarena/AcctKernel-v0", entry_point="ccarena.envs.kernel:AcctKernelEnv")
    _register(id="ccarena/Kernel-v0", entry_point="ccarena.envs.kernel:KernelEnv")
    for name in ("Hyvar", "Orca", "Aurora"):
        _register(
            id=f"ccarena/{name}-v0",
            entry_point=f"ccarena.envs.hyvar:{name}Env",
            vector_entry_point=f"ccarena.envs.hyvar:{name}VectorEnv",
        )
        _register(id=f"ccarena/{name}Kernel-v0", entry_point=f"ccarena.envs.kernel:{name}KernelEnv")
