"""Seeds: the one range that every generator involved takes."""

from __future__ import annotations

from ccarena.errors import ConfigError

__all__ = ["MOST_SEED", "check_seed"]

MOST_SEED = 2**32 - 1


def check_seed(seed: int, name: str = "seed") -> None:
    """Raises ConfigError for a seed out of range, calling it `name`."""
    if type(seed) is not int or not 0 <= seed <= MOST_SEED:
        raise ConfigError(f"{name} = {seed!r}: expected a whole number, 0 to {MOST_SEED:,}")
