"""Contexts of triggers, assigners, evictors and window functions: time, timers and state of the current window.

One object of each kind is reused for all windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import ValueState
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Timer, TimerQueue
from tidegate.elements import MIN_WATERMARK
from tidegate.errors import ConfigError
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.stream.windows import KeyedStateStore

__all__ = ["FunctionScope", "Scope"]


class Scope:
    """The current window for triggers, assigners and evictors."""

    def __init__(self, context: OperatorContext, store: KeyedStore) -> None:
        self.store = store
        self.now_ms: Callable[[], int] = context.env.clock.now_ms
        self.watermark = MIN_WATERMARK
        self.key: Any = None
        self.window: Any = None
        self.merged: Sequence[bytes] = ()
        """The namespaces of the windows that were just merged into this one."""
        self._namespace = b""
        self._context = context
        self._states: dict[str, Any] = {}
        self._event_timers = _Registered(store.event_timers)
        self._processing_timers = _Registered(store.processing_timers)

    def move(self, key: Any, window: Any, namespace: bytes, *, fired: bool = False) -> None:
        """Set the current window of a key; `fired` says that its timer was just removed from a queue."""
        if fired:
            for timers in (self._event_timers, self._processing_timers):
                timers.known.clear()
        self.key = key
        self.window = window
        self._namespace = namespace

    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        return self.now_ms()

    def get_current_watermark(self) -> int:
        """The current watermark."""
        return self.watermark

    def get_metric_group(self) -> MetricGroup:
        """Metrics of the step."""
        return self._context.get_metrics_group()

    def get_runtime_context(self) -> OperatorContext:
        """State of the key."""
        return self._context

    def register_processing_time_timer(self, time: int) -> None:
        """Call the trigger when the clock reaches `time`."""
        self._processing_timers.register(time, self.key, self._namespace)

    def register_event_time_timer(self, time: int) -> None:
        """Call the trigger when the watermark reaches `time`."""
        self._event_timers.register(time, self.key, self._namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing-time timer."""
        self._processing_timers.delete(time, self.key, self._namespace)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event-time timer."""
        self._event_timers.delete(time, self.key, self._namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the trigger in this window."""
        self.store.bind_in(self.key, self._namespace)
        state = self._states.get(state_descriptor.name)
        if state is None:
            # The trigger and the window function are independent, so both may use the same state name.
            own = dataclasses.replace(state_descriptor, name=f"trigger:{state_descriptor.name}")
            state = self._states[state_descriptor.name] = self.store.state(own, namespaced=True)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the states of the windows that were merged into this one.

        Raises:
            ConfigError: states of this kind cannot be merged.
        """
        state = self.get_partitioned_state(state_descriptor)
        if not isinstance(state, ReducingState | ListState):
            raise ConfigError(
                f"state {state_descriptor.name!r} cannot be merged; got a {type(state_descriptor).__name__}; "
                "use a ReducingStateDescriptor or a ListStateDescriptor"
            )
        contents = []
        for namespace in self.merged:
            self.store.bind_in(self.key, namespace)
            contents.append(state.get())
        self.store.bind_in(self.key, self._namespace)
        for content in contents:
            if isinstance(state, ListState):
                state.add_all(content or ())
            elif content is not None:
                state.add(content)

    def merged_values(self, state_descriptor: ValueStateDescriptor) -> list[Any]:
        """The values of the windows that were merged into this one, and its own."""
        state = self.get_partitioned_state(state_descriptor)
        values = []
        for namespace in (*self.merged, self._namespace):
            self.store.bind_in(self.key, namespace)
            values.append(state.value())
        return [value for value in values if value is not None]


class FunctionScope:
    """The current window for window functions."""

    def __init__(self, scope: Scope, context: OperatorContext, *, merging: bool) -> None:
        self._scope = scope
        self._context = context
        self._window_state = _WindowState(scope)
        self._merging = merging

    def window(self) -> Any:
        """The window."""
        return self._scope.window

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        return self._scope.now_ms()

    def current_watermark(self) -> int:
        """The current watermark."""
        return self._scope.watermark

    def window_state(self) -> KeyedStateStore:
        """State of this window and key.

        Raises:
            ConfigError: the windows can merge, and state per window could not be merged.
        """
        if self._merging:
            raise ConfigError(
                "session windows have no state per window, because windows merge; use global_state() instead"
            )
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        """State of the key, whatever the window."""
        return self._context


class _Registered:
    """A timer queue that skips repeated registrations: a window registers the same timer for each of its records."""

    def __init__(self, queue: TimerQueue) -> None:
        self.known: set[tuple[int, Any, bytes]] = set()
        self._queue = queue

    def register(self, time: int, key: Any, namespace: bytes) -> None:
        if (time, key, namespace) not in self.known:
            self.known.add((time, key, namespace))
            self._queue.register(Timer(time, key, namespace))

    def delete(self, time: int, key: Any, namespace: bytes) -> None:
        self.known.discard((time, key, namespace))
        self._queue.delete(Timer(time, key, namespace))


class _WindowState:
    """The states of a window function in the current window."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value."""
        return self._scope.store.value_state(state_descriptor, namespaced=True)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list."""
        state: ListState[Any] = self._state(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map."""
        state: MapState[Any, Any] = self._state(state_descriptor)
        return state

    def get_ordered_map_state(self, state_descriptor: OrderedMapStateDescriptor) -> OrderedMapState[Any, Any]:
        """A map in the order of its keys."""
        state: OrderedMapState[Any, Any] = self._state(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value that added values are reduced to."""
        state: ReducingState[Any] = self._state(state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator."""
        state: AggregatingState[Any, Any] = self._state(state_descriptor)
        return state

    def _state(self, state_descriptor: StateDescriptor) -> Any:
        return self._scope.store.state(state_descriptor, namespaced=True)
