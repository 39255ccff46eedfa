"""Automatic curriculum: attacks on the policy that is being trained, whose finds join its links (`env.link.attack`).

An attack is due whenever so many decisions are over. It tries candidates on the threads of the training, follows from
the training's seed and the number of decisions, and writes its finds into the run's folder. The newest ones are drawn
from; older ones are forgotten. A checkpoint names the finds, so that a resumed training draws the same links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.agents.algorithm import Algorithm, Context
from ccarena.agents.worlds import environments
from ccarena.attacks.quick import attack_policy, check_attack
from ccarena.configs.schema import AttackConfig, TrainConfig
from ccarena.errors import CheckpointError, ConfigError
from ccarena.policies.artifact import Artifact

__all__ = ["FOLDER", "Curriculum", "check"]

FOLDER = "attacks"
"""Folder of a run with a folder of each attack, named by the number of decisions."""


def check(config: TrainConfig, algorithm: Algorithm) -> None:
    """Raises ConfigError for a training that cannot be attacked on its way."""
    attack = config.env.link.attack
    if attack is None:
        return
    if config.executor == "ray":
        raise ConfigError("env.link.attack: executor ray has worlds on other machines; expected executor: local")
    if not hasattr(algorithm, "move"):
        raise ConfigError(
            f"env.link.attack: {config.algorithm.name} has no method move(context); expected one that goes on in other "
            "worlds (ccarena.agents.algorithm), or no attacks"
        )
    try:
        check_attack(attack.harms, attack.space)
    except ConfigError as error:
        raise ConfigError(f"env.link.attack: {error}") from error


class Curriculum:
    """Finds of a training's attacks so far, in `out`."""

    def __init__(self, context: Context, attack: AttackConfig, out: Path) -> None:
        self._context, self._attack, self._out = context, attack, out
        self._attacked = 0
        self._finds: list[str] = []

    @property
    def finds(self) -> Sequence[Path]:
        """Returns the scenarios of all finds, the oldest first."""
        return [self._out / name for name in self._finds]

    def is_due(self, decisions: int) -> bool:
        """Returns whether an attack is due after this many decisions."""
        every = self._attack.every_decisions
        return decisions // every > self._attacked // every

    def refresh(self, policy: Artifact, decisions: int) -> int:
        """Attacks the policy and returns the number of new finds."""
        attack, config = self._attack, self._context.config
        seed = int(np.random.SeedSequence((config.seed, decisions)).generate_state(1)[0])
        found = attack_policy(
            policy,
            self._out / FOLDER / f"{decisions:012d}",
            harms=attack.harms,
            space=attack.space,
            candidates=attack.candidates,
            each=attack.each,
            seed=seed,
            workers=config.threads,
        )
        self._attacked = decisions
        self._finds += [file.relative_to(self._out).as_posix() for file in found]
        return len(found)

    def context(self) -> Context:
        """Returns the training's context with the newest finds among its links."""
        config = self._context.config
        newest = [str(file) for file in self.finds[-self._attack.finds :]]
        link = config.env.link.model_copy(update={"adversarial": [*config.env.link.adversarial, *newest]})
        config = config.model_copy(update={"env": config.env.model_copy(update={"link": link})})
        return replace(self._context, config=config, make_envs=environments(config))

    def state(self) -> dict[str, Any]:
        """Returns the number of decisions at the last attack, and the finds."""
        return {"attacked": self._attacked, "finds": list(self._finds)}

    def restore(self, rest: dict[str, Any]) -> None:
        """Restores a `state()`. Raises CheckpointError if a find is gone."""
        self._attacked, self._finds = int(rest["attacked"]), [str(name) for name in rest["finds"]]
        for file in self.finds[-self._attack.finds :]:
            if not file.is_file():
                raise CheckpointError(f"{file}: a find of this training is gone; restore it, or train anew")
