"""The contexts user functions see, over the state of one operator in one subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.row import ValueState
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Timer
from tidegate.elements import MIN_WATERMARK
from tidegate.errors import ConfigError
from tidegate.ids import Subtask

__all__ = ["KeyedContext", "OperatorContext"]


class OperatorContext:
    """What every function can ask for in `open`."""

    def __init__(self, name: str, subtask: Subtask, parallelism: int, store: KeyedStore | None) -> None:
        self._name = name
        self._subtask = subtask
        self._parallelism = parallelism
        self._store = store

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""
        return self._subtask.index

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel instances there are."""
        return self._parallelism

    def get_task_name(self) -> str:
        """The name of the operator."""
        return self._name

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        """One value per key."""
        if self._store is None:
            raise ConfigError(
                f"operator {self._name!r} asks for state {descriptor.name!r} but its input has no key; use key_by(...) first"
            )
        return self._store.value_state(descriptor)


class KeyedContext:
    """Key, timestamp and timers of the record or timer at hand; one object, moved from record to record."""

    def __init__(self, store: KeyedStore, now_ms: Callable[[], int]) -> None:
        self.stamp: int | None = None
        self.watermark = MIN_WATERMARK
        self._store = store
        self._now_ms = now_ms

    def get_current_key(self) -> Any:
        """The canonical key."""
        return self._store.current_key

    def timestamp(self) -> int | None:
        """Event time of the record, if it has one."""
        return self.stamp

    def timer_service(self) -> KeyedContext:
        """Time and timers; the same object."""
        return self

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms()

    def current_watermark(self) -> int:
        """How far event time is."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the clock reaches `timestamp`."""
        self._store.processing_timers.register(self._timer(timestamp))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`."""
        self._store.event_timers.register(self._timer(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer of the current key."""
        self._store.processing_timers.delete(self._timer(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer of the current key."""
        self._store.event_timers.delete(self._timer(timestamp))

    def _timer(self, timestamp: int) -> Timer:
        return Timer(timestamp, self._store.current_key)
