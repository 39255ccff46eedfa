"""What an option does is seen by two commands: one with it, and one without."""

from typing import NamedTuple

CONVERT = "traces convert table.csv --out x.trace"


class Case(NamedTuple):
    """`with_it` is seen to differ from `without`."""

    without: str
    with_it: str
    whole: bool = False
    """Nothing stands in: the command runs to its end."""


def more(without: str, extra: str, whole: bool = False) -> Case:
    return Case(without, f"{without} {extra}", whole)
