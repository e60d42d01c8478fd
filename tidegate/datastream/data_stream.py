"""Streams, under PyFlink's module name."""

from tidegate.runtime.stream.datastream import (
    ConnectedStreams as ConnectedStreams,
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    KeyedStream as KeyedStream,
)

__all__ = ["ConnectedStreams", "DataStream", "DataStreamSink", "KeyedStream"]
