"""What all executors share: a piece that is over, and who runs pieces."""

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
    """A piece that is over."""

    index: int
    """Its place among the pieces."""
    answer: Callable[[], Outcome]

    def result(self) -> Outcome:
        """What the work returned. Raises what it raised, or WorkerError if it killed its worker."""
        return self.answer()

    @classmethod
    def returned(cls, index: int, result: Outcome) -> Done[Outcome]:
        """The work returned."""
        return cls(index, lambda: result)

    @classmethod
    def failed(cls, index: int, error: BaseException) -> Done[Outcome]:
        """The work raised, or its worker died."""

        def answer() -> Outcome:
            raise error

        return cls(index, answer)


class Executor(Protocol):
    """Who runs pieces."""

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Generator[Done[Result], None, None]:
        """Each piece once it is over, exactly once. Closing the generator ends what still runs.

        On processes and clusters `work` and the pieces are pickled.
        """
