"""Result files: written whole or not at all, with numbers that JSON can hold."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.errors import ConfigError

__all__ = ["plain", "write_atomically"]


def plain(value: Any) -> Any:
    """Its JSON form: arrays as lists, numbers that are not finite as null, floats to 6 significant digits."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) in one step, making its folder if need be. Raises ConfigError if it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot write: {error.strerror}; give another folder or free space") from error
