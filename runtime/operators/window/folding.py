"""Incremental aggregation: the records of a window are combined as they arrive, so that the window holds one value.

Example:
    >>> sums = Reducing(lambda a, b: a + b)
    >>> sums.result(sums.merge(sums.add(None, 1), sums.add(sums.add(None, 2), 3)))
    6
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from tidegate.errors import InternalError
from tidegate.isolation import isolate
from tidegate.runtime.operators.rows import shaped
from tidegate.runtime.stream.functions import AggregateFunction, as_callable
from tidegate.types import TypeInformation

__all__ = ["Aggregating", "Folding", "FromInitial", "Reducing"]


class Folding(ABC):
    """Combines a record with the stored value; None stands for no records."""

    interface: ClassVar[str]
    """The name of its function in plans if it has no name."""
    function: Any
    stored_type: TypeInformation | None = None

    @property
    @abstractmethod
    def combine(self) -> Callable[[Any, Any], Any]:
        """The new stored value, from the stored value and a record."""

    @abstractmethod
    def first(self, value: Any) -> Any:
        """The stored value of the first record."""

    def add(self, stored: Any, value: Any) -> Any:
        """The new stored value after a record."""
        return self.first(value) if stored is None else self.combine(stored, value)

    @abstractmethod
    def merge(self, first: Any, second: Any) -> Any:
        """The stored value of two merged windows."""

    @abstractmethod
    def result(self, stored: Any) -> Any:
        """The value for the window function."""


@dataclass(frozen=True)
class Reducing(Folding):
    """The value that a reduce function makes of all records."""

    interface = "ReduceFunction"

    function: Any
    stored_type: TypeInformation | None = None

    @cached_property
    def combine(self) -> Callable[[Any, Any], Any]:
        """The function."""
        return shaped(as_callable(self.function), self.stored_type)

    def first(self, value: Any) -> Any:
        """The record."""
        return value

    def merge(self, first: Any, second: Any) -> Any:
        """The stored value of two merged windows."""
        return self.combine(first, second)

    def result(self, stored: Any) -> Any:
        """The value."""
        return stored


@dataclass(frozen=True)
class Aggregating(Folding):
    """The accumulator of an aggregate function."""

    interface = "AggregateFunction"

    function: AggregateFunction
    stored_type: TypeInformation | None = None

    @cached_property
    def combine(self) -> Callable[[Any, Any], Any]:
        """The function, which takes the record first."""
        add = self.function.add
        return lambda stored, value: add(value, stored)

    def first(self, value: Any) -> Any:
        """The accumulator of one record."""
        return self.function.add(value, self.function.create_accumulator())

    def merge(self, first: Any, second: Any) -> Any:
        """The stored value of two merged windows."""
        return self.function.merge(first, second)

    def result(self, stored: Any) -> Any:
        """The result of the accumulator."""
        return self.function.get_result(stored)


@dataclass(frozen=True)
class FromInitial(Folding):
    """An initial value folded with all records; such values of two windows cannot be merged."""

    interface = "FoldFunction"

    function: Callable[[Any, Any], Any]
    initial: Any
    stored_type: TypeInformation | None = None

    @cached_property
    def combine(self) -> Callable[[Any, Any], Any]:
        """The function."""
        return shaped(self.function, self.stored_type)

    def first(self, value: Any) -> Any:
        """The function applied to the initial value and a record."""
        return self.combine(isolate(self.initial), value)

    def merge(self, first: Any, second: Any) -> Any:
        """Refused when the step was built."""
        raise InternalError("values of fold() cannot be merged; please report it")

    def result(self, stored: Any) -> Any:
        """The value."""
        return stored
