"""User functions, under PyFlink's module name."""

from tidegate.connectors.functions.sink import SinkFunction as SinkFunction
from tidegate.connectors.functions.source import SourceFunction as SourceFunction
from tidegate.runtime.stream.async_data_stream import (
    AsyncFunction as AsyncFunction,
    AsyncRetryPredicate as AsyncRetryPredicate,
    AsyncRetryStrategy as AsyncRetryStrategy,
)
from tidegate.runtime.stream.broadcast import (
    BaseBroadcastProcessFunction as BaseBroadcastProcessFunction,
    BroadcastProcessFunction as BroadcastProcessFunction,
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
)
from tidegate.runtime.stream.functions import (
    AggregateFunction as AggregateFunction,
    CoFlatMapFunction as CoFlatMapFunction,
    CoMapFunction as CoMapFunction,
    CoProcessFunction as CoProcessFunction,
    FilterFunction as FilterFunction,
    FlatMapFunction as FlatMapFunction,
    Function as Function,
    KeyedCoProcessFunction as KeyedCoProcessFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    Partitioner as Partitioner,
    ProcessFunction as ProcessFunction,
    ReduceFunction as ReduceFunction,
    RuntimeContext as RuntimeContext,
    TimerService as TimerService,
)
from tidegate.runtime.stream.windows import (
    AllWindowFunction as AllWindowFunction,
    ProcessAllWindowFunction as ProcessAllWindowFunction,
    ProcessWindowFunction as ProcessWindowFunction,
    WindowFunction as WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "MapFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimerService",
    "WindowFunction",
]
