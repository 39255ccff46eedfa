"""PPO with a privileged critic: while it learns, the critic sees what only the simulator knows; the actor never does.

The critic is there for training alone, so it may know the bottleneck's capacity, its queue, competitors, and even the
capacity of the near future, which nobody's actions change (Pinto et al. 2018, arXiv:1710.06542; Mao et al. 2019,
arXiv:1807.02264). What a link did by itself is then no surprise that counts for or against an action.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ccarena import _core
from ccarena.agents.actor_critic import ActorCritic
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph


class Ppo:
    """PPO (Schulman et al. 2017) on whole rollouts; `privileged: false` is the same with a critic like any other.

    Noise stays for `hold` decisions: where a window takes longer to move than a decision lasts, noise that is drawn
    anew each time cancels out. `ahead` is the number of coming decisions whose capacity the critic knows.
    """

    def __init__(
        self,
        context,
        privileged=True,
        ahead=16,
        hold=1,
        log_std=-1.0,
        hidden=64,
        rollout=256,
        minibatch=1024,
        epochs=4,
        actor_lr=3e-4,
        critic_lr=1e-3,
        gamma=0.99,
        gae=0.95,
        clip=0.2,
    ):
        self.context, self.privileged, self.ahead, self.hold = context, privileged, ahead, hold
        self.rollout, self.minibatch, self.epochs = rollout, minibatch, epochs
        self.gamma, self.gae, self.clip = gamma, gae, clip
        torch.manual_seed(context.config.seed)
        self.rng = np.random.default_rng(context.config.seed)
        self.network = ActorCritic(context)
        if self.network.spread is not None:
            nn.init.constant_(self.network.spread, log_std)
        inputs = context.spec.size + (self.told() if privileged else 0)
        self.network.critic = nn.Sequential(
            nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )
        critic = list(self.network.critic.parameters())
        actor = [each for name, each in self.network.named_parameters() if not name.startswith("critic.")]
        self.optimiser = torch.optim.Adam([{"params": actor, "lr": actor_lr}, {"params": critic, "lr": critic_lr}])
        self.envs = context.make_envs(context.rows, context.config.threads, privileged=True)
        self.envs.reset(seed=context.config.seed)
        self.latest = np.zeros((context.rows, len(context.spec.privileged)), np.float32)
        self.decisions = self.updates = 0

    def learn(self, run):
        """Rollouts and updates until `run` says that it is enough."""
        while run.rest():
            seen = self.collect()
            rewards = self.rewards(seen)
            stats = {"decisions": float(rewards.size), "reward": float(rewards.sum(dtype=np.float64))}
            stats |= {name: value * stats["decisions"] for name, value in self.improve(seen, rewards).items()}
            self.decisions += rewards.size
            self.updates += 1
            run.record(stats, updates=self.updates)

    def collect(self):
        """A rollout, in the simulator's own threads."""
        actor, spec = self.network.actor, self.context.spec
        policy = _core.Policy.of(Artifact(spec.interface, to_graph(actor, spec.size)).encode())
        noise = self.network.actions.noise(self.rng, (-(-self.rollout // self.hold), self.context.rows))
        noise = np.repeat(noise, self.hold, axis=0)[: self.rollout]
        return self.envs.rollout(policy, np.ascontiguousarray(noise), self.network.actions.spread)

    def rewards(self, seen):
        """The record's reward, `[T, N]`."""
        return self.envs.rewards_of(seen.reports, seen.privileged)

    def told(self):
        """How many numbers `tell` has per decision."""
        return len(self.context.spec.privileged) + 1

    def tell(self, seen):
        """What the critic knows beyond the observation, `[T, N, told]`: the privileged state of the step before each
        decision, and the mean capacity of the next `ahead` steps of the episode; as signed logarithms."""
        privileged, over = seen.privileged, seen.truncated
        before = np.concatenate([self.latest[None], privileged[:-1]])
        before[1:][over[:-1]] = 0
        self.latest = np.where(over[-1][:, None], 0, privileged[-1])
        coming = ahead_of(privileged[..., self.context.spec.privileged.index("capacity_mbps")], over, self.ahead)
        known = np.concatenate([before, coming[..., None]], axis=-1)
        return np.sign(known) * np.log1p(np.abs(known))

    def improve(self, seen, rewards):
        """A few epochs on one rollout; the means of what the learning curve shows."""
        network = self.network
        x = network.normalisation(flat(seen.observations))
        knows = torch.cat([x, flat(self.tell(seen))], dim=1) if self.privileged else x
        drawn = seen.drawn.reshape(-1, *network.actions.shape)
        actions = torch.from_numpy(drawn.astype(network.actions.dtype))
        with torch.no_grad():
            values = network.critic(knows).squeeze(1).numpy().reshape(rewards.shape)
            likely, _ = network.actions.evaluate(network.actor(x), actions)
        # With this factor a reward of 1 for ever is worth 1, whatever the discount.
        gained = advantages((1 - self.gamma) * rewards, values, seen.truncated, self.gamma, self.gae)
        returns = flat(gained + values)[:, 0]
        # Within a hold states tell of its noise, so that their values are no baselines: only that of the first one is.
        gained = gained[np.arange(len(gained)) // self.hold * self.hold]
        gained = flat((gained - gained.mean()) / (gained.std() + 1e-8))[:, 0]
        sums = np.zeros(2)
        for _ in range(self.epochs):
            order = torch.from_numpy(self.rng.permutation(len(x)))
            for rows in order.split(self.minibatch):
                now, _ = network.actions.evaluate(network.actor(x[rows]), actions[rows])
                ratio = (now - likely[rows]).exp()
                kept = ratio.clamp(1 - self.clip, 1 + self.clip)
                actor_loss = -torch.minimum(ratio * gained[rows], kept * gained[rows]).mean()
                critic_loss = functional.mse_loss(network.critic(knows[rows]).squeeze(1), returns[rows])
                self.optimiser.zero_grad()
                (actor_loss + critic_loss).backward()
                nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                self.optimiser.step()
                sums += len(rows) * np.array([float(actor_loss.detach()), float(critic_loss.detach())])
        actor_loss, critic_loss = sums / (len(x) * self.epochs)
        unexplained = float(np.var(returns.numpy() - values.ravel()) / (np.var(returns.numpy()) + 1e-8))
        return {"actor_loss": actor_loss, "critic_loss": critic_loss, "unexplained": unexplained}

    def state(self):
        """Networks, optimiser, worlds and generator: a resumed training is the same to the bit."""
        arrays = {f"network/{name}": value.numpy().copy() for name, value in self.network.state_dict().items()}
        for index, moments in self.optimiser.state_dict()["state"].items():
            arrays |= {f"adam/{index}/{name}": value.numpy().copy() for name, value in moments.items()}
        arrays |= {"latest": self.latest.copy(), "environment": np.frombuffer(self.envs.get_state(), np.uint8)}
        return arrays, {
            "decisions": self.decisions,
            "updates": self.updates,
            "rng": self.rng.bit_generator.state,
        }

    def restore(self, arrays, rest):
        """Back to a `state()`."""
        names = self.network.state_dict()
        self.network.load_state_dict({name: torch.from_numpy(arrays[f"network/{name}"].copy()) for name in names})
        adam, moments = self.optimiser.state_dict(), {}
        for key in arrays:
            if key.startswith("adam/"):
                _, index, name = key.split("/")
                moments.setdefault(int(index), {})[name] = torch.from_numpy(np.array(arrays[key]))
        self.optimiser.load_state_dict({**adam, "state": moments})
        self.latest = arrays["latest"].copy()
        self.envs.set_state(arrays["environment"].tobytes())
        self.decisions, self.updates = rest["decisions"], rest["updates"]
        self.rng.bit_generator.state = rest["rng"]

    def policy(self):
        """The actor alone."""
        return self.network.policy()

    def close(self):
        """Ends the worlds."""
        self.envs.close()


def flat(array):
    """`[T, N, ...]` to a tensor `[T * N, size]`."""
    return torch.from_numpy(np.ascontiguousarray(array, np.float32).reshape(array.shape[0] * array.shape[1], -1))


def advantages(rewards, values, over, gamma, gae):
    """Generalised advantages `[T, N]` (Schulman et al. 2016).

    Where an episode or the rollout is cut off, the state before the cut stands for the one after it, of whose future
    nothing is known.
    """
    out, following, gained = np.empty_like(values), values[-1], np.zeros_like(values[-1])
    for t in reversed(range(len(rewards))):
        following, gained = np.where(over[t], values[t], following), np.where(over[t], 0, gained)
        gained = rewards[t] + gamma * following - values[t] + gamma * gae * gained
        out[t], following = gained, values[t]
    return out


def ahead_of(column, over, steps):
    """The mean `[T, N]` of the next `steps` entries of `column`, of the same episode and rollout."""
    last, ends = np.empty(column.shape, np.int64), np.full(column.shape[1], len(column) - 1)
    for t in reversed(range(len(column))):
        last[t] = ends = np.where(over[t], t, ends)
    sums = np.concatenate([np.zeros_like(column[:1], np.float64), np.cumsum(column, axis=0, dtype=np.float64)])
    start = np.arange(len(column))[:, None]
    stop = np.minimum(start + steps, last + 1)
    return ((np.take_along_axis(sums, stop, axis=0) - sums[:-1]) / (stop - start)).astype(np.float32)
