"""Window functions and their contexts.

Example:
    >>> class Span(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().end, len(elements)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import ValueState
from tidegate.runtime.stream.functions import Function
from tidegate.runtime.stream.generics import IN, IN1, IN2, KEY, OUT, W, W_co

__all__ = [
    "AllWindowFunction",
    "CoGroupFunction",
    "FlatJoinFunction",
    "JoinFunction",
    "KeyedStateStore",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "WindowContext",
    "WindowFunction",
]


class KeyedStateStore(Protocol):
    """State by descriptor; of a key, or of a window of a key."""

    def get_state(self, descriptor: ValueStateDescriptor, /) -> ValueState[Any]:
        """One value."""
        ...

    def get_list_state(self, descriptor: ListStateDescriptor, /) -> ListState[Any]:
        """A list."""
        ...

    def get_map_state(self, descriptor: MapStateDescriptor, /) -> MapState[Any, Any]:
        """A map."""
        ...

    def get_ordered_map_state(self, descriptor: OrderedMapStateDescriptor, /) -> OrderedMapState[Any, Any]:
        """A map in the order of its keys."""
        ...

    def get_reducing_state(self, descriptor: ReducingStateDescriptor, /) -> ReducingState[Any]:
        """A value that others are combined with."""
        ...

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor, /) -> AggregatingState[Any, Any]:
        """An accumulator."""
        ...


class WindowContext(Protocol[W_co]):
    """The current window, time and state; valid during the call only."""

    def window(self) -> W_co:
        """The window."""
        ...

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def current_watermark(self) -> int:
        """How far event time is."""
        ...

    def window_state(self) -> KeyedStateStore:
        """State of this window and key; forget it in `clear`."""
        ...

    def global_state(self) -> KeyedStateStore:
        """State of the key, whatever the window."""
        ...


class WindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """Any computation over the records of a window and key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results of a window."""


class AllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """Any computation over the records of a window of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results of a window."""


class ProcessWindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """Any computation over the records of a window and key, with time and state."""

    class Context(WindowContext[W_co], Protocol[W_co]):
        """What it is called with."""

    @abstractmethod
    def process(self, key: KEY, context: WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """The results of a window; `(tag, value)` goes to a side output."""

    def clear(self, context: WindowContext[W]) -> None:
        """The window ends: forget its state."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """Any computation over the records of a window of a stream without keys, with time and state."""

    class Context(WindowContext[W_co], Protocol[W_co]):
        """What it is called with."""

    @abstractmethod
    def process(self, context: WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """The results of a window; `(tag, value)` goes to a side output."""

    def clear(self, context: WindowContext[W]) -> None:
        """The window ends: forget its state."""


class JoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Makes one record of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """The record for two that meet in a window."""


class FlatJoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Makes any number of records of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT]:
        """The records for two that meet in a window."""


class CoGroupFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any computation over the records that two streams have in a window; one of the two may be empty."""

    @abstractmethod
    def co_group(self, first: list[IN1], second: list[IN2]) -> Iterable[OUT]:
        """The results of a window."""
