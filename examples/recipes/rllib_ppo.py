"""RLlib's PPO over the native vector environment: python rllib_ppo.py [--iterations N].

Needs `make setup EXTRAS=rllib` in the checkout. RLlib steps environments with next-step autoreset, and asks for them
by a number.
"""

import argparse
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

SPEC, ENVS, EPISODE_STEPS = "ccarena:ccarena/Acct-v0", 8, 200


def worlds(context: dict[str, Any]) -> gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]:
    """One environment, or `num_envs` worlds in Rust threads."""
    if "num_envs" not in context:
        return gym.make(SPEC, max_episode_steps=EPISODE_STEPS)
    return gym.make_vec(SPEC, num_envs=context["num_envs"], autoreset_mode="NEXT_STEP", max_episode_steps=EPISODE_STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4000, help="steps per iteration")
    words = parser.parse_args()
    register_env("ccarena-worlds", worlds)
    config = (
        PPOConfig()
        .environment("ccarena-worlds")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS, gym_env_vectorize_mode="vector_entry_point")
        .training(train_batch_size=words.batch, minibatch_size=min(256, words.batch))
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    for iteration in range(words.iterations):
        runners = algorithm.train()["env_runners"]
        print(
            f"{iteration + 1}: {runners['num_env_steps_sampled_lifetime']:.0f} steps, "
            f"return {runners.get('episode_return_mean', float('nan')):.2f}",
            flush=True,
        )
    algorithm.stop()


if __name__ == "__main__":
    main()
