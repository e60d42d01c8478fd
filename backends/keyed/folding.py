"""Reducing and aggregating state: one value per key, updated by each added value."""

from __future__ import annotations

from typing import Any, TypeVar

from tidegate.backends.keyed.asynchronous import AsyncFolded
from tidegate.backends.keyed.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from tidegate.backends.keyed.row import ValueState

__all__ = ["AggregatingState", "ReducingState"]

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class ReducingState(AsyncFolded[T, T]):
    """The reduction of all values added to the current key; made by `KeyedStore.state`."""

    __slots__ = ("_take_in", "_value")

    def __init__(self, descriptor: ReducingStateDescriptor, value: ValueState[Any]) -> None:
        self._take_in = value.reducer(descriptor.get_reduce_function())
        self._value = value

    def get(self) -> T | None:
        """What they come to, None if nothing was added."""
        result: T | None = self._value.value()
        return result

    def add(self, value: T) -> None:
        """Add a value; raises what the function raises, and as `ValueState.update` does."""
        self._take_in(value)

    def clear(self) -> None:
        """Forget everything added to the key."""
        self._value.clear()


class AggregatingState(AsyncFolded[IN, OUT]):
    """An accumulator of all values added to the current key; made by `KeyedStore.state`."""

    __slots__ = ("_function", "_value")

    def __init__(self, descriptor: AggregatingStateDescriptor, value: ValueState[Any]) -> None:
        self._function = descriptor.get_agg_function()
        self._value = value

    def get(self) -> OUT | None:
        """The result of the accumulator, None if nothing was added."""
        accumulator = self._value.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: IN) -> None:
        """Add a value; raises what the function raises, and as `ValueState.update` does."""
        accumulator = self._value.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._value.update(self._function.add(value, accumulator))

    def clear(self) -> None:
        """Forget everything added to the key."""
        self._value.clear()
