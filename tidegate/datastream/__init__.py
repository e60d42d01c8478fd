"""Streams, functions and state, under the names PyFlink gives them in `pyflink.datastream`."""

from tidegate.backends.keyed.descriptors import ValueStateDescriptor as ValueStateDescriptor
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.runtime.stream.datastream import DataStream as DataStream
from tidegate.runtime.stream.datastream import DataStreamSink as DataStreamSink
from tidegate.runtime.stream.datastream import KeyedStream as KeyedStream
from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from tidegate.runtime.stream.functions import FilterFunction as FilterFunction
from tidegate.runtime.stream.functions import FlatMapFunction as FlatMapFunction
from tidegate.runtime.stream.functions import KeyedProcessFunction as KeyedProcessFunction
from tidegate.runtime.stream.functions import KeySelector as KeySelector
from tidegate.runtime.stream.functions import MapFunction as MapFunction
from tidegate.runtime.stream.functions import RuntimeContext as RuntimeContext

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
