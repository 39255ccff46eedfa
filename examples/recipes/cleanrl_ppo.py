"""PPO in one file, in the style of CleanRL, over the native vector environment: python cleanrl_ppo.py [--steps N].

Gymnasium's wrappers normalise observations and rewards, so the environments use next-step autoreset. The step after an
episode's end answers with the next episode's first observation; it is no decision, and `valid` leaves it out.
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers.vector import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics
from torch import nn

ENVS, ROLLOUT, EPOCHS, MINIBATCHES = 16, 64, 4, 4
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.99, 0.95, 0.2, 0.01, 3e-4


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    words = parser.parse_args()
    torch.manual_seed(1)
    statistics = RecordEpisodeStatistics(
        gym.make_vec("ccarena:ccarena/Acct-v0", num_envs=ENVS, autoreset_mode="NEXT_STEP", max_episode_steps=500)
    )
    envs = NormalizeReward(NormalizeObservation(statistics), gamma=GAMMA)
    inputs, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    actor, critic = network(inputs, actions), network(inputs, 1)
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=RATE)

    observation = torch.as_tensor(envs.reset(seed=1)[0], dtype=torch.float32)
    over = torch.zeros(ENVS)
    for iteration in range(max(1, words.steps // (ENVS * ROLLOUT))):
        kept = {name: [] for name in ("observation", "action", "log_prob", "value", "reward", "over", "valid")}
        for _ in range(ROLLOUT):
            with torch.no_grad():
                chosen = torch.distributions.Categorical(logits=actor(observation))
                action, value = chosen.sample(), critic(observation).squeeze(-1)
            following, reward, terminated, truncated, _ = envs.step(action.numpy())
            kept["observation"].append(observation), kept["action"].append(action)
            kept["log_prob"].append(chosen.log_prob(action)), kept["value"].append(value)
            kept["reward"].append(torch.as_tensor(reward, dtype=torch.float32))
            kept["valid"].append(1 - over)  # after an episode's end the action was ignored
            over = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)
            kept["over"].append(over)
            observation = torch.as_tensor(following, dtype=torch.float32)
        rows = {name: torch.stack(values) for name, values in kept.items()}

        # An episode ends by time alone, so the value of its last observation, the next row's, goes into the target.
        with torch.no_grad():
            values = torch.cat([rows["value"], critic(observation).T])
        advantages, running = torch.zeros(ROLLOUT, ENVS), torch.zeros(ENVS)
        for step in reversed(range(ROLLOUT)):
            error = rows["reward"][step] + GAMMA * values[step + 1] - values[step]
            running = (error + GAMMA * LAMBDA * (1 - rows["over"][step]) * running) * rows["valid"][step]
            advantages[step] = running
        targets = advantages + rows["value"]

        used = rows["valid"].flatten().bool()
        flat = {name: values.flatten(0, 1)[used] for name, values in rows.items()}
        advantage, target = advantages.flatten()[used], targets.flatten()[used]
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(advantage)).chunk(MINIBATCHES):
                chosen = torch.distributions.Categorical(logits=actor(flat["observation"][batch]))
                ratio = (chosen.log_prob(flat["action"][batch]) - flat["log_prob"][batch]).exp()
                gain = (advantage[batch] - advantage[batch].mean()) / (advantage[batch].std() + 1e-8)
                surrogate = torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                error = (critic(flat["observation"][batch]).squeeze(-1) - target[batch]).square().mean()
                loss = -surrogate + 0.5 * error - ENTROPY * chosen.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
                optimiser.step()
        returns = list(statistics.return_queue)[-50:]
        mean = sum(map(float, returns)) / max(1, len(returns))
        print(
            f"{(iteration + 1) * ENVS * ROLLOUT} steps, mean return of {len(returns)} episodes {mean:.1f}", flush=True
        )
    envs.close()


if __name__ == "__main__":
    main()
