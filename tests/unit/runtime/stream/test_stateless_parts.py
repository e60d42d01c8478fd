"""Every class a user can extend either is a function with state, or is refused with it when the program is built."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.stream.kinds import KINDS, SOURCES, Kept, Listed
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from tidegate.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    CheckpointListener,
    DataStream,
    KeyedProcessFunction,
    KeySelector,
    Partitioner,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    Trigger,
    WindowAssigner,
    state,
)
from tidegate.datastream.legacy import AssignerWithPeriodicWatermarks, AssignerWithPunctuatedWatermarks
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    Evictor,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
)
from tidegate.errors import ConfigError
from tidegate.twophase.function import TwoPhaseCommitSinkFunction

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")

EACH = TumblingEventTimeWindows.of(Duration.of_millis(1))


class Answering(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class Waiting(AsyncRetryStrategy):
    def __init__(self, predicate: Any = None) -> None:
        self.predicate = predicate

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 0

    def get_retry_predicate(self) -> Any:
        return self.predicate


def _asking(stream: DataStream, strategy: Any) -> Any:
    return AsyncDataStream.ordered_wait_with_retry(stream, Answering(), Duration.of_seconds(1), strategy)


def _windowed(stream: DataStream) -> Any:
    return stream.key_by(str).window(EACH)


REFUSED: dict[type[Any], Callable[[DataStream, Any], Any]] = {
    KeySelector: lambda s, given: s.key_by(given),
    Partitioner: lambda s, given: s.partition_custom(given, str),
    TimestampAssigner: lambda s, given: WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        given
    ),
    WatermarkGenerator: lambda s, given: s.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_generator(lambda: given)
    ),
    AssignerWithPeriodicWatermarks: lambda s, given: s.assign_timestamps_and_watermarks(given),
    AssignerWithPunctuatedWatermarks: lambda s, given: s.assign_timestamps_and_watermarks(given),
    WindowAssigner: lambda s, given: s.key_by(str).window(given),
    Trigger: lambda s, given: _windowed(s).trigger(given),
    Evictor: lambda s, given: _windowed(s).evictor(given),
    SessionWindowTimeGapExtractor: lambda s, given: EventTimeSessionWindows.with_dynamic_gap(given),
    AsyncRetryStrategy: _asking,
    AsyncRetryPredicate: lambda s, given: _asking(s, Waiting(given)),
}
"""Classes whose objects have no life of their own in a subtask, by how a program gets one."""

SETTINGS = {
    "StateBackend",
    "CheckpointStorage",
    "RestartStrategyConfiguration",
    "Accumulator",
    "StateDescriptor",
    "Window",
    "WindowSerializer",
    "SerializationSchema",
    "DeserializationSchema",
}
"""Classes that describe a program or its data; they run in no step."""

INTERFACES = {"CheckpointedFunction", "CheckpointListener"}

MODULES = (
    "tidegate.common",
    "tidegate.common.watermark_strategy",
    "tidegate.datastream",
    "tidegate.datastream.functions",
    "tidegate.datastream.legacy",
    "tidegate.datastream.window",
    "tidegate.twophase.function",
)


@pytest.fixture
def stream() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "restart-strategy.type": "none"}
    )
    return env.from_collection(["a", "b"])


def test_every_class_that_users_extend_is_known_to_keep_state_or_to_be_refused_with_it() -> None:
    extended = {
        cls
        for module in map(importlib.import_module, MODULES)
        for name in module.__all__
        if inspect.isclass(cls := getattr(module, name))
        and (inspect.isabstract(cls) or name.endswith("Function"))
    }
    kinds = [cls for cls, _, _ in KINDS.values()] + list(SOURCES.values())
    known = {base for cls in (*kinds, *REFUSED) for base in cls.__mro__}

    forgotten = {
        cls.__name__
        for cls in extended
        if cls not in known
        and cls.__name__ not in SETTINGS | INTERFACES
        and not any(issubclass(cls, refused) for refused in REFUSED)
    }
    assert forgotten == set()
    assert TwoPhaseCommitSinkFunction in extended


@pytest.mark.parametrize("interface", [Kept, Listed, CheckpointListener], ids=lambda each: each.__name__)
@pytest.mark.parametrize("part", REFUSED, ids=lambda each: each.__name__)
def test_a_part_that_nobody_opens_is_refused_with_an_interface_for_state(
    stream: DataStream, part: type[Any], interface: type[Any]
) -> None:
    abstract = {name: lambda *_: None for cls in (interface, part) for name in cls.__abstractmethods__}
    given = type("Given", (interface, part), abstract)()

    with pytest.raises(
        ConfigError,
        match=r"Given implements \w+; expected an object without state, because it is not opened in a sub",
    ):
        REFUSED[part](stream, given)


class Sum(Listed, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Asks(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_reducing_state(ReducingStateDescriptor("total", Sum()))

    def process_element(self, value: Any, ctx: Any) -> None:
        return None


def test_a_function_inside_of_a_state_is_refused_with_state_of_its_own(stream: DataStream) -> None:
    stream.key_by(str).process(Asks()).print()

    with pytest.raises(ConfigError, match="state 'total': Sum implements ListCheckpointed"):
        stream._env.execute()


class Widest(Kept, AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return max(accumulator, len(value))

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return max(acc_a, acc_b)


class Last(Kept, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return elements


def test_two_functions_with_operator_state_in_one_step_are_refused(stream: DataStream) -> None:
    with pytest.raises(
        ConfigError, match="window: Widest and Last both keep operator state; expected one such"
    ):
        _windowed(stream).aggregate(Widest(), Last())


class Declares(SourceFunction):
    seen = state.Value(int)

    def run(self, ctx: Any) -> None:
        pass


class DeclaringSink(SinkFunction):
    seen = state.Value(int)

    def invoke(self, value: Any, context: Any) -> None:
        self.seen.update(1)


def test_a_source_has_no_state_of_keys(stream: DataStream) -> None:
    with pytest.raises(
        ConfigError, match="add_source: Declares declares keyed state seen; a source has no key"
    ):
        stream._env.add_source(Declares())


def test_a_sink_without_keys_has_no_state_of_keys(stream: DataStream) -> None:
    stream.add_sink(DeclaringSink())
    with pytest.raises(ConfigError, match="declares state 'seen' but its input has no key; use key_by"):
        stream._env.execute()
