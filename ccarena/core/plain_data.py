"""Results as plain data that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Returns `value` as JSON data: arrays become lists, numbers that are not finite null, floats have 6 significant
    digits.
    """
    # Most are of these types themselves, which are told faster than others.
    kind = type(value)
    if kind is float:
        return _number(value)
    if kind in (str, int, bool, NoneType):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.dtype.kind == "f":
            return [_number(item) for item in value.tolist()]
        return [plain(item) for item in value.tolist()]
    if isinstance(value, (float, np.floating)):
        return _number(float(value))
    return value.item() if isinstance(value, np.generic) else value


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
