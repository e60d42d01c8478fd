"""Streams: every method adds a step to the program; nothing runs before `execute`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from tidegate import registry
from tidegate.backends.keyed.descriptors import MapStateDescriptor
from tidegate.connectors.spi import Sink
from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import (
    ITERATION,
    SIDE_OUTPUT,
    UNION,
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Input,
    KeyedForward,
    Partition,
    Rebalance,
    Rescale,
    Shuffle,
    Transformation,
)
from tidegate.runtime.operators.functions import CO_FLAT_MAP, CO_MAP, FILTER, FLAT_MAP, MAP
from tidegate.runtime.operators.keyed import CO_PROCESS, PROCESS
from tidegate.runtime.operators.operator import Role, StepKind
from tidegate.runtime.operators.reduce import REDUCE
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import STAMP
from tidegate.runtime.operators.window.assigner import WindowAssigner
from tidegate.runtime.operators.window.assigners import GlobalWindows
from tidegate.runtime.stream.aggregations import Aggregation, Projection
from tidegate.runtime.stream.broadcast import BroadcastConnectedStream, BroadcastStream
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.collected import CloseableIterator
from tidegate.runtime.stream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapWithState,
    ProcessFunction,
    as_callable,
)
from tidegate.runtime.stream.generics import IN1, IN2, KEY, R, T
from tidegate.runtime.stream.joined import CoGroupedStreams, JoinedStreams
from tidegate.runtime.stream.key_selectors import selector
from tidegate.runtime.stream.legacy import (
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    Fold,
    SplitStream,
    deprecated,
    strategy_of,
)
from tidegate.runtime.stream.shapes import (
    CoFlatMaps,
    CoMaps,
    CoProcesses,
    Filter,
    FlatMap,
    Map,
    Processes,
    Reduce,
    Select,
)
from tidegate.runtime.stream.step import Step, positive
from tidegate.runtime.stream.tags import OutputTag
from tidegate.runtime.stream.time import Duration
from tidegate.runtime.stream.watermarks import WatermarkStrategy
from tidegate.runtime.stream.windowed import AllWindowedStream, WindowedStream, counted, time_windows
from tidegate.types import TypeInformation, common_type, result_type

if TYPE_CHECKING:
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment
    from tidegate.runtime.stream.execution_config import ExecutionConfig
    from tidegate.runtime.stream.iterations import IterativeStream

__all__ = ["ConnectedStreams", "DataStream", "DataStreamSink", "KeyedStream"]

G = TypeVar("G")


class DataStream(Step, Generic[T]):
    """A stream of records.

    Example:
        >>> from tidegate.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> stream = env.from_collection([1, 2, 3]).map(lambda n: n * 10).filter(lambda n: n > 10)
        >>> sorted(stream.execute_and_collect())
        [20, 30]
    """

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Where the program started."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Settings of the program under the names of PyFlink's `ExecutionConfig`."""
        return self._env.get_config()

    def get_type(self) -> TypeInformation | None:
        """The type of the records, None if it is not known."""
        return self._transformation.output_type

    @overload
    def map(self, func: Map[T, R], output_type: None = None) -> DataStream[R]: ...

    @overload
    def map(self, func: Map[T, Any], output_type: TypeInformation) -> DataStream: ...

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Replace each record by the result of `func`."""
        return self._then(MAP, func, output_type or result_type(as_callable(func)))

    def filter(self, func: Filter[T]) -> DataStream[T]:
        """Keep the records for which `func` is true."""
        return self._then(FILTER, func, self._transformation.output_type)

    @overload
    def flat_map(self, func: FlatMap[T, R], output_type: None = None) -> DataStream[R]: ...

    @overload
    def flat_map(self, func: FlatMap[T, Any], output_type: TypeInformation) -> DataStream: ...

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Replace each record by the records that `func` returns or yields."""
        return self._then(FLAT_MAP, func, output_type or result_type(as_callable(func), element=True))

    @overload
    def key_by(
        self, key_selector: Select[T, R], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, R]: ...

    @overload
    def key_by(self, key_selector: int | str, key_type: TypeInformation | None = None) -> KeyedStream[T]: ...

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream[T]:
        """Group records by key, given by a function or as a field; all records of a key meet in one subtask, in order."""
        return self._keyed(key_selector, key_type)

    @overload
    def reinterpret_as_keyed_stream(
        self, key_selector: Select[T, R], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, R]: ...

    @overload
    def reinterpret_as_keyed_stream(
        self, key_selector: int | str, key_type: TypeInformation | None = None
    ) -> KeyedStream[T]: ...

    def reinterpret_as_keyed_stream(
        self, key_selector: Any, key_type: TypeInformation | None = None
    ) -> KeyedStream[T]:
        """Take records as grouped by key where they are: an earlier `key_by` has partitioned them by the same key.

        So several steps with state of a key need one exchange. A record whose key belongs to another subtask fails the
        job.

        Raises:
            ConfigError: the records have been dealt in another way since.
        """
        dealt = self._input.partition
        if dealt is not None:
            raise ConfigError(
                "reinterpret_as_keyed_stream leaves records where they are; got a stream behind "
                f"{'key_by' if isinstance(dealt, Hash) else type(dealt).__name__.lower()}(...); call it behind the step "
                "whose records are partitioned by the key"
            )
        by = KeyedForward(selector("reinterpret_as_keyed_stream", key_selector), key_type)
        return KeyedStream(self._env, self._transformation, by)

    def process(self, func: Processes[T, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Handle each record with its time and side outputs."""
        return self._then(PROCESS, instance_of("process", func, ProcessFunction), output_type or _emits(func))

    def transform(
        self,
        name: str,
        operator: StepKind | str,
        function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Run an operator of your own; a text is the name under which a package has registered it.

        `function` is what the operator runs, if it runs any; `name` is that of the step. The inputs of an operator say
        whether they need keys.

        Raises:
            ConfigError: it has another number of inputs, or needs a key and the stream has none.
        """
        kind = _operator(operator, isinstance(self, KeyedStream))
        return DataStream(self._env, Transformation(kind, name, function, (self._input,), output_type))

    def project(self, *fields: int) -> DataStream:
        """Keep the named positions of tuples, in the given order."""
        return self._then(MAP, Projection(fields), None).name("project")

    def assign_timestamps_and_watermarks(
        self,
        watermark_strategy: WatermarkStrategy
        | AssignerWithPeriodicWatermarks
        | AssignerWithPunctuatedWatermarks,
    ) -> DataStream[T]:
        """Give records timestamps and the stream watermarks, replacing those it has."""
        if isinstance(watermark_strategy, AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks):
            deprecated(type(watermark_strategy).__name__, "WatermarkStrategy")
            watermark_strategy = strategy_of(watermark_strategy)
        strategy = instance_of("assign_timestamps_and_watermarks", watermark_strategy, WatermarkStrategy)
        if strategy.aligned is not None:
            raise ConfigError(
                "watermark alignment is possible only at a source, because it pauses readers; give the strategy to from_source(...)"
            )
        strategy.generator()  # which refuses one that cannot work, here rather than in a subtask
        step = Transformation(STAMP, "timestamps", strategy, (self._input,), self._transformation.output_type)
        return DataStream(self._env, step)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The stream of what this step's function yields as `(output_tag, value)`."""
        if not self._transformation.kind.side_outputs:
            raise ConfigError(
                f"{self._transformation.name!r} has no side outputs; only process functions and windows have them"
            )
        tag = instance_of("get_side_output", output_tag, OutputTag)
        step = Transformation(SIDE_OUTPUT, f"side output {tag.tag_id}", tag, (self._input,), tag.type_info)
        return DataStream(self._env, step)

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream[T]:
        """Cut the stream into windows that one subtask works off."""
        return AllWindowedStream(self._env, self.key_by(_nothing)._input, window_assigner)

    def time_window_all(self, size: Duration, slide: Duration | None = None) -> AllWindowedStream[T]:
        """Windows of `size`, one every `slide`, that one subtask works off."""
        return self.window_all(time_windows(self._env.get_stream_time_characteristic(), size, slide))

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T]:
        """Windows of `size` records, or of the last `size` every `slide` records, that one subtask works off."""
        return counted(self.window_all(GlobalWindows()), size, slide)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pair the records of two streams that have the same key in the same window."""
        return JoinedStreams(self, instance_of("join", other_stream, DataStream))

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Bring the records of two streams together that have the same key in the same window."""
        return CoGroupedStreams(self, instance_of("co_group", other_stream, DataStream))

    @overload
    def connect(self, ds: DataStream[R]) -> ConnectedStreams[T, R]: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Two streams of any types for one function that shares state between them."""
        if isinstance(ds, BroadcastStream):
            keyed = isinstance(self, KeyedStream)
            return BroadcastConnectedStream(self._env, self._input, ds, keyed=keyed)
        return ConnectedStreams(self._env, self, instance_of("connect", ds, DataStream))

    def start_new_chain(self) -> Self:
        """Let the step share its thread with what follows, not with what precedes."""
        self._operator("start_new_chain").chaining = "head"
        return self

    def rebalance(self) -> DataStream[T]:
        """Deal records round-robin to all subtasks of the next step."""
        return self._dealt(Rebalance())

    def rescale(self) -> DataStream[T]:
        """Deal records round-robin to the subtasks of the next step that are nearest."""
        return self._dealt(Rescale())

    def shuffle(self) -> DataStream[T]:
        """Deal records at random."""
        return self._dealt(Shuffle())

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_descriptors: MapStateDescriptor
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream:
        """Give every record to every subtask of the next step; with descriptors, to be kept there as state."""
        if broadcast_state_descriptor is None:
            return self._dealt(Broadcast())
        if isinstance(self, KeyedStream):
            raise ConfigError(
                "broadcast sends every record to all subtasks; got a KeyedStream; call it before key_by(...)"
            )
        return BroadcastStream(self._transformation, (broadcast_state_descriptor, *other_descriptors))

    def global_(self) -> DataStream[T]:
        """Give every record to the first subtask of the next step."""
        return self._dealt(Global())

    def forward(self) -> DataStream[T]:
        """Insist that records stay in their subtask."""
        return self._dealt(Forward())

    def partition_custom(self, partitioner: Any, key_selector: Select[T, Any] | int | str) -> DataStream[T]:
        """Let `partitioner(key, number of subtasks)` say which subtask gets a record."""
        told = as_callable(_checked("partition_custom", stateless("partition_custom", partitioner)))
        return self._dealt(Custom(told, selector("partition_custom", key_selector)))

    def split(self, output_selector: Any) -> SplitStream:
        """Deprecated: name outputs for each record; use side outputs."""
        deprecated("split(...)", "side outputs: yield (OutputTag(...), value) in a ProcessFunction")
        return SplitStream(self, _checked("split", stateless("split", output_selector)))

    def iterate(self, max_wait_time: int) -> IterativeStream:
        """Deprecated: a stream that also gets what it is closed with; over when nothing came back for so many ms."""
        from tidegate.runtime.stream.iterations import IterativeStream

        deprecated(
            "iterate(...)", "a loop in a process function, or a topic that the program reads and writes"
        )
        wait = positive("max_wait_time", max_wait_time)
        step = Transformation(ITERATION, "IterationSource", wait, (self._input,), self.get_type())
        return IterativeStream(self._env, step)

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """One stream of the records of all of them, which are of one type where they have one."""
        united = (self, *streams)
        info = common_type([stream._transformation.output_type for stream in united])
        merged = Transformation(UNION, UNION.name, None, tuple(stream._input for stream in united), info)
        return DataStream(self._env, merged)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to `sink`."""
        if not isinstance(sink, Sink):
            raise ConfigError(f"sink_to takes a Sink; got {type(sink).__name__}")
        step = Transformation(SINK, SINK.name, sink, (self._input,))
        self._env.add_sink(step)
        return DataStreamSink(self._env, step)

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Call a function or a `SinkFunction` with each record, at least once, or a `TwoPhaseCommitSinkFunction`, exactly once.

        A `Sink` is written to as by `sink_to`.
        """
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        return self.sink_to(registry.load("tidegate.connectors", "functions.sink")(sink_func))

    def print(self, sink_identifier: str = "") -> DataStreamSink:
        """Write the records to standard output."""
        printed = self.sink_to(registry.load("tidegate.connectors", "print.sink")(sink_identifier)).name(
            "print"
        )
        printed._transformation.label = "Print to Std. Out"
        return printed

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the program and iterate over the records of this stream, each once; records of one subtask in its order.

        With a limit, the answer is a list of at most so many, and the program is stopped once they are there, which is
        with a checkpoint; without one it has to end by itself.
        """
        if limit is not None:
            return list(self._env.collect(self, job_execution_name, positive("limit", limit)))
        return CloseableIterator(self._env.collect(self, job_execution_name))

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        transformation: Transformation,
        partition: Partition | None = None,
    ) -> None:
        super().__init__(env, transformation, new=partition is None)
        self._input = Input(transformation, partition)

    def _keyed(self, key_selector: Any, key_type: TypeInformation | None) -> KeyedStream[T]:
        return KeyedStream(self._env, self._transformation, Hash(selector("key_by", key_selector), key_type))

    def _dealt(self, partition: Partition) -> DataStream[T]:
        if isinstance(self, KeyedStream):
            raise ConfigError(
                f"the records of a KeyedStream are partitioned by key; got {type(partition).__name__.lower()} after "
                "key_by(...); leave one of the two out"
            )
        return DataStream(self._env, self._transformation, partition)

    def _then(self, kind: StepKind, func: Any, output_type: TypeInformation | None) -> DataStream:
        checked = _checked(kind.name, func)
        return DataStream(self._env, Transformation(kind, kind.name, checked, (self._input,), output_type))


class KeyedStream(DataStream[T], Generic[T, KEY]):
    """A stream whose records are grouped by key."""

    def process(self, func: Processes[T, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Handle each record with state and timers of its key."""
        return self._then(
            PROCESS, instance_of("process", func, KeyedProcessFunction), output_type or _emits(func)
        )

    def window(self, window_assigner: WindowAssigner) -> WindowedStream[T]:
        """Cut the records of each key into windows."""
        return WindowedStream(self._env, self._input, window_assigner)

    def time_window(self, size: Duration, slide: Duration | None = None) -> WindowedStream[T]:
        """Windows of `size`, one every `slide`, by the time that `set_stream_time_characteristic` chose."""
        return self.window(time_windows(self._env.get_stream_time_characteristic(), size, slide))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T]:
        """Windows of `size` records of a key, or of its last `size` every `slide` records."""
        return counted(self.window(GlobalWindows()), size, slide)

    def reduce(self, func: Reduce[T]) -> DataStream[T]:
        """Emit, for each record, what `func` makes of all records of its key so far."""
        return self._then(REDUCE, func, self._transformation.output_type)

    def map_with_state(
        self,
        func: Callable[[Any, Any], tuple[Any, Any]],
        output_type: TypeInformation | None = None,
        state_type: TypeInformation | None = None,
    ) -> DataStream:
        """Replace each record by what `func(record, state)` answers first; what it answers second is the state of the key.

        The state is None at first, and forgotten where None is answered.
        """
        step = MapWithState(_checked("map_with_state", func), state_type)
        return self._then(PROCESS, step, output_type).name("map_with_state")

    def fold(self, initial_value: Any, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Deprecated: emit, for each record, what `func` makes of `initial_value` and its key's records so far."""
        deprecated("fold(...)", "reduce(...), or process(...) with state")
        folded = output_type or result_type(as_callable(_checked("fold", func)))
        return self.process(Fold(initial_value, func, folded), folded).name("fold")

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Emit, for each record, the sum of a field over its key so far."""
        return self.reduce(Aggregation("sum", position_to_sum)).name("sum")

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Emit, for each record, the least value of a field of its key so far."""
        return self.reduce(Aggregation("min", position_to_min)).name("min")

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Emit, for each record, the greatest value of a field of its key so far."""
        return self.reduce(Aggregation("max", position_to_max)).name("max")

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Emit, for each record, the record of its key with the least value of a field so far."""
        return self.reduce(Aggregation("min_by", position_to_min_by)).name("min_by")

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Emit, for each record, the record of its key with the greatest value of a field so far."""
        return self.reduce(Aggregation("max_by", position_to_max_by)).name("max_by")


class ConnectedStreams(Generic[IN1, IN2]):
    """Two streams for one function.

    Example:
        >>> from tidegate.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> class Tell(CoMapFunction):
        ...     def map1(self, value):
        ...         return f"number {value}"
        ...
        ...     def map2(self, value):
        ...         return f"word {value}"
        >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
        >>> numbers, words = env.from_collection([1]), env.from_collection(["a"])
        >>> sorted(numbers.connect(words).map(Tell()).execute_and_collect())
        ['number 1', 'word a']
    """

    def __init__(
        self, env: StreamExecutionEnvironment, first: DataStream[IN1], second: DataStream[IN2]
    ) -> None:
        self._env = env
        self._first = first
        self._second = second

    def key_by(
        self,
        key_selector1: Select[IN1, Any] | int | str,
        key_selector2: Select[IN2, Any] | int | str,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[IN1, IN2]:
        """Group both streams by key: equal keys of both meet in one subtask."""
        return ConnectedStreams(
            self._env,
            self._first._keyed(key_selector1, key_type),
            self._second._keyed(key_selector2, key_type),
        )

    def map(self, func: CoMaps[IN1, IN2, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Replace each record of either stream by one."""
        return self._then(CO_MAP, instance_of("map", func, CoMapFunction), output_type)

    def flat_map(
        self, func: CoFlatMaps[IN1, IN2, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Replace each record of either stream by any number."""
        return self._then(CO_FLAT_MAP, instance_of("flat_map", func, CoFlatMapFunction), output_type)

    def process(
        self, func: CoProcesses[IN1, IN2, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Handle the records of both streams, with state and timers if both have keys."""
        keyed = isinstance(self._first, KeyedStream) and isinstance(self._second, KeyedStream)
        expected = KeyedCoProcessFunction if keyed else CoProcessFunction
        return self._then(CO_PROCESS, instance_of("process", func, expected), output_type)

    def transform(
        self,
        name: str,
        operator: StepKind | str,
        function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Run an operator of your own over both streams; as `DataStream.transform`."""
        kind = _operator(operator, *(isinstance(each, KeyedStream) for each in (self._first, self._second)))
        return self._then(kind, function, output_type, name)

    def _then(
        self, kind: StepKind, func: Any, output_type: TypeInformation | None, name: str | None = None
    ) -> DataStream:
        keyed = [isinstance(stream, KeyedStream) for stream in (self._first, self._second)]
        if any(keyed) and not all(keyed):
            raise ConfigError(
                "one of two connected streams is keyed; expected both or neither; call key_by(...) on the other one"
            )
        inputs = (self._first._input, dataclasses.replace(self._second._input, side=1))
        return DataStream(self._env, Transformation(kind, name or kind.name, func, inputs, output_type))


class DataStreamSink(Step):
    """The end of a stream."""


def instance_of(step: str, given: G, expected: type[Any]) -> G:
    """`given` itself if it is an `expected`.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(given, expected):
        raise ConfigError(f"{step} takes a {expected.__name__}; got {type(given).__name__}")
    return given


def _emits(func: Any) -> TypeInformation | None:
    return result_type(func.process_element, element=True)


def _checked(step: str, func: Any) -> Any:
    if not callable(as_callable(func)):
        raise ConfigError(f"{step} takes a function; got {type(func).__name__}")
    return func


def _operator(operator: StepKind | str, *keyed: bool) -> StepKind:
    """The operator for inputs of which some have keys."""
    kind = registry.load("tidegate.operators", operator) if isinstance(operator, str) else operator
    kind = instance_of("transform", kind, StepKind)
    if kind.role is not Role.OPERATOR or len(kind.inputs) != len(keyed):
        raise ConfigError(
            f"transform takes an operator with one input per stream; got {kind.role.name.lower()} {kind.name!r}; "
            f"inputs: {len(kind.inputs)}; streams: {len(keyed)}"
        )
    for place, (wanted, has_key) in enumerate(zip(kind.inputs, keyed, strict=True), 1):
        if wanted.keyed == "required" and not has_key:
            raise ConfigError(
                f"operator {kind.name!r} needs a key and input {place} has none; use key_by(...) first"
            )
    return kind


def _nothing(value: Any) -> None:
    """The key of a stream without keys."""
