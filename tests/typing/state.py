"""What type checkers must know about declared state; checked, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

from tidegate.datastream import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
    DataStream,
    KeyedProcessFunction,
    ListState,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ValueState,
    state,
)


class Count(KeyedProcessFunction):
    count = state.Value(int, default=0)
    names = state.Map(str, int)
    seen = state.List(float)
    most = state.Reducing(max, int)
    last = state.Value(float)
    anything = state.Value()

    def process_element(self, value: str, ctx: Any) -> Iterator[int]:
        assert_type(self.count, ValueState[int])
        assert_type(self.count.value(), int)
        assert_type(self.last.value(), float | None)
        assert_type(self.anything, ValueState[Any])
        assert_type(self.names, MapState[str, int])
        assert_type(self.names.get(value), int | None)
        assert_type(self.seen, ListState[float])
        assert_type(self.seen.get(), list[float])
        assert_type(self.most, ReducingState[int])
        self.count.update("one")  # type: ignore[arg-type] # the state holds an int
        self.names.put(1, 1)  # type: ignore[arg-type] # its keys are texts
        yield self.count.value()


def test_a_class_has_the_declaration() -> None:
    assert_type(Count.count, state.Value[int])


def test_broadcasting_with_state_is_another_stream(stream: DataStream) -> None:
    rules = MapStateDescriptor("rules")
    assert_type(stream.broadcast(), DataStream)
    assert_type(stream.broadcast(rules), BroadcastStream)
    assert_type(stream.connect(stream), ConnectedStreams)
    assert_type(stream.connect(stream.broadcast(rules)), BroadcastConnectedStream)
