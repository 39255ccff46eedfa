"""`render()`: what the picture shows, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: render() not tested (run make)")
pytest.importorskip("matplotlib", reason="MATPLOTLIB IS NOT INSTALLED: render() not tested (ccarena[render])")

import matplotlib

import ccarena  # noqa: F401  (registers the environments)
from ccarena.envs.render import CAPACITY, QUEUE, RATE, Scope
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.extras import how_to_add

SCENARIO = {
    "duration_s": 4,
    "links": [{"service": {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 24}, {"at_s": 2, "rate_mbps": 6}]}}],
    "flows": [{"scheme": "acct"}],
}


def of_colour(picture: np.ndarray, colour: str) -> int:
    """Pixels of exactly this colour."""
    return int((picture == [int(colour[at : at + 2], 16) for at in (1, 3, 5)]).all(axis=2).sum())


def test_the_picture_grows_with_the_episode_and_starts_anew() -> None:
    env = gymnasium.make("ccarena/Acct-v0", scenario=SCENARIO, render_mode="rgb_array")
    env.reset(seed=1)
    seen = []
    over = False
    while not over:
        _, _, _, over, _ = env.step(3)
        if over or not seen:
            picture = env.render()
            assert isinstance(picture, np.ndarray) and picture.shape == (480, 720, 3) and picture.dtype == np.uint8
            seen.append([of_colour(picture, colour) for colour in (RATE, CAPACITY, QUEUE)])
    assert all(last > first + 100 for first, last in zip(seen[0], seen[-1], strict=True))
    env.reset()
    env.step(3)
    again = env.render()
    assert isinstance(again, np.ndarray) and of_colour(again, QUEUE) < 100
    env.close()


def test_what_is_drawn_is_what_the_simulator_knows() -> None:
    privileged = ("capacity_mbps", "queue_ms", "own_mbps", "step_ms")
    scope = Scope("rgb_array", privileged, "test")
    for row in ([24, 1, 12, 500], [6, 30, 5, 1500]):
        scope.add(np.array(row, np.float32))
    scope.draw()
    assert scope._rate.get_xydata().tolist() == [[0.5, 12], [2.0, 5]]
    assert scope._capacity.get_xydata().tolist() == [[0.5, 24], [2.0, 6]]
    assert scope._queue.get_xydata().tolist() == [[0.5, 1], [2.0, 30]]


def test_rendering_does_not_change_the_episode() -> None:
    drawn = gymnasium.make("ccarena/Acct-v0", render_mode="rgb_array")
    plain = gymnasium.make("ccarena/Acct-v0")
    assert (drawn.reset(seed=3)[0] == plain.reset(seed=3)[0]).all()
    for _ in range(5):
        one, other = drawn.step(2), plain.step(2)
        drawn.render()
        assert (one[0] == other[0]).all() and one[1] == other[1]


def test_axes_follow_what_is_drawn() -> None:
    scope = Scope("rgb_array", ("own_mbps", "capacity_mbps", "queue_ms", "step_ms"), "test")
    for rate in (1.0, 40.0):
        scope.add(np.array([rate, rate, rate, 10.0], np.float32))
        scope.draw()
        assert all(axes.get_ylim()[0] == 0.0 and rate <= axes.get_ylim()[1] <= 1.2 * rate for axes in scope._axes)


@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="XVFB IS NOT INSTALLED: no window tested (apt: xvfb)")
def test_a_window_shows_the_episode() -> None:
    pytest.importorskip("tkinter", reason="PYTHON HAS NO TK: no window tested")
    picture = "import os; from PIL import ImageGrab; image = ImageGrab.grab(xdisplay=os.environ['DISPLAY'])"
    code = f"""
import ccarena, gymnasium
env = gymnasium.make("ccarena/Acct-v0", render_mode="human")
env.reset(seed=1)
for _ in range(20):
    env.step(2)
{picture}
assert len(image.getcolors(1 << 16)) > 20, "nothing is shown"
"""
    command = ["xvfb-run", "--auto-servernum", sys.executable, "-c", code]
    ended = subprocess.run(command, env=os.environ | {"MPLBACKEND": "TkAgg"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_what_cannot_be_drawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    env = gymnasium.make("ccarena/Acct-v0", disable_env_checker=True).unwrapped
    with pytest.raises(ConfigError, match='make it with render_mode="rgb_array"'):
        env.render()
    with pytest.raises(ConfigError, match='unknown render_mode "rgb_aray"; did you mean "rgb_array"'):
        Scope("rgb_aray", ("own_mbps",), "test")
    matplotlib.use("agg")
    with pytest.warns(UserWarning, match=r'"human" shows nothing: matplotlib.s backend agg has no window.*rgb_array'):
        gymnasium.make("ccarena/Acct-v0", render_mode="human")
    for name in ("matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=re.escape(how_to_add("render"))):
        gymnasium.make("ccarena/Acct-v0", render_mode="rgb_array")
