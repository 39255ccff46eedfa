"""The training run of schemes with continuous actions: Stable-Baselines3 with ccarena's checkpoints and artifact."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from ccarena.agents import checkpoint, sb3
from ccarena.agents.a3c import Stats
from ccarena.agents.progress import Display, Recorder
from ccarena.agents.runs import CONFIG, EVALUATION, INTERRUPTED, POLICY, check_device, fixed, resumable, signals
from ccarena.agents.sb3_state import restore, state
from ccarena.configs import save_config
from ccarena.configs.schema import Sb3TrainConfig
from ccarena.errors import CheckpointError, ConfigError, TrainingError
from ccarena.hyvar.spec import LAYOUTS
from ccarena.policies import contract
from ccarena.policies.sb3 import to_artifact

log = logging.getLogger(__name__)

_REPORTED = ("action", "throughput_mbps", "queueing_delay_ms", "lost_packets")


def train(config: Sb3TrainConfig, resume: bool = False) -> int:
    """Trains in the folder `config.out`, evaluates, and returns the process's exit code.

    Files, interruption, resuming and errors are those of `ccarena.agents.train.train`.
    """
    out = Path(config.out or Path("runs", config.name))
    check_device(config.device)
    start = resumable(config, out) if resume else None
    if start is None:
        if (out / CONFIG).exists():
            raise ConfigError(f"out = {out}: holds a run already; go on with it by --resume, or name another folder")
        save_config(config, out / CONFIG)
    model, decisions = _learn(config, out, start)
    if decisions < config.total_decisions:
        command = shlex.join(["ccarena", "train", "--out", str(out), "--resume"])
        print(f"interrupted after {decisions:,} decisions; go on with: {command}", file=sys.stderr)
        return INTERRUPTED
    _finish(config, out, model)
    return 0


def environments(config: Sb3TrainConfig) -> gym.vector.VectorEnv:
    """The configured worlds."""
    from ccarena.envs import AuroraVectorEnv, HyvarVectorEnv, OrcaVectorEnv

    kinds = {"hyvar": HyvarVectorEnv, "orca": OrcaVectorEnv, "aurora": AuroraVectorEnv}
    # Without copies: SB3's view of the worlds copies what it hands out.
    return kinds[config.env.scheme](config.env.worlds, config.env, threads=config.threads, copy=False)


class _Stopped(Exception):
    """SB3's loop can be left between two rollouts by an exception alone, and only there is its state complete."""


def _learn(config: Sb3TrainConfig, out: Path, start: checkpoint.Checkpoint | None) -> tuple[BaseAlgorithm, int]:
    """Trains to the end, or until a signal; the last checkpoint is that of the returned model. How far it came."""
    # Networks this small lose more to a thread pool than they gain, and one thread is what makes sums reproducible.
    torch.set_num_threads(1)
    envs = environments(config)
    with ExitStack() as stack:
        stack.enter_context(closing(envs))
        model = sb3.build(config, envs)
        recorder, elapsed_s = Recorder(out, config.total_decisions), 0.0
        if start is not None:
            try:
                restore(model, start.part("model"), start.rest["model"])
                recorder.restore(start.rest["recorder"])
                elapsed_s = start.rest["elapsed_s"]
            except (KeyError, ValueError, RuntimeError) as error:
                raise CheckpointError(f"{out}: the checkpoint does not fit this configuration: {error}") from error
        if model.num_timesteps < config.total_decisions:
            stack.enter_context(closing(recorder))
            interrupted = stack.enter_context(signals())
            display = stack.enter_context(closing(Display(config.total_decisions, model.num_timesteps)))
            callback = _Progress(config, out, recorder, display, interrupted, elapsed_s)
            try:
                left = config.total_decisions - model.num_timesteps
                model.learn(left, callback, log_interval=sys.maxsize, reset_num_timesteps=start is None)
            except _Stopped:
                pass
            callback.save()
        return model, model.num_timesteps


class _Progress(BaseCallback):
    """Records, shows, saves and stops, in SB3's loop."""

    def __init__(
        self,
        config: Sb3TrainConfig,
        out: Path,
        recorder: Recorder,
        display: Display,
        interrupted: threading.Event,
        elapsed_s: float,
    ) -> None:
        super().__init__()
        self._config, self._out = config, out
        self._recorder, self._display, self._interrupted = recorder, display, interrupted
        self._elapsed_s, self._began_s = elapsed_s, time.monotonic()
        self._saved_s = self._began_s
        self._columns = [LAYOUTS[config.env.scheme].report_fields.index(name) for name in _REPORTED]

    def _on_rollout_start(self) -> None:
        if self._interrupted.is_set():
            raise _Stopped
        now_s = time.monotonic()
        if now_s - self._saved_s >= self._config.checkpoint_every_s:
            self._saved_s = now_s
            try:
                self.save()
            except CheckpointError as error:
                log.warning("%s; training goes on", error)

    def _on_step(self) -> bool:
        worlds: Any = self.training_env
        stats = self._stats(worlds.rewards, worlds.infos, self.locals["infos"])
        losses = {name.partition("/")[2]: value for name, value in self.logger.name_to_value.items()}
        for name, known in (
            ("actor_loss", "actor_loss"),
            ("critic_loss", "critic_loss"),
            ("policy_gradient_loss", "policy_loss"),
            ("value_loss", "value_loss"),
        ):
            if name in losses:
                if not np.isfinite(losses[name]):
                    raise TrainingError(
                        f"after {self.num_timesteps} decisions: the {known} is not finite; lower agent.learning_rate, "
                        "and resume from the checkpoint"
                    )
                stats[known] = float(losses[name]) * stats["decisions"]
        self._recorder.add(
            stats,
            decisions=self.num_timesteps,
            updates=int(getattr(self.model, "_n_updates", 0)),
            elapsed_s=round(self._elapsed_s + time.monotonic() - self._began_s, 3),
        )
        self._display.update(self.num_timesteps, stats)
        return True

    def _stats(self, rewards: NDArray[np.float32], native: dict[str, Any], each: list[dict[str, Any]]) -> Stats:
        ended = [info["episode"] for info in each if "episode" in info]
        sums = native["reports"][:, self._columns].sum(axis=0, dtype=np.float64).tolist()
        return {
            "decisions": float(len(rewards)),
            "reward": float(rewards.sum(dtype=np.float64)),
            "episodes": float(len(ended)),
            "return": float(sum(episode["r"] for episode in ended)),
            "episode_decisions": float(sum(episode["l"] for episode in ended)),
            "interval_s": float(native["interval_s"].sum(dtype=np.float64)),
            **dict(zip(_REPORTED, sums, strict=True)),
        }

    def save(self) -> None:
        """Writes a checkpoint. Raises CheckpointError."""
        arrays, rest = state(self.model)
        whole = {
            "config": fixed(self._config),
            "model": rest,
            "recorder": self._recorder.state(),
            "elapsed_s": self._elapsed_s + time.monotonic() - self._began_s,
        }
        checkpoint.save(self._out, checkpoint.Checkpoint({f"model.{k}": a for k, a in arrays.items()}, whole))


def _finish(config: Sb3TrainConfig, out: Path, model: BaseAlgorithm) -> None:
    """Saves the policy, evaluates it, and saves the figures with it."""
    trained_for, training = contract.scheme(LAYOUTS[config.env.scheme].id), config.model_dump(mode="json")
    to_artifact(model, trained_for, training=training).save(out / POLICY)
    print(f"policy: {out / POLICY}")
    if not config.eval.suites:
        return
    from ccarena.eval.hybrids import evaluate_run

    verdict = evaluate_run(out, config)
    figures = json.loads((out / EVALUATION).read_text(encoding="utf-8"))
    to_artifact(model, trained_for, training=training, evaluation=figures).save(out / POLICY)
    print(verdict)
