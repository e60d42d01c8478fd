"""Collected results: the records of a stream in the program that built it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Generic, Self

from tidegate.runtime.stream.generics import T

__all__ = ["CloseableIterator"]


class CloseableIterator(Iterator[T], Generic[T]):
    """Runs the program at the first record asked for; closing it drops what was not read.

    Example:
        >>> with CloseableIterator(n for n in [1, 2]) as results:
        ...     next(results)
        1
    """

    def __init__(self, records: Generator[T]) -> None:
        self._records = records

    def __next__(self) -> T:
        return next(self._records)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def next(self) -> T:
        """The next record; raises `StopIteration` behind the last."""
        return next(self)

    def close(self) -> None:
        """Forget the rest."""
        self._records.close()
