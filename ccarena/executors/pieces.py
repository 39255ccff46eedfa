"""Definitions that all executors share: the outcome of a piece, and the executor's interface.

A piece is one independent task: the argument of one call of a work function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["Done", "Executor"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Done(Generic[Outcome]):
    """Outcome of a piece that has ended, with a result or with an error."""

    index: int
    """Index of the piece in the given sequence."""
    answer: Callable[[], Outcome]

    def result(self) -> Outcome:
        """Returns the work's result. Raises the work's exception, or WorkerError if the piece killed its worker."""
        return self.answer()

    @classmethod
    def returned(cls, index: int, result: Outcome) -> Done[Outcome]:
        """Returns the outcome of a piece whose work returned."""
        return cls(index, lambda: result)

    @classmethod
    def failed(cls, index: int, error: BaseException) -> Done[Outcome]:
        """Returns the outcome of a piece whose work raised, or whose worker died."""

        def answer() -> Outcome:
            raise error

        return cls(index, answer)


class Executor(Protocol):
    """Interface of whatever runs pieces of work."""

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Generator[Done[Result], None, None]:
        """Yields each piece exactly once, when it is finished. Closing the generator ends running pieces.

        On processes and clusters `work` and the pieces are pickled.
        """
