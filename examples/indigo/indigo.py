"""Imitation of a clairvoyant sender, as Indigo learns: a network with memory, and DAgger as the algorithm.

The expert knows the bottleneck's capacity and the path's RTT, hence the window that fills the link and no more. In each
state that the learner's own policy comes to it says which of the five operations leads nearest to that window; the
network learns to say the same from what a sender can see (Ross, Gordon, Bagnell, AISTATS 2011).
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PACKET_BITS = 12_000.0


class Memory(nn.Module):
    """A GRU cell between the observation and the logits."""

    def __init__(self, spec, outputs, hidden=32):
        super().__init__()
        self.state = {"h": (hidden,)}
        self.cell, self.out = nn.GRUCell(spec.size, hidden), nn.Linear(hidden, outputs)

    def forward(self, x, h):
        """Normalised observations `[N, size]` and memory `[N, hidden]` to logits and the memory after."""
        h = self.cell(x, h)
        return self.out(h), h


class Dagger:
    """Rolls out its own policy (at first mixed with the expert's), and learns what the expert would have done."""

    def __init__(self, context, learning_rate=1e-3, rollout=32, buffer=64, epochs=2, expert_decay=0.9):
        self.context, self.rollout, self.epochs, self.expert_decay = context, rollout, epochs, expert_decay
        torch.manual_seed(context.config.seed)
        self.network, self.normalise = context.network(context.spec.outputs), context.normalisation()
        if not getattr(self.network, "state", None):
            raise ValueError("Dagger imitates with memory: give a network that has `state`")
        self.optimiser = torch.optim.Adam(self.network.parameters(), learning_rate)
        self.envs = context.make_envs(context.rows, context.config.threads, privileged=True)
        self.observation, _ = self.envs.reset(seed=context.config.seed)
        rows, self.hidden = context.rows, self.network.state["h"][0]
        self.h = torch.zeros(rows, self.hidden)
        self.window = np.full(rows, 10.0)
        self.capacity = np.zeros(rows)
        self.rng = np.random.default_rng(context.config.seed)
        self.decisions = self.updates = 0
        # A ring of rollouts: observations, the memory before each, the expert's choices, and where episodes began.
        shape = (buffer, rollout, rows)
        self.seen = np.zeros((*shape, context.spec.size), np.float32)
        self.before = np.zeros((buffer, rows, self.hidden), np.float32)
        self.wanted, self.begins = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)

    def learn(self, run):
        """Rollouts and updates until `run` says that it is enough."""
        while run.rest():
            slot = self.updates % len(self.seen)
            stats = self._collect(slot)
            stats["actor_loss"] = self._imitate() * stats["decisions"]
            self.decisions += int(stats["decisions"])
            self.updates += 1
            run.record(stats, updates=self.updates)

    def _collect(self, slot):
        rows, share = self.context.rows, self.expert_decay**self.updates
        reward = episodes = 0.0
        self.before[slot] = self.h.numpy()
        begins = np.zeros(rows, np.bool_)
        for t in range(self.rollout):
            self.seen[slot, t], self.wanted[slot, t] = self.observation, self._expert()
            self.begins[slot, t] = begins
            with torch.no_grad():
                logits, self.h = self.network(self.normalise(torch.from_numpy(self.seen[slot, t])), self.h)
            own = logits.argmax(1).numpy()
            actions = np.where(self.rng.random(rows) < share, self.wanted[slot, t], own)
            self.observation, rewards, _, begins, infos = self.envs.step(actions)
            self._note(infos)
            self.h[torch.from_numpy(begins.copy())] = 0
            reward, episodes = reward + float(rewards.sum()), episodes + float(begins.sum())
        return {"decisions": float(rows * self.rollout), "reward": reward, "episodes": episodes}

    def _note(self, infos):
        """Remembers what the expert needs: the window, and how many packets fill the path."""
        spec, reports, privileged = self.context.spec, infos["reports"], infos["privileged"]
        capacity, rtt = (privileged[:, spec.privileged.index(name)] for name in ("capacity_mbps", "base_rtt_ms"))
        self.window = reports[:, spec.report.index("cwnd_packets")].copy()
        self.capacity = capacity * rtt * 1e3 / PACKET_BITS

    def _expert(self):
        """The operation whose window is nearest to the one that fills the link, by their logarithms."""
        w = np.maximum(self.window, 2.0)[:, None]
        after = np.concatenate([w / 2, w - 10, w, w + 10, w * 2], axis=1)
        return np.abs(np.log(np.maximum(after, 2.0)) - np.log(np.maximum(self.capacity, 2.0))[:, None]).argmin(axis=1)

    def _imitate(self):
        total, known = 0.0, min(self.updates + 1, len(self.seen))
        for _ in range(self.epochs):
            slot = int(self.rng.integers(known))
            h, losses = torch.from_numpy(self.before[slot].copy()), []
            for t in range(self.rollout):
                h = torch.where(torch.from_numpy(self.begins[slot, t])[:, None], torch.zeros(()), h)
                logits, h = self.network(self.normalise(torch.from_numpy(self.seen[slot, t])), h)
                losses.append(functional.cross_entropy(logits, torch.from_numpy(self.wanted[slot, t])))
            loss = torch.stack(losses).mean()
            self.optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimiser.step()
            total += float(loss.detach())
        return total / self.epochs

    ARRAYS = ("observation", "window", "capacity", "seen", "before", "wanted", "begins")

    def state(self):
        """Network, optimiser, worlds, memory and generator: a resumed training is the same to the bit."""
        arrays = {name: np.array(getattr(self, name)) for name in self.ARRAYS}
        arrays |= {"h": self.h.numpy().copy(), "environment": np.frombuffer(self.envs.get_state(), np.uint8)}
        arrays |= {f"network/{name}": value.numpy().copy() for name, value in self.network.state_dict().items()}
        for index, moments in self.optimiser.state_dict()["state"].items():
            arrays |= {f"adam/{index}/{name}": np.asarray(value) for name, value in moments.items()}
        counts = {"decisions": self.decisions, "updates": self.updates, "rng": self.rng.bit_generator.state}
        return arrays, counts

    def restore(self, arrays, rest):
        """Back to a `state()`."""
        for name in self.ARRAYS:
            setattr(self, name, arrays[name].copy())
        self.h = torch.from_numpy(arrays["h"].copy())
        self.envs.set_state(arrays["environment"].tobytes())
        names = self.network.state_dict()
        self.network.load_state_dict({name: torch.from_numpy(arrays[f"network/{name}"].copy()) for name in names})
        adam, moments = self.optimiser.state_dict(), {}
        for key in arrays:
            if key.startswith("adam/"):
                _, index, name = key.split("/")
                moments.setdefault(int(index), {})[name] = torch.from_numpy(np.array(arrays[key]))
        self.optimiser.load_state_dict({**adam, "state": moments})
        self.decisions, self.updates = rest["decisions"], rest["updates"]
        self.rng.bit_generator.state = rest["rng"]

    def policy(self):
        """The network, from normalised observations and memory to logits and memory."""
        return self.network

    def close(self):
        """Ends the worlds."""
        self.envs.close()
