"""SB3-contrib's RecurrentPPO over the native vector environment: python recurrent_ppo.py [--steps N]."""

import argparse

from sb3_contrib import RecurrentPPO

from ccarena.envs import LearnedVectorEnv
from ccarena.envs.sb3 import Sb3VecEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    words = parser.parse_args()
    # Rewards of about 100 per step; SB3's defaults expect returns of about 1.
    envs = Sb3VecEnv(LearnedVectorEnv("acct", num_envs=16), reward_scale=0.01)
    model = RecurrentPPO("MlpLstmPolicy", envs, n_steps=64, batch_size=256, seed=1, device="cpu")
    model.learn(words.steps)
    model.save("recurrent_ppo.zip")
    returns = [episode["r"] for episode in model.ep_info_buffer or []]
    print(
        f"{model.num_timesteps} steps, {len(returns)} episodes, mean return {sum(returns) / max(1, len(returns)):.1f}"
    )


if __name__ == "__main__":
    main()
