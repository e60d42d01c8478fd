"""Data streams, under PyFlink's module name."""

from tidegate.runtime.stream.broadcast import (
    BroadcastConnectedStream as BroadcastConnectedStream,
    BroadcastStream as BroadcastStream,
)
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
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
