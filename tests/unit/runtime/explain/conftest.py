"""A program with everything an explanation has to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.datastream import CoMapFunction, DataStream, MapFunction, StreamExecutionEnvironment

Explain = Callable[..., StreamExecutionEnvironment]


class Unopened(MapFunction):
    """Must not be opened to be explained."""

    def open(self, runtime_context: Any) -> None:
        raise AssertionError("an explanation opened a function")

    def map(self, value: Any) -> Any:
        return value


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


@pytest.fixture
def program() -> Callable[..., StreamExecutionEnvironment]:
    """Makes it: words from one subtask, counted in two, printed by one, and in capitals in slots of their own."""

    def make(**settings: Any) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(
            {"execution.target": "embedded", **settings}
        )
        env.set_parallelism(2)
        words = env.from_parallel_collection(["to be"]).set_parallelism(1).flat_map(str.split)
        words.map(Unopened()).key_by(len).sum().print().set_parallelism(1)
        words.map(str.upper).start_new_chain().slot_sharing_group("loud").print()
        return env

    return make


@pytest.fixture
def connected() -> DataStream:
    """Two streams in one step."""
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    stream = env.set_parallelism(1).from_parallel_collection([1])
    return stream.connect(env.from_parallel_collection([2])).map(Either())
