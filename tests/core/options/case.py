"""Cases of options: two commands, one with the option and one without, show its effect."""

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
