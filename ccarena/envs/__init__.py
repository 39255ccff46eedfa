"""Environments: one learned flow (or several) on simulated links, single, vectorised and multi-agent.

`import ccarena` registers them: `gymnasium.make("ccarena/Learned-v0", spec="my.yaml")`,
`gymnasium.make_vec("ccarena/Acct-v0", num_envs=64)`. `ccarena.envs.multi.LearnedParallelEnv` follows PettingZoo's
parallel interface, `ccarena.envs.sb3` has what Stable-Baselines3 needs. docs/environment.md explains spaces and
options.
"""

import ccarena.registration  # noqa: F401, in a command, where `import ccarena` has not done it
from ccarena.configs.link_distribution import distribution_json
from ccarena.envs.learned import LearnedEnv
from ccarena.envs.vector import LearnedVectorEnv

__all__ = ["LearnedEnv", "LearnedVectorEnv", "distribution_json"]
