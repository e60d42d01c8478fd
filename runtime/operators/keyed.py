"""A keyed process function at work in one subtask: its state, its timers, its context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.backends.keyed.store import KeyedStore
from tidegate.clock import Clock
from tidegate.runtime.operators.context import KeyedContext
from tidegate.runtime.stream.functions import KeyedProcessFunction
from tidegate.serde import isolate

__all__ = ["KeyedProcess"]


class KeyedProcess:
    """Runs timers of a `KeyedProcessFunction`; its records are run by the generated loop."""

    def __init__(self, function: KeyedProcessFunction, store: KeyedStore, clock: Clock) -> None:
        self.function = function
        self.store = store
        self.context = KeyedContext(store, clock.now_ms)

    def advance_watermark(self, timestamp: int) -> tuple[list[Any], list[int]]:
        """What the event-time timers due by `timestamp` emit, with their times."""
        self.context.watermark = timestamp
        results: list[Any] = []
        times: list[int] = []
        for timer in self.store.event_timers.due(timestamp):
            results.extend(map(isolate, self._fire(timer.key, timer.time)))
            times.extend([timer.time] * (len(results) - len(times)))
        return results, times

    def advance_processing_time(self, now_ms: int) -> list[Any]:
        """What the processing-time timers due by `now_ms` emit."""
        results: list[Any] = []
        for timer in self.store.processing_timers.due(now_ms):
            results.extend(map(isolate, self._fire(timer.key, timer.time)))
        return results

    def _fire(self, key: Any, time: int) -> Iterable[Any]:
        self.store.bind(key)
        self.context.stamp = time
        return self.function.on_timer(time, self.context) or ()
