"""Conversion of actions to the form that the native worlds take, with checks where NumPy would accept anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ActionError


def as_actions(given: Any, shape: tuple[int, ...], expected: str = "integers") -> NDArray[np.float32]:
    """Returns `given` as float32 of `shape`; the worlds check that the values are in the action space.

    `expected` names the kind of actions in errors.

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
