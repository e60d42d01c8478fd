"""Evictors: remove records from a window that fires, before or after its function is called.

With an evictor every record of a window is kept until then, even where the function could combine them one by one.

Example:
    >>> CountEvictor.of(3).evict_before([TimestampedValue(n, 0) for n in range(1, 6)], 5, None, None)[0]
    TimestampedValue(value=3, timestamp=0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tidegate.runtime.operators.window.assigners import records
from tidegate.runtime.stream.time import Duration, milliseconds

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "EvictorContext", "TimeEvictor", "TimestampedValue"]


class TimestampedValue(NamedTuple):
    """A record of a window with its timestamp."""

    value: Any
    timestamp: int | None


class EvictorContext(Protocol):
    """The context of an evictor: time."""

    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def get_current_watermark(self) -> int:
        """The current watermark."""
        ...


class Evictor(ABC):
    """Returns the records that stay in a window; the others are deleted."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The records for the window function."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The records that stay in the window."""


class _Once(Evictor):
    """Evicts either before the function or after it."""

    do_evict_after: bool

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The records for the window function."""
        return elements if self.do_evict_after else self.kept(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The records that stay in the window."""
        return self.kept(elements) if self.do_evict_after else elements

    @abstractmethod
    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        """The records that stay."""


@dataclass(frozen=True)
class CountEvictor(_Once):
    """Keeps the last `max_count` records."""

    max_count: int
    do_evict_after: bool = False

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """The evictor."""
        return CountEvictor(records("size", max_count), do_evict_after)

    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        """The records that stay."""
        return elements[-self.max_count :]


@dataclass(frozen=True)
class TimeEvictor(_Once):
    """Removes records more than `window_size` milliseconds older than the newest one of the window."""

    window_size: int
    do_evict_after: bool = False

    @staticmethod
    def of(window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """The evictor."""
        return TimeEvictor(
            milliseconds("the interval of a time evictor", window_size, least=0), do_evict_after
        )

    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        """The records that stay; all if a record has no timestamp."""
        times = [element.timestamp for element in elements if element.timestamp is not None]
        if len(times) < len(elements):
            return elements
        oldest = max(times, default=0) - self.window_size
        return [element for element, time in zip(elements, times, strict=True) if time >= oldest]


@dataclass(frozen=True)
class DeltaEvictor(_Once):
    """Removes records for which `delta_function(record, last record)` reaches `threshold`."""

    threshold: float
    delta_function: Callable[[Any, Any], float]
    do_evict_after: bool = False

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        """The evictor."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        """The records that stay."""
        last = elements[-1].value
        return [each for each in elements if self.delta_function(each.value, last) < self.threshold]
