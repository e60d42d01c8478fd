"""Accumulators: values that functions add to while a job runs, shown in its result.

Accumulators with the same name are merged over all functions and subtasks. They count what the current attempt has
processed: a restart resets them, so records before the restored checkpoint are not in them. A function may add values
in its own thread: values shown while the job runs may lag behind, the result of the job is complete.

Example:
    >>> mine, theirs = IntCounter(), IntCounter()
    >>> mine.add(2), theirs.add(3)
    (None, None)
    >>> mine.merge(theirs)
    >>> mine.get_local_value()
    5
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tidegate.errors import ConfigError

__all__ = ["Accumulator", "DoubleCounter", "Histogram", "IntCounter", "LongCounter", "merged"]


class Accumulator(ABC):
    """A value that is added up in many subtasks and merged."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Add a value."""

    @abstractmethod
    def get_local_value(self) -> Any:
        """The accumulated value of this instance."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add the value of another accumulator of the same class."""


class IntCounter(Accumulator):
    """A sum of integers."""

    def __init__(self, value: int = 0) -> None:
        self._value = value

    def add(self, value: int) -> None:
        """Add a number."""
        self._value += value

    def get_local_value(self) -> int:
        """The sum."""
        return self._value

    def merge(self, other: IntCounter) -> None:
        """Add the other sum."""
        self._value += other._value


class LongCounter(IntCounter):
    """A sum of integers; the same as `IntCounter`, because Python integers have no size."""


class DoubleCounter(Accumulator):
    """A sum of floats."""

    def __init__(self, value: float = 0.0) -> None:
        self._value = value

    def add(self, value: float) -> None:
        """Add a number."""
        self._value += value

    def get_local_value(self) -> float:
        """The sum."""
        return self._value

    def merge(self, other: DoubleCounter) -> None:
        """Add the other sum."""
        self._value += other._value


class Histogram(Accumulator):
    """How often each integer was added."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count a value."""
        self._counts[value] += 1

    def get_local_value(self) -> dict[int, int]:
        """The counts, in the order of the values."""
        return dict(sorted(self._counts.items()))

    def merge(self, other: Histogram) -> None:
        """Add the other counts."""
        self._counts.update(other._counts)


def merged(named: Iterable[tuple[str, Accumulator]]) -> dict[str, Accumulator]:
    """One accumulator for each name; the others of a name are merged into the first.

    Raises:
        ConfigError: two accumulators with one name have different classes.
    """
    totals: dict[str, Accumulator] = {}
    for name, each in named:
        total = totals.setdefault(name, each)
        if type(total) is not type(each):
            raise ConfigError(
                f"accumulator {name!r} has two types: {type(total).__name__} in one function and {type(each).__name__} in "
                "another; give the accumulators different names"
            )
        if total is not each:
            total.merge(each)
    return totals
