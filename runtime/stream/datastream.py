"""Streams: every method adds a step to the program; nothing runs before `execute`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from tidegate import registry
from tidegate.connectors.spi import Sink
from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import (
    Forward,
    Hash,
    Input,
    Kind,
    Partition,
    Rebalance,
    Transformation,
)
from tidegate.runtime.stream.functions import KeyedProcessFunction, as_callable
from tidegate.types import TypeInformation, result_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.runtime.stream.environment import StreamExecutionEnvironment

__all__ = ["DataStream", "DataStreamSink", "KeyedStream"]


class _Step:
    """What all results of a method have in common: a transformation that can be named and sized."""

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    def uid(self, uid: str) -> Self:
        """Name the step over program versions: its state is found by this name."""
        if not uid:
            raise ConfigError("uid is empty; give a name that stays the same over program versions")
        self._transformation.uid = uid
        return self

    def name(self, name: str) -> Self:
        """Name the step for people."""
        self._transformation.name = name
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the step in this many subtasks; stronger than every other setting."""
        self._transformation.parallelism = positive("parallelism", parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """How many key groups the step's state has, and so how far it can be scaled."""
        self._transformation.max_parallelism = positive("max parallelism", max_parallelism)
        return self


class DataStream(_Step):
    """A stream of records.

    Example:
        >>> from tidegate.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> stream = env.from_collection([1, 2, 3]).map(lambda n: n * 10).filter(lambda n: n > 10)
        >>> sorted(stream.execute_and_collect())
        [20, 30]
    """

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Replace each record by the result of `func`."""
        return self._then("map", func, output_type or result_type(as_callable(func)))

    def filter(self, func: Any) -> DataStream:
        """Keep the records for which `func` is true."""
        return self._then("filter", func, self._transformation.output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Replace each record by the records that `func` returns or yields."""
        return self._then("flat_map", func, output_type or result_type(as_callable(func), element=True))

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Group records by key; all records of a key meet in one subtask, in order."""
        selector: Callable[[Any], Any] = as_callable(_checked("key_by", key_selector))
        return KeyedStream(self._env, self._transformation, Hash(selector, key_type))

    def rebalance(self) -> DataStream:
        """Deal records round-robin to the subtasks of the next step."""
        return DataStream(self._env, self._transformation, Rebalance())

    def forward(self) -> DataStream:
        """Insist that records stay in their subtask."""
        return DataStream(self._env, self._transformation, Forward())

    def union(self, *streams: DataStream) -> DataStream:
        """One stream of the records of all of them."""
        inputs = tuple(stream._input for stream in (self, *streams))
        types = {stream._transformation.output_type for stream in (self, *streams)}
        merged = Transformation("map", "union", _same, inputs, types.pop() if len(types) == 1 else None)
        return DataStream(self._env, merged)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to `sink`."""
        if not isinstance(sink, Sink):
            raise ConfigError(f"sink_to takes a Sink; got {type(sink).__name__}")
        step = Transformation("sink", "sink", sink, (self._input,))
        self._env.add_sink(step)
        return DataStreamSink(self._env, step)

    def print(self, prefix: str = "") -> DataStreamSink:
        """Write the records to standard output."""
        return self.sink_to(registry.load("tidegate.connectors", "print.sink")(prefix)).name("print")

    def execute_and_collect(self, job_name: str | None = None) -> Iterator[Any]:
        """Run the program and iterate over the records of this stream, each once, in no particular order."""
        return self._env.collect(self, job_name)

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        transformation: Transformation,
        partition: Partition | None = None,
    ) -> None:
        super().__init__(env, transformation)
        self._input = Input(transformation, partition)

    def _then(self, kind: Kind, func: Any, output_type: TypeInformation | None) -> DataStream:
        return DataStream(
            self._env, Transformation(kind, kind, _checked(kind, func), (self._input,), output_type)
        )


class KeyedStream(DataStream):
    """A stream whose records are grouped by key."""

    def process(self, func: KeyedProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Handle each record with state and timers of its key."""
        if not isinstance(func, KeyedProcessFunction):
            raise ConfigError(f"process takes a KeyedProcessFunction; got {type(func).__name__}")
        declared = output_type or result_type(func.process_element, element=True)
        return DataStream(self._env, Transformation("process", "process", func, (self._input,), declared))


class DataStreamSink(_Step):
    """The end of a stream."""


def positive(what: str, number: int) -> int:
    """`number` itself if it can be one.

    Raises:
        ConfigError: it is no integer above 0.
    """
    if type(number) is not int or number < 1:
        raise ConfigError(f"{what} is {number!r}; expected an integer of at least 1")
    return number


def _checked(step: str, func: Any) -> Any:
    if not callable(as_callable(func)):
        raise ConfigError(f"{step} takes a function; got {type(func).__name__}")
    return func


def _same(value: Any) -> Any:
    return value
