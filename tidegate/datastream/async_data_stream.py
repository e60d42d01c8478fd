"""Asynchronous I/O, under PyFlink's module name."""

from tidegate.runtime.stream.async_data_stream import AsyncDataStream as AsyncDataStream

__all__ = ["AsyncDataStream"]
