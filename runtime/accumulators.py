"""Accumulators: values that functions add to while a job runs, shown in its result.

Accumulators of one name are one, in whatever functions and subtasks they are. They count what the last attempt has
processed: after a restart they begin again, so records before the restored checkpoint are not in them. A function may
add from a thread of its own: what is shown on the way may then lag behind, the result of the job holds everything.

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
    """Something values can be added to, in many places at once."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Take a value."""

    @abstractmethod
    def get_local_value(self) -> Any:
        """What was added here comes to."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take what was added to another one of the same class."""


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
    """A sum of integers; Python's have one size."""


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
    """One accumulator for each name; the first of a name takes the others in.

    Raises:
        ConfigError: two of one name are of different classes.
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
