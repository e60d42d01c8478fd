"""The assigners of time windows, sessions, global and count windows.

Example:
    >>> from tidegate.runtime.stream.time import Duration
    >>> windows = SlidingEventTimeWindows.of(Duration.of_millis(10), Duration.of_millis(5))
    >>> windows.assign_windows("record", 12, None)
    [TimeWindow(start=10, end=20), TimeWindow(start=5, end=15)]
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Self

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.errors import ConfigError
from tidegate.runtime.operators.window.assigner import AssignerTools, WindowAssigner
from tidegate.runtime.operators.window.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from tidegate.runtime.operators.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    WindowSerializer,
)
from tidegate.runtime.stream.time import Duration, milliseconds

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "GlobalWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
]

_SEEN: Final = ValueStateDescriptor("window:seen", default=0)


class _EventTime(WindowAssigner):
    """Base of event-time windows."""

    def get_default_trigger(self, env: Any) -> Trigger:
        """Fires when the watermark passes the end."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """True."""
        return True


class _ProcessingTime(WindowAssigner):
    """Base of processing-time windows."""

    def get_default_trigger(self, env: Any) -> Trigger:
        """Fires when the clock passes the end."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True)
class _Tumbling(WindowAssigner):
    size: int
    offset: int = 0

    @classmethod
    def of(cls, size: Duration, offset: Duration | None = None) -> Self:
        """Windows of `size`, next to each other; `offset` moves all their edges."""
        return cls(milliseconds("the size of a window", size, least=1), _offset(offset))

    def _window(self, timestamp: int) -> list[TimeWindow]:
        start = timestamp - (timestamp - self.offset) % self.size
        return [TimeWindow(start, start + self.size)]


@dataclass(frozen=True)
class _Sliding(WindowAssigner):
    size: int
    slide: int
    offset: int = 0

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration | None = None) -> Self:
        """Windows of `size`, one starting every `slide`; `offset` moves all their edges."""
        return cls(
            milliseconds("the size of a window", size, least=1),
            milliseconds("the slide of a window", slide, least=1),
            _offset(offset),
        )

    def _windows(self, timestamp: int) -> list[TimeWindow]:
        last = timestamp - (timestamp - self.offset) % self.slide
        return [
            TimeWindow(start, start + self.size) for start in range(last, timestamp - self.size, -self.slide)
        ]


class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Windows of one size next to each other, by event time."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """The one window around the record's timestamp."""
        return self._window(timestamp)


class TumblingProcessingTimeWindows(_Tumbling, _ProcessingTime):
    """Windows of one size next to each other, by the clock."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """The one window around now."""
        return self._window(context.get_current_processing_time())


class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of one size that overlap, by event time."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """All windows around the record's timestamp, the newest first."""
        return self._windows(timestamp)


class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Windows of one size that overlap, by the clock."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[TimeWindow]:
        """All windows around now, the newest first."""
        return self._windows(context.get_current_processing_time())


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner):
    """All records of a key in one window, which never ends: it needs a trigger."""

    @staticmethod
    def create() -> GlobalWindows:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[GlobalWindow]:
        """The one window."""
        return _GLOBAL

    def get_default_trigger(self, env: Any) -> Trigger:
        """Never fires."""
        return NeverTrigger()

    def is_event_time(self) -> bool:
        """False: its windows do not end by time."""
        return False

    def get_window_serializer(self) -> WindowSerializer:
        """Of `GlobalWindow`."""
        return GlobalWindowSerializer()


class _Counted(WindowAssigner):
    """Windows that end by their number of records."""

    def get_default_trigger(self, env: Any) -> Trigger:
        """Fires when the window is full, and drops it."""
        return PurgingTrigger(CountTrigger(self._full()))

    def is_event_time(self) -> bool:
        """False: its windows do not end by time."""
        return False

    def get_window_serializer(self) -> WindowSerializer:
        """Of `CountWindow`."""
        return CountWindowSerializer()

    @abstractmethod
    def _full(self) -> int:
        """The number of records in a window."""


@dataclass(frozen=True)
class CountTumblingWindowAssigner(_Counted):
    """Every `size` records of a key in a window of their own."""

    size: int

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """The assigner."""
        return CountTumblingWindowAssigner(records("size", window_size))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[CountWindow]:
        """The window that is not full yet."""
        return [CountWindow(_number(context) // self.size)]

    def _full(self) -> int:
        return self.size


@dataclass(frozen=True)
class CountSlidingWindowAssigner(_Counted):
    """A window of `size` records of a key that starts every `slide` records; only full ones fire."""

    size: int
    slide: int

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """The assigner."""
        return CountSlidingWindowAssigner(records("size", window_size), records("slide", window_slide))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerTools) -> list[CountWindow]:
        """The windows that started and are not full yet."""
        number = _number(context)
        first = max(0, (number - self.size) // self.slide + 1)
        return [CountWindow(id) for id in range(first, number // self.slide + 1)]

    def _full(self) -> int:
        return self.size


def records(what: str, given: int) -> int:
    """A number of records that a program gave.

    Raises:
        ConfigError: it is not an integer above 0.
    """
    if type(given) is not int or given < 1:
        raise ConfigError(f"the {what} of a count window is {given!r}; expected an integer of at least 1")
    return given


_GLOBAL: Final = [GlobalWindow()]


def _offset(offset: Duration | None) -> int:
    return 0 if offset is None else milliseconds("the offset of a window", offset)


def _number(context: AssignerTools) -> int:
    """Which record of its key this is, from 0."""
    state = context.get_runtime_context().get_state(_SEEN)
    number: int = state.value()
    state.update(number + 1)
    return number
