"""Contexts passed to user functions, with the state of one operator in one subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tidegate.backends.keyed.asynchronous import OnlyAsync
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
from tidegate.backends.spi import Timer
from tidegate.elements import MIN_WATERMARK
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.lifecycle import ManagedFunctions
from tidegate.runtime.operators.operator_state import OperatorStates
from tidegate.runtime.operators.raw_state import RawState
from tidegate.runtime.operators.runtime_context import BaseRuntimeContext
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.time_characteristic import TimeDomain

__all__ = ["KeyedContext", "OperatorContext", "RecordContext"]


class OperatorContext(BaseRuntimeContext):
    """The runtime context that functions get in `open`; operators are opened with it."""

    def __init__(
        self,
        uid: OperatorUid,
        name: str,
        env: ChainEnvironment,
        open_store: Callable[[], KeyedStore] | None,
        restored: RestoredOperator,
        *,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(uid, env)
        self.restored = restored
        """The restored state of the operator."""
        self.states = OperatorStates(restored, env.subtask.index)
        """The operator state: state without a key."""
        self.raw = RawState(restored, env.key_groups if open_store is not None else None, env.max_parallelism)
        """Raw state: bytes that functions write themselves."""
        self.store: KeyedStore | None = None
        """The keyed state; None until it is first requested."""
        self.asynchronous = asynchronous
        """Whether the function's methods are `async def`, so that state operations are awaited."""
        self.functions = ManagedFunctions(self)
        """The functions of the operator."""
        self._name = name
        self._open_store = open_store

    @property
    def keyed(self) -> bool:
        """Whether the input has keys."""
        return self._open_store is not None

    def keyed_store(self, why: str) -> KeyedStore:
        """The operator's keyed state, opened on first use.

        Raises:
            ConfigError: the input has no key.
        """
        if self._open_store is None:
            raise ConfigError(
                f"operator {self._name!r} {why} but its input has no key; use key_by(...) first"
            )
        if self.store is None:
            self.store = self._open_store()
        return self.store

    def state(self, why: str, descriptor: StateDescriptor) -> Any:
        """The handle of a state for the function; raises as `keyed_store` and `KeyedStore.state` do."""
        if isinstance(descriptor, ReducingStateDescriptor):
            stateless(f"state {descriptor.name!r}", descriptor.reduce_function)
        elif isinstance(descriptor, AggregatingStateDescriptor):
            stateless(f"state {descriptor.name!r}", descriptor.agg_function)
        handle = self.keyed_store(why).state(descriptor)
        return OnlyAsync(descriptor.name, handle) if self.asynchronous else handle

    def get_index_of_this_subtask(self) -> int:
        """The index of this parallel instance, from 0."""
        return self.env.subtask.index

    def get_number_of_parallel_subtasks(self) -> int:
        """The number of parallel instances."""
        return self.env.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The maximum number of parallel instances: one for each key group."""
        return self.env.max_parallelism

    def get_task_name(self) -> str:
        """The name of the operator."""
        return self._name

    def get_task_name_with_subtasks(self) -> str:
        """The name of the operator with the number of this instance, from 1."""
        return f"{self._name} ({self.env.subtask.index + 1}/{self.env.parallelism})"

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key."""
        state: ValueState[Any] = self._state("get_state", state_descriptor, ValueStateDescriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        state: ListState[Any] = self._state("get_list_state", state_descriptor, ListStateDescriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key."""
        state: MapState[Any, Any] = self._state("get_map_state", state_descriptor, MapStateDescriptor)
        return state

    def get_ordered_map_state(self, state_descriptor: OrderedMapStateDescriptor) -> OrderedMapState[Any, Any]:
        """A map per key, in the order of its keys."""
        state: OrderedMapState[Any, Any] = self._state(
            "get_ordered_map_state", state_descriptor, OrderedMapStateDescriptor
        )
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value per key, reduced from all values added."""
        state: ReducingState[Any] = self._state(
            "get_reducing_state", state_descriptor, ReducingStateDescriptor
        )
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator per key."""
        state: AggregatingState[Any, Any] = self._state(
            "get_aggregating_state", state_descriptor, AggregatingStateDescriptor
        )
        return state

    def _state(self, method: str, descriptor: StateDescriptor, expected: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, expected):
            raise ConfigError(f"{method} takes a {expected.__name__}; got {type(descriptor).__name__}")
        return self.state(f"asks for state {descriptor.name!r}", descriptor)


class RecordContext:
    """The timestamp of the current record, and time; one object, reused for all records."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.stamp: int | None = None
        self.watermark = MIN_WATERMARK
        self._now_ms = now_ms

    def timestamp(self) -> int | None:
        """Event time of the record, if it has one."""
        return self.stamp

    def timer_service(self) -> Self:
        """Time and timers: this object."""
        return self

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms()

    def current_watermark(self) -> int:
        """The current watermark."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Refused, like the other three: timers need a key."""
        raise self._without_key("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a key."""
        raise self._without_key("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a key."""
        raise self._without_key("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a key."""
        raise self._without_key("delete_event_time_timer")

    def _without_key(self, method: str) -> ConfigError:
        return ConfigError(
            f"{method} was called on a stream without keys; timers need a key; use key_by(...) and a keyed "
            "process function first"
        )


class KeyedContext(RecordContext):
    """The context of a record or timer with a key."""

    def __init__(self, store: KeyedStore, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.domain = TimeDomain.EVENT_TIME
        self._store = store
        self._cursor = store.cursor

    def get_current_key(self) -> Any:
        """The canonical key."""
        return self._cursor.row.key

    def time_domain(self) -> TimeDomain:
        """The time domain of the current timer."""
        return self.domain

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the clock reaches `timestamp`."""
        self._store.processing_timers.register(Timer(timestamp, self._cursor.row.key))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`."""
        self._store.event_timers.register(Timer(timestamp, self._cursor.row.key))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of the current key."""
        self._store.processing_timers.delete(Timer(timestamp, self._cursor.row.key))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of the current key."""
        self._store.event_timers.delete(Timer(timestamp, self._cursor.row.key))
