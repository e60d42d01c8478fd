"""Event-sourced state, exactly-once connectors and a dataflow runtime, on one machine or on Spark.

Names load when they are first used, so `import tidegate` is quick and needs no optional library.

Example:
    >>> import tidegate
    >>> env = tidegate.StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> sorted(env.from_collection([3, 1, 2]).map(lambda n: n * n).execute_and_collect())
    [1, 4, 9]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.backends.keyed.descriptors import (
        AggregatingStateDescriptor as AggregatingStateDescriptor,
        ListStateDescriptor as ListStateDescriptor,
        MapStateDescriptor as MapStateDescriptor,
        ReducingStateDescriptor as ReducingStateDescriptor,
        ValueStateDescriptor as ValueStateDescriptor,
    )
    from tidegate.connectors.collection import CollectionSource as CollectionSource
    from tidegate.connectors.files import (
        FileSink as FileSink,
        JsonLines as JsonLines,
        TextLines as TextLines,
    )
    from tidegate.connectors.generator import GeneratorSource as GeneratorSource
    from tidegate.connectors.kafka import (
        KafkaSink as KafkaSink,
        KafkaSource as KafkaSource,
    )
    from tidegate.connectors.print import PrintSink as PrintSink
    from tidegate.datastream import state as state
    from tidegate.errors import TidegateError as TidegateError
    from tidegate.runtime.operators.window.assigners import (
        SlidingEventTimeWindows as SlidingEventTimeWindows,
        SlidingProcessingTimeWindows as SlidingProcessingTimeWindows,
        TumblingEventTimeWindows as TumblingEventTimeWindows,
        TumblingProcessingTimeWindows as TumblingProcessingTimeWindows,
    )
    from tidegate.runtime.operators.window.sessions import (
        EventTimeSessionWindows as EventTimeSessionWindows,
        ProcessingTimeSessionWindows as ProcessingTimeSessionWindows,
    )
    from tidegate.runtime.result import JobResult as JobResult
    from tidegate.runtime.stream.datastream import (
        DataStream as DataStream,
        KeyedStream as KeyedStream,
    )
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
    from tidegate.runtime.stream.functions import (
        AggregateFunction as AggregateFunction,
        FilterFunction as FilterFunction,
        FlatMapFunction as FlatMapFunction,
        KeyedProcessFunction as KeyedProcessFunction,
        MapFunction as MapFunction,
        ProcessFunction as ProcessFunction,
        ReduceFunction as ReduceFunction,
    )
    from tidegate.runtime.stream.tags import OutputTag as OutputTag
    from tidegate.runtime.stream.time import (
        Duration as Duration,
        Time as Time,
    )
    from tidegate.runtime.stream.watermarks import (
        TimestampAssigner as TimestampAssigner,
        WatermarkStrategy as WatermarkStrategy,
    )
    from tidegate.runtime.stream.windows import ProcessWindowFunction as ProcessWindowFunction
    from tidegate.types import (
        Row as Row,
        Types as Types,
    )

_NAMES = {
    "backends.keyed.descriptors": (
        "AggregatingStateDescriptor",
        "ListStateDescriptor",
        "MapStateDescriptor",
        "ReducingStateDescriptor",
        "ValueStateDescriptor",
    ),
    "connectors.collection": ("CollectionSource",),
    "connectors.files": ("FileSink", "JsonLines", "TextLines"),
    "connectors.generator": ("GeneratorSource",),
    "connectors.kafka": ("KafkaSink", "KafkaSource"),
    "connectors.print": ("PrintSink",),
    "errors": ("TidegateError",),
    "runtime.operators.window.assigners": (
        "SlidingEventTimeWindows",
        "SlidingProcessingTimeWindows",
        "TumblingEventTimeWindows",
        "TumblingProcessingTimeWindows",
    ),
    "runtime.operators.window.sessions": ("EventTimeSessionWindows", "ProcessingTimeSessionWindows"),
    "runtime.result": ("JobResult",),
    "runtime.stream.datastream": ("DataStream", "KeyedStream"),
    "runtime.stream.environment": ("StreamExecutionEnvironment",),
    "runtime.stream.functions": (
        "AggregateFunction",
        "FilterFunction",
        "FlatMapFunction",
        "KeyedProcessFunction",
        "MapFunction",
        "ProcessFunction",
        "ReduceFunction",
    ),
    "runtime.stream.tags": ("OutputTag",),
    "runtime.stream.time": ("Duration", "Time"),
    "runtime.stream.watermarks": ("TimestampAssigner", "WatermarkStrategy"),
    "runtime.stream.windows": ("ProcessWindowFunction",),
    "types": ("Row", "Types"),
}
_HOMES = {name: f"tidegate.{module}" for module, names in _NAMES.items() for name in names}

_MODULES = {"state": "tidegate.datastream.state"}

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
