"""Actions in the form that the native worlds take, checked where NumPy would accept anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ActionError


def as_actions(given: Any, shape: tuple[int, ...], expected: str = "integers") -> NDArray[np.float32]:
    """`given` as float32 of `shape`; that the values are in the action space is for the worlds to check.

    `expected` is what an error says that actions are.

    Raises:
        ActionError: it has another shape, or is not made of numbers.
    """
    try:
        actions = np.asarray(given)
    except ValueError as error:
        raise ActionError(f"actions are ragged ({error}); expected an array of shape {shape}") from error
    if actions.shape != shape:
        raise ActionError(f"actions have shape {actions.shape}; expected {shape}")
    if actions.dtype.kind not in "iuf":
        raise ActionError(f"actions are of type {actions.dtype}; expected {expected}")
    return actions.astype(np.float32)
