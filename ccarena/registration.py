"""Registers the environments with Gymnasium, which since its version 1.0 knows only those of imported packages.

Entry points are strings, so that registering imports no environment, nor the native extension.
"""

from gymnasium.envs.registration import register

register(
    id="ccarena/Acct-v0",
    entry_point="ccarena.envs.acct:AcctEnv",
    vector_entry_point="ccarena.envs.vector:AcctVectorEnv",
)
register(id="ccarena/AcctKernel-v0", entry_point="ccarena.envs.kernel:AcctKernelEnv")
register(id="ccarena/Kernel-v0", entry_point="ccarena.envs.kernel:KernelEnv")
for name in ("Hyvar", "Orca", "Aurora"):
    register(
        id=f"ccarena/{name}-v0",
        entry_point=f"ccarena.envs.hyvar:{name}Env",
        vector_entry_point=f"ccarena.envs.hyvar:{name}VectorEnv",
    )
    register(id=f"ccarena/{name}Kernel-v0", entry_point=f"ccarena.envs.kernel:{name}KernelEnv")
