"""Training against attacks on its own policy: the same bytes across an interruption, with a cap and forgetting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.agents import train as training
from ccarena.agents.algorithm import Context
from ccarena.agents.curriculum import FOLDER, Curriculum, check
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.link_distribution import distribution_json
from ccarena.errors import CheckpointError, ConfigError
from ccarena.policies.artifact import load
from ccarena.policies.spec import spec_of

pytest.importorskip(
    "ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training against attacks not tested (run make)"
)

SPACE = {
    "duration_s": 2.5,
    "parameters": {
        "rate_mbps": {"log_uniform": [3, 12]},
        "buffer_bdp": {"log_uniform": [0.1, 1]},
        "loss": {"uniform": [0.02, 0.05]},
        "beside": ["nobody"],
        "application": ["bulk"],
    },
}
ATTACK = {"every_decisions": 200, "candidates": 4, "each": 2, "finds": 3, "harms": ["regret", "idle_link"]}
ALGORITHMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a3c": ("acct", {"name": "a3c", "rollout_length": 8}, 600),
    "es": ("hyvar", {"name": "es", "population": 4, "links": 2}, 700),
    "PPO": ("hyvar", {"name": "PPO", "n_steps": 8, "batch_size": 16, "n_epochs": 1, "discount": "time"}, 600),
    "TD3": ("hyvar", {"name": "TD3", "learning_starts": 60, "train_freq": 4, "buffer_size": 400, "batch_size": 8}, 600),
}
"""Scheme, algorithm and length by name."""


def configuration(out: Path, name: str, **changes: Any) -> TrainConfig:
    scheme, algorithm, decisions = ALGORITHMS[name]
    settings = {
        "total_decisions": decisions,
        "algorithm": algorithm,
        "network": {"name": "mlp", "hidden": [8]},
        "env.worlds": 8,
        "env.episode_s": [0.5, 1],
        "env.link.rate_mbps": [6, 12],
        "env.link.kinds": {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0, "adversarial": 1},
        "env.link.attack": {**ATTACK, "space": SPACE},
        "validation.kinds": [],
        "eval.link_sets": [],
        "out": str(out),
    }
    return load_config(scheme, settings | {key.replace("__", "."): value for key, value in changes.items()})


def stop_after_an_attack(patch: pytest.MonkeyPatch) -> None:
    rest = training._Run.rest

    def interrupted(self: training._Run) -> bool:
        if self._attacks is not None and self._attacks.finds:
            self._interrupted.set()
        return rest(self)

    patch.setattr(training._Run, "rest", interrupted)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_an_interruption_does_not_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert training.train(configuration(whole, name)) == 0
    with monkeypatch.context() as patch:
        stop_after_an_attack(patch)
        assert training.train(configuration(parts, name, threads=1)) == training.INTERRUPTED
    attacks = sorted(each.name for each in (parts / FOLDER).iterdir())
    assert attacks and int(attacks[0]) >= 200
    assert training.train(configuration(parts, name, threads=3), resume=True) == 0

    one, two = (load(out / "policy.safetensors") for out in (whole, parts))
    assert all(np.array_equal(one.tensors[key], two.tensors[key]) for key in one.tensors)
    assert one.trained_on == two.trained_on
    finds = [each for each in one.trained_on if each["kind"] == "find"]
    assert len(finds) >= 2, "the attacks found nothing: the test tests nothing"
    folders = sorted(each.name for each in (whole / FOLDER).iterdir())
    assert folders == sorted(each.name for each in (parts / FOLDER).iterdir()) and len(folders) >= 2
    for folder in folders:
        files = [json.dumps(sorted(p.name for p in (out / FOLDER / folder).iterdir())) for out in (whole, parts)]
        assert files[0] == files[1]


def test_finds_change_what_is_learned(tmp_path: Path) -> None:
    """Without finds the same training ends elsewhere: its worlds do draw them."""
    nothing = {**ATTACK, "space": SPACE, "every_decisions": 10**6}
    with_finds, without = tmp_path / "with", tmp_path / "without"
    training.train(configuration(with_finds, "a3c"))
    training.train(configuration(without, "a3c", env__link__attack=nothing))
    one, two = (load(out / "policy.safetensors").tensors for out in (with_finds, without))
    assert any(not np.array_equal(one[key], two[key]) for key in one)
    assert not (without / FOLDER).exists()


def test_the_oldest_finds_are_forgotten(tmp_path: Path) -> None:
    config = configuration(tmp_path, "a3c")
    training.train(config)
    every = sorted(path for path in (tmp_path / FOLDER).glob("*/*-*.yaml"))
    names = [path.relative_to(tmp_path).as_posix() for path in every]
    assert len(names) > ATTACK["finds"], "the attacks found too little"

    assert config.env.link.attack is not None
    attacks = Curriculum(Context(config, spec_of(config), lambda *_: None), config.env.link.attack, tmp_path)
    assert attacks.context().config.env.link.adversarial == []
    attacks.restore({"attacked": 400, "finds": names})
    assert not attacks.is_due(599) and attacks.is_due(600)
    drawn = attacks.context().config
    assert drawn.env.link.adversarial == [str(path) for path in every[-3:]]
    assert len(json.loads(distribution_json(drawn))["link"]["adversarial"]) == 3
    every[-1].unlink()
    with pytest.raises(CheckpointError, match="a find of this training is gone"):
        attacks.restore(attacks.state())


class Own:
    """Algorithm of a user's own without `move`."""


def test_what_cannot_be_attacked_is_refused_by_name(tmp_path: Path) -> None:
    for changes, error in (
        ({"executor": "ray"}, "env.link.attack: executor ray"),
        ({"env__link__attack": {"harms": ["regrets"]}}, 'env.link.attack: unknown harm "regrets"; did you mean'),
        ({"env__link__attack": {"space": {"parameters": {"rate_mbps": []}}}}, "env.link.attack: .*rate_mbps"),
        (
            {"env__link__attack": {"harms": ["unfair"], "space": SPACE}},
            "env.link.attack: harm unfair: the space has no",
        ),
    ):
        config = configuration(tmp_path, "a3c", **changes)
        with pytest.raises(ConfigError, match=error):
            check(config, type("Movable", (), {"move": None})())
    with pytest.raises(ConfigError, match=r"env.link.attack: .* has no method move\(context\)"):
        check(configuration(tmp_path, "a3c"), Own())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"env.link.attack: .* leave out make_envs"):
        training.train(configuration(tmp_path / "own", "a3c"), make_envs=lambda *_: None)
    assert not (tmp_path / "own").exists()
    with pytest.raises(ConfigError, match='"attack" has no effect without a weight'):
        configuration(tmp_path, "a3c", env__link__kinds={"constant": 1})
