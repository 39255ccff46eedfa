"""Environments: one learned flow (or several) on simulated links, single, vectorised and multi-agent.

`gymnasium.make("ccarena/Acct-v0")` and `gymnasium.make_vec("ccarena/Acct-v0", num_envs=64)` work without importing this
package; `AcctParallelEnv` follows PettingZoo's parallel interface. docs/environments.md explains spaces and options.
"""

from ccarena.envs.acct import AcctEnv
from ccarena.envs.domain import domain_json
from ccarena.envs.vector import AcctVectorEnv

__all__ = ["AcctEnv", "AcctVectorEnv", "domain_json"]
