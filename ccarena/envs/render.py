"""Picture of `render()`: the flow's rate and the link's capacity, and the queueing delay, over time."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, MissingDependencyError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FPS", "MODES", "Scope"]

MODES = ("human", "rgb_array")
FPS = 10
SHOWN_S = 30.0
"""Length of the drawn time, up to now, s."""
MOST_POINTS = 20_000
SIZE_INCHES, DPI = (7.2, 4.8), 100
# Of Okabe and Ito (2008), which stay apart for colour-blind readers.
RATE, CAPACITY, QUEUE = "#0072B2", "#c3c9d1", "#D55E00"
_NEEDED = ("own_mbps", "capacity_mbps", "queue_ms", "step_ms")


class Scope:
    """Draws an episode while it runs, as Gymnasium's modes say: `rgb_array` on request, `human` in a window.

    `privileged` names the columns that `add` gets. Where matplotlib has no window to draw in, `human` warns and shows
    nothing. Raises ConfigError for another mode, and MissingDependencyError without matplotlib.
    """

    def __init__(self, mode: str, privileged: Sequence[str], title: str) -> None:
        if mode not in MODES:
            raise ConfigError(f'unknown render_mode "{mode}"{did_you_mean(mode, MODES)}')
        self.mode = mode
        self._columns = [privileged.index(name) for name in _NEEDED]
        self._points: deque[tuple[float, ...]] = deque(maxlen=MOST_POINTS)
        self._time_s = 0.0
        self._window = _window(title) if mode == "human" else None
        self._figure = self._window or _canvas()
        rates, queue = self._figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        (self._capacity,) = rates.plot([], [], color=CAPACITY, linewidth=3, drawstyle="steps-post", label="capacity")
        (self._rate,) = rates.plot([], [], color=RATE, label="rate")
        (self._queue,) = queue.plot([], [], color=QUEUE)
        rates.set_ylabel("Mbit/s")
        rates.set_title(title)
        rates.legend(loc="upper right", ncols=2, frameon=False)
        queue.set_ylabel("queueing delay (ms)")
        queue.set_xlabel("time (s)")
        self._axes = (rates, queue)

    def clear(self) -> None:
        """Starts an episode."""
        self._points.clear()
        self._time_s = 0.0

    def add(self, privileged: NDArray[np.float32]) -> None:
        """One step: a row of the simulator's privileged state."""
        rate_mbps, capacity_mbps, queue_ms, step_ms = (float(privileged[column]) for column in self._columns)
        self._time_s += step_ms / 1e3
        self._points.append((self._time_s, rate_mbps, capacity_mbps, queue_ms))

    def draw(self) -> NDArray[np.uint8] | None:
        """Returns the picture, `uint8[height, width, 3]`; in `human` mode it is shown, and None is returned."""
        points = np.array(self._points, dtype=np.float64).reshape(-1, 4)
        points = points[points[:, 0] >= self._time_s - SHOWN_S]
        for line, column in ((self._rate, 1), (self._capacity, 2), (self._queue, 3)):
            line.set_data(points[:, 0], points[:, column])
        for axes in self._axes:
            axes.relim()
            axes.autoscale()
            axes.set_ylim(bottom=0.0)
        if self.mode == "human":
            if self._window is not None:
                self._window.canvas.draw_idle()
                self._window.canvas.flush_events()
            return None
        self._figure.canvas.draw()
        canvas: Any = self._figure.canvas
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            from matplotlib import pyplot

            pyplot.close(self._window)


def _canvas() -> Figure:
    """Returns a figure in memory, which needs no display."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError.for_extra("matplotlib", "render", "render_mode") from error
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _window(title: str) -> Figure | None:
    """Returns a figure in a window; None, with a warning, without a display."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError.for_extra("matplotlib", "render", "render_mode") from error
    figure = pyplot.figure(title, figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    if getattr(figure.canvas, "required_interactive_framework", None) is None:
        pyplot.close(figure)
        warnings.warn(
            f'render_mode "human" shows nothing: matplotlib\'s backend {pyplot.get_backend()} has no window. Start it '
            'where there is a display and a toolkit such as Tk or Qt, or take render_mode="rgb_array"',
            stacklevel=4,
        )
        return None
    pyplot.show(block=False)
    return figure
