"""Triggers: when a window is evaluated, and when its contents are dropped. A trigger is called for one window of one key.

A trigger object has no state: it is shared by all windows, and keeps its state in `ctx.get_partitioned_state(...)`,
which belongs to the current window.

Example:
    >>> PurgingTrigger.of(CountTrigger.of(100))
    PurgingTrigger(nested_trigger=CountTrigger(window_size=100))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias

from tidegate.backends.keyed.descriptors import StateDescriptor, ValueStateDescriptor
from tidegate.elements import MAX_WATERMARK
from tidegate.errors import ConfigError
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.stream.generics import T, W
from tidegate.runtime.stream.time import Duration, milliseconds

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EventTimeTrigger",
    "MergeTools",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
    "TriggerTools",
]

_COUNT: Final = ValueStateDescriptor("count")
_NEXT: Final = ValueStateDescriptor("fire-time")
_LAST: Final = ValueStateDescriptor("last-element")


class TriggerResult(Enum):
    """The result of a trigger: whether the window is evaluated, and whether its contents are dropped then."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window is evaluated."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the contents are dropped."""
        return self.value[1]


class TriggerTools(Protocol):
    """The context of a trigger: time, timers and state of the current window."""

    def get_metric_group(self) -> MetricGroup:
        """Metrics of the step."""
        ...

    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def get_current_watermark(self) -> int:
        """The current watermark."""
        ...

    def register_processing_time_timer(self, time: int) -> None:
        """Call `on_processing_time` when the clock reaches `time`."""
        ...

    def register_event_time_timer(self, time: int) -> None:
        """Call `on_event_time` when the watermark reaches `time`."""
        ...

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing-time timer."""
        ...

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event-time timer."""
        ...

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of this window and key."""
        ...


class MergeTools(TriggerTools, Protocol):
    """The context of a window that others were just merged into."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the states of the merged windows; the kind of state must support it."""
        ...

    def merged_values(self, state_descriptor: ValueStateDescriptor) -> list[Any]:
        """The values of the merged windows that have one."""
        ...


class Trigger(ABC, Generic[T, W]):
    """Decides when a window is evaluated; `on_merge` is needed with session windows only."""

    TriggerContext: TypeAlias = TriggerTools
    OnMergeContext: TypeAlias = MergeTools

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerTools) -> TriggerResult:
        """A record was added to the contents of the window."""

    def on_processing_time(self, time: int, window: W, ctx: TriggerTools) -> TriggerResult:
        """A processing-time timer of the window is due."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: TriggerTools) -> TriggerResult:
        """An event-time timer of the window is due."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Whether its windows may be merged."""
        return False

    def on_merge(self, window: W, ctx: MergeTools) -> None:
        """Others were merged into `window`; merge their states and set its timers."""

    def clear(self, window: W, ctx: TriggerTools) -> None:
        """The window ends: delete its timers and states."""


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and for every late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires at once if the window has ended."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Its windows may be merged."""
        return True

    def on_merge(self, window: Any, ctx: MergeTools) -> None:
        """Sets a timer for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """Deletes the timer of the end."""
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Sets a timer for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Its windows may be merged."""
        return True

    def on_merge(self, window: Any, ctx: MergeTools) -> None:
        """Sets a timer for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """Deletes the timer of the end."""
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class _Continuous(Trigger):
    """Fires at every multiple of an interval within the window, and at its end."""

    interval: int

    def can_merge(self) -> bool:
        """Its windows may be merged."""
        return True

    def on_merge(self, window: Any, ctx: MergeTools) -> None:
        """Sets a timer for the earliest time of the merged windows."""
        following = min(ctx.merged_values(_NEXT), default=None)
        if following is not None:
            self._wait(following, window, ctx)

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """Deletes the timers of the next multiple and of the end."""
        state = ctx.get_partitioned_state(_NEXT)
        if state.value() is not None:
            self._delete(state.value(), ctx)
            state.clear()
        self._delete(window.max_timestamp(), ctx)

    def _begin(self, time: int, window: Any, ctx: TriggerTools) -> None:
        if window.max_timestamp() < MAX_WATERMARK:
            self._register(window.max_timestamp(), ctx)
        if ctx.get_partitioned_state(_NEXT).value() is None:
            self._wait(time - time % self.interval + self.interval, window, ctx)

    def _on_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        if ctx.get_partitioned_state(_NEXT).value() != time:
            return TriggerResult.CONTINUE
        self._wait(time + self.interval, window, ctx)
        return TriggerResult.FIRE

    def _wait(self, following: int, window: Any, ctx: TriggerTools) -> None:
        # The time is stored even if it is after the end, because the window may become longer.
        ctx.get_partitioned_state(_NEXT).update(following)
        if following < window.max_timestamp():
            self._register(following, ctx)

    @abstractmethod
    def _register(self, time: int, ctx: TriggerTools) -> None:
        """Set a timer."""

    @abstractmethod
    def _delete(self, time: int, ctx: TriggerTools) -> None:
        """Delete a timer."""


class ContinuousEventTimeTrigger(_Continuous):
    """Fires at every multiple of `interval` milliseconds of event time within the window, and at its end."""

    @staticmethod
    def of(interval: Duration) -> ContinuousEventTimeTrigger:
        """The trigger."""
        return ContinuousEventTimeTrigger(milliseconds("the interval of a trigger", interval, least=1))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires at once if the window has ended."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires, and sets a timer for the next multiple."""
        return self._on_time(time, window, ctx)

    def _register(self, time: int, ctx: TriggerTools) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerTools) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at every multiple of `interval` milliseconds of the clock within the window, and at its end."""

    @staticmethod
    def of(interval: Duration) -> ContinuousProcessingTimeTrigger:
        """The trigger."""
        return ContinuousProcessingTimeTrigger(milliseconds("the interval of a trigger", interval, least=1))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Sets a timer for the next multiple."""
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Fires, and sets a timer for the next multiple."""
        return self._on_time(time, window, ctx)

    def _register(self, time: int, ctx: TriggerTools) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: TriggerTools) -> None:
        ctx.delete_processing_time_timer(time)


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Fires at every `window_size`-th record."""

    window_size: int

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """The trigger."""
        if type(window_size) is not int or window_size < 1:
            raise ConfigError(
                f"a count trigger fires every {window_size!r} records; expected an integer of at least 1"
            )
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Counts the record."""
        return self._reached((ctx.get_partitioned_state(_COUNT).value() or 0) + 1, ctx)

    def can_merge(self) -> bool:
        """Its windows may be merged."""
        return True

    def on_merge(self, window: Any, ctx: MergeTools) -> None:
        """Adds the counts."""
        ctx.get_partitioned_state(_COUNT).update(sum(ctx.merged_values(_COUNT)) or None)

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """Deletes the count."""
        ctx.get_partitioned_state(_COUNT).clear()

    def _reached(self, count: int, ctx: TriggerTools) -> TriggerResult:
        state = ctx.get_partitioned_state(_COUNT)
        if count >= self.window_size:
            state.clear()
            return TriggerResult.FIRE
        state.update(count)
        return TriggerResult.CONTINUE


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Fires when `delta_function(record of the last firing, record)` is above `threshold`."""

    threshold: float
    delta_function: Callable[[Any, Any], float]

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float]) -> DeltaTrigger:
        """The trigger."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Compares the record with that of the last firing; stores the first one."""
        state = ctx.get_partitioned_state(_LAST)
        last = state.value()
        if last is None:
            state.update(element)
        elif self.delta_function(last, element) > self.threshold:
            state.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """Deletes the record."""
        ctx.get_partitioned_state(_LAST).clear()


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Drops the contents whenever its nested trigger fires."""

    nested_trigger: Trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """The trigger."""
        if not isinstance(nested_trigger, Trigger):
            raise ConfigError(f"a purging trigger takes a Trigger; got {type(nested_trigger).__name__}")
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """The result of the nested trigger, with a purge."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """The result of the nested trigger, with a purge."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """The result of the nested trigger, with a purge."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """As the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: MergeTools) -> None:
        """As the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerTools) -> None:
        """As the nested trigger."""
        self.nested_trigger.clear(window, ctx)


@dataclass(frozen=True)
class NeverTrigger(Trigger):
    """Never fires; the default of global windows."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerTools) -> TriggerResult:
        """Never fires."""
        return TriggerResult.CONTINUE


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result
