"""Shared parts of the sections of a configuration: exact types, ranges, lenient text and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

MOST_COUNT = 10**15
"""Most decisions that a configuration counts: 30 years at a million a second."""


@dataclass(frozen=True)
class Range:
    """Metadata of a `(low, high)` field: one number stands for both ends; both lie within `low`..`high`."""

    low: float
    high: float
    integer: bool = False

    def parse(self, value: Any) -> tuple[float, float]:
        """Returns `value` (a number or two of them) as a pair. Raises ValueError if it is not allowed."""
        pair = list(value) if isinstance(value, (list, tuple)) else [value, value]
        kinds = int if self.integer else (int, float)
        if len(pair) != 2 or not all(isinstance(end, kinds) and not isinstance(end, bool) for end in pair):
            raise ValueError
        low, high = pair
        if not self.low <= low <= high <= self.high:  # also refuses NaN
            raise ValueError
        return (low, high) if self.integer else (float(low), float(high))

    def __str__(self) -> str:
        """Returns the expectation, for messages and documentation."""
        noun = "whole number" if self.integer else "number"
        return f"a {noun} or a pair [low, high] with low <= high, within {self.low:.10g} to {self.high:.10g}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)


def _as_text(value: Any) -> Any:
    """Returns a number as text: YAML reads `--name 7` as a number, which is also a valid name."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _as_whole(value: Any) -> Any:
    """Returns a whole float as an integer: YAML reads `1e6`, the natural way to write a long training, as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, BeforeValidator(_as_text)]
Count = Annotated[int, BeforeValidator(_as_whole), Field(le=MOST_COUNT)]
Pair = tuple[float, float]
IntPair = tuple[int, int]


class Section(BaseModel):
    """Section of the configuration: immutable, of exact types, without unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )
