"""Streams, functions and state, under the names PyFlink gives them in `pyflink.datastream`."""

from tidegate.backends.keyed.descriptors import ValueStateDescriptor as ValueStateDescriptor
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.runtime.stream.datastream import (
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    KeyedStream as KeyedStream,
)
from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from tidegate.runtime.stream.functions import (
    FilterFunction as FilterFunction,
    FlatMapFunction as FlatMapFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    RuntimeContext as RuntimeContext,
)

__all__ = [
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "RuntimeContext",
    "StreamExecutionEnvironment",
    "ValueState",
    "ValueStateDescriptor",
]
