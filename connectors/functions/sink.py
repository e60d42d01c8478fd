"""Sinks as a function that is called with each record.

Guarantee: at least once, if `flush` leaves nothing behind in the function, or if it keeps what it has not written in
`snapshot_state`. After a failure the records since the last checkpoint come again.

Example:
    >>> class Shout(SinkFunction):
    ...     def invoke(self, value, context):
    ...         print(value.upper())
    >>> FunctionSink(Shout()).delivery
    'at-least-once'
"""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgspec

from tidegate.checks import shorten
from tidegate.connectors.functions.place import LifeCycle, Place
from tidegate.connectors.spi import ListCheckpointed, Sink
from tidegate.elements import Batch
from tidegate.errors import ConfigError, TidegateError, UserCodeError
from tidegate.ids import CheckpointId
from tidegate.serde import codec_for
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["Callback", "FunctionSink", "FunctionWriter", "SinkContext", "SinkFunction"]


class SinkContext:
    """The surroundings of a record; valid during the call only."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.stamp: int | None = None
        self._now_ms = now_ms

    def timestamp(self) -> int | None:
        """The record's event time, if it has one."""
        return self.stamp

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms()


class SinkFunction(LifeCycle, ABC):
    """Takes records to wherever they belong, one instance per subtask."""

    @abstractmethod
    def invoke(self, value: Any, context: SinkContext) -> None:
        """Take a record."""

    def flush(self) -> None:
        """Write out what was buffered; called for every checkpoint."""


class Callback(SinkFunction):
    """A plain function as a sink function."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Call it with the record alone."""
        self._function(value)


@dataclass(frozen=True)
class FunctionSink(Sink):
    """A sink function as a sink.

    Args:
        function: What takes records; every subtask works on a copy of it.
    """

    function: SinkFunction

    delivery = "at-least-once"

    def __post_init__(self) -> None:
        if not isinstance(self.function, SinkFunction):
            raise ConfigError(
                f"add_sink takes a function or a SinkFunction; got {type(self.function).__name__}; use sink_to for a Sink"
            )

    def open_writer(self, context: WriterContext) -> FunctionWriter:
        """An open instance."""
        return FunctionWriter(copy.deepcopy(self.function), context, type(self.function).__name__)


class FunctionWriter(SinkWriter):
    """Calls the function; there is nothing to commit."""

    def __init__(self, function: SinkFunction, context: WriterContext, name: str) -> None:
        self._function = function
        self._context = SinkContext(context.clock.now_ms)
        self._where = f"sink function {name} (uid {context.uid!r}, subtask {context.subtask})"
        self._codec = codec_for(None)
        items = [item for state in context.restored for item in _ITEMS.decode(state)]
        if items and isinstance(function, ListCheckpointed):
            with self.blamed("restore_state"):
                function.restore_state([self._codec.decode(item) for item in items])
        with self.blamed("open"):
            function.open(Place(context.uid, context.subtask.index, context.parallelism, context.program))
        self._now_ms = context.clock.now_ms

    def write(self, batch: Batch) -> None:
        """Call the function with each record."""
        invoke, context = self._function.invoke, self._context
        times = batch.timestamps or repeat(None)
        value: Any = None
        try:
            for value, stamp in zip(batch.values, times, strict=False):
                context.stamp = stamp
                invoke(value, context)
        except Exception as error:
            raise self._failure(f"invoke on record {shorten(value)}", error) from error

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Let the function write out what it holds."""
        with self.blamed("flush"):
            self._function.flush()
        return None

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """The function's list, empty if it has none."""
        held: list[Any] = []
        if isinstance(self._function, ListCheckpointed):
            with self.blamed("snapshot_state"):
                held = self._function.snapshot_state(checkpoint, self._now_ms())
        return msgspec.msgpack.encode([self._codec.encode(item) for item in held])

    def close(self) -> None:
        """Close the function."""
        with self.blamed("close"):
            self._function.close()

    @contextlib.contextmanager
    def blamed(self, doing: str) -> Iterator[None]:
        """Name the function in what it raises."""
        try:
            yield
        except Exception as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: Exception) -> TidegateError:
        kind = type(error) if isinstance(error, TidegateError) else UserCodeError
        return kind(f"{self._where} failed in {doing}: {type(error).__name__}: {error}")


_ITEMS = msgspec.msgpack.Decoder(list[bytes])
