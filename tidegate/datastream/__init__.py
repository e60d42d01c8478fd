"""Streams, functions and state, under the names PyFlink gives them in `pyflink.datastream`."""

from tidegate.backends.keyed.descriptors import ValueStateDescriptor as ValueStateDescriptor
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.runtime.stream.datastream import (
    ConnectedStreams as ConnectedStreams,
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    KeyedStream as KeyedStream,
)
from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from tidegate.runtime.stream.functions import (
    CoFlatMapFunction as CoFlatMapFunction,
    CoMapFunction as CoMapFunction,
    CoProcessFunction as CoProcessFunction,
    FilterFunction as FilterFunction,
    FlatMapFunction as FlatMapFunction,
    KeyedCoProcessFunction as KeyedCoProcessFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    Partitioner as Partitioner,
    ProcessFunction as ProcessFunction,
    ReduceFunction as ReduceFunction,
    RuntimeContext as RuntimeContext,
)
from tidegate.runtime.stream.tags import OutputTag as OutputTag
from tidegate.runtime.stream.time_characteristic import TimeCharacteristic as TimeCharacteristic

__all__ = [
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "KeySelector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "ValueState",
    "ValueStateDescriptor",
]
