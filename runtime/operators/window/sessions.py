"""Session windows: each record opens a window as long as the gap, and windows that overlap or touch are merged.

Example:
    >>> from tidegate.runtime.stream.time import Duration
    >>> sessions = EventTimeSessionWindows.with_gap(Duration.of_millis(10))
    >>> sessions.assign_windows("record", 5, None)
    [TimeWindow(start=5, end=15)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.operators.window.assigner import (
    AssignerTools,
    MergingWindowAssigner,
)
from tidegate.runtime.operators.window.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from tidegate.runtime.operators.window.windows import Merger, TimeWindow
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.time import Duration, milliseconds

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SessionWindows",
]


class SessionWindowTimeGapExtractor(ABC):
    """Returns the session gap of a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Milliseconds, at least 1."""


GapExtractor = SessionWindowTimeGapExtractor | Callable[[Any], int]


class _Sessions(MergingWindowAssigner):
    def merge_windows(self, windows: Iterable[TimeWindow], callback: Merger) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)


class _EventTimeSessions(_Sessions):
    def get_default_trigger(self, env: Any) -> Trigger:
        """Fires when the watermark passes the end."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """True."""
        return True


class _ProcessingTimeSessions(_Sessions):
    def get_default_trigger(self, env: Any) -> Trigger:
        """Fires when the clock passes the end."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True)
class EventTimeSessionWindows(_EventTimeSessions):
    """Sessions by event time; silence of `session_gap` milliseconds ends one."""

    session_gap: int

    @staticmethod
    def with_gap(size: Duration) -> EventTimeSessionWindows:
        """Sessions with one gap for all records."""
        return EventTimeSessionWindows(milliseconds("the gap of a session", size, least=1))

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows:
        """Sessions with a gap for each record."""
        return DynamicEventTimeSessionWindows.with_dynamic_gap(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """From the record's timestamp on."""
        return [TimeWindow(timestamp, timestamp + self.session_gap)]


SessionWindows = EventTimeSessionWindows
"""Alias of `with_dynamic_gap`."""


@dataclass(frozen=True)
class ProcessingTimeSessionWindows(_ProcessingTimeSessions):
    """Sessions by processing time; silence of `session_gap` milliseconds ends one."""

    session_gap: int

    @staticmethod
    def with_gap(size: Duration) -> ProcessingTimeSessionWindows:
        """Sessions with one gap for all records."""
        return ProcessingTimeSessionWindows(milliseconds("the gap of a session", size, least=1))

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Sessions with a gap for each record."""
        return DynamicProcessingTimeSessionWindows.with_dynamic_gap(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """From now on."""
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.session_gap)]


@dataclass(frozen=True)
class DynamicEventTimeSessionWindows(_EventTimeSessions):
    """Sessions by event time with a gap for each record."""

    session_window_time_gap_extractor: Callable[[Any], int]

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows:
        """The assigner."""
        return DynamicEventTimeSessionWindows(_extractor(extractor))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """From the record's timestamp on."""
        return [TimeWindow(timestamp, timestamp + _gap(self.session_window_time_gap_extractor, element))]


@dataclass(frozen=True)
class DynamicProcessingTimeSessionWindows(_ProcessingTimeSessions):
    """Sessions by processing time with a gap for each record."""

    session_window_time_gap_extractor: Callable[[Any], int]

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows:
        """The assigner."""
        return DynamicProcessingTimeSessionWindows(_extractor(extractor))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """From now on."""
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + _gap(self.session_window_time_gap_extractor, element))]


def _extractor(given: GapExtractor) -> Callable[[Any], int]:
    stateless("with_dynamic_gap", given)
    extract = given.extract if isinstance(given, SessionWindowTimeGapExtractor) else given
    if not callable(extract):
        raise ConfigError(
            f"with_dynamic_gap takes a SessionWindowTimeGapExtractor or a function; got {type(given).__name__}"
        )
    return extract


def _gap(extract: Callable[[Any], int], element: Any) -> int:
    gap = extract(element)
    if type(gap) is not int or gap < 1:
        raise RecordError(
            f"the session gap of record {element!r} is {gap!r}; expected milliseconds as int, at least 1"
        )
    return gap
