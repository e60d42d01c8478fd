"""Streams, under PyFlink's module name."""

from tidegate.runtime.stream.collected import CloseableIterator as CloseableIterator
from tidegate.runtime.stream.datastream import (
    ConnectedStreams as ConnectedStreams,
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    KeyedStream as KeyedStream,
)
from tidegate.runtime.stream.windowed import (
    AllWindowedStream as AllWindowedStream,
    WindowedStream as WindowedStream,
)

__all__ = [
    "AllWindowedStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
