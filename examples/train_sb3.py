"""Trains ACCT's networks with Stable-Baselines3 instead of ccarena's A3C, and saves the same kind of artifact.

python examples/train_sb3.py --algorithm ppo --decisions 500000 --out sb3-policy.safetensors
ccarena eval sb3-policy.safetensors
"""

from __future__ import annotations

import argparse

import torch
from stable_baselines3 import A2C, PPO

from ccarena.configs import load_config
from ccarena.envs import AcctVectorEnv
from ccarena.envs.sb3 import Sb3VecEnv
from ccarena.policies import contract
from ccarena.policies.sb3 import AcctPolicy, to_artifact

ALGORITHMS = {
    "a2c": (A2C, {"n_steps": 16, "learning_rate": 1e-3, "ent_coef": 0.01}),
    # SB3's default batch of 64 is for one world; this many worlds want larger ones.
    "ppo": (PPO, {"n_steps": 32, "batch_size": 512, "n_epochs": 4, "ent_coef": 0.01}),
}


def main() -> None:
    """Trains and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ppo")
    parser.add_argument("--decisions", type=int, default=500_000)
    parser.add_argument("--config", default="acct", help="whose `env`, `network` and `seed` to use")
    parser.add_argument("--out", default="sb3-policy.safetensors")
    args = parser.parse_args()

    torch.set_num_threads(1)
    config = load_config(args.config)
    envs = Sb3VecEnv(
        AcctVectorEnv(config=config.env, threads=config.threads),
        reward_scale=config.agent.reward_scale,
    )
    algorithm, settings = ALGORITHMS[args.algorithm]
    model = algorithm(
        AcctPolicy,
        envs,
        policy_kwargs=config.network.model_dump(),
        gamma=config.agent.gamma,
        seed=config.seed,
        device="cpu",
        verbose=1,
        **settings,
    )
    model.learn(args.decisions)
    training = {"env": config.env.model_dump(mode="json"), "settings": settings}
    to_artifact(model, contract.scheme("acct-1"), training=training).save(args.out)
    print(f"policy: {args.out}")


if __name__ == "__main__":
    main()
