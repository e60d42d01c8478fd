"""Sink functions: called with each record.

Guarantee: at least once, if `flush` leaves no unwritten records in the function, or if the function keeps what it has not
written in operator state (`CheckpointedFunction` or `ListCheckpointed`), which is saved after each `flush`. After a
failure the records since the last checkpoint come again.

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
from typing import Any, ClassVar

import msgspec

from tidegate.changelog import RowKinds
from tidegate.checks import shorten
from tidegate.connectors.functions.life_cycle import LifeCycle, program_of
from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.errors import ConfigError, TidegateError
from tidegate.failures import failure_of
from tidegate.ids import CheckpointId
from tidegate.row import values_with_kinds
from tidegate.serde import codec_for
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["Adapter", "Callback", "FunctionSink", "FunctionWriter", "SinkContext", "SinkFunction"]


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
    """Writes records to an external system, one instance per subtask."""

    @abstractmethod
    def invoke(self, value: Any, context: SinkContext) -> None:
        """Take a record."""

    def flush(self) -> None:
        """Write buffered records; called for every checkpoint, before state is saved."""


class Adapter(SinkFunction):
    """Adapts a user's object to a sink function: `function`, with its state and name."""

    function: Any


class Callback(Adapter):
    """A plain function as a sink function."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Call it with only the record."""
        self.function(value)


@dataclass(frozen=True)
class FunctionSink(Sink):
    """A sink function as a sink.

    Args:
        function: What takes records; every subtask works on a copy of it.
    """

    function: SinkFunction

    delivery = "at-least-once"
    takes: ClassVar[RowKinds] = "rows"

    def __post_init__(self) -> None:
        if not isinstance(self.function, SinkFunction):
            raise ConfigError(
                f"add_sink needs a function or a SinkFunction; got {type(self.function).__name__}; use sink_to "
                "for a Sink"
            )

    def open_writer(self, context: WriterContext) -> FunctionWriter:
        """An open instance."""
        return FunctionWriter(copy.deepcopy(self.function), context)


class FunctionWriter(SinkWriter):
    """Calls the function; there is nothing to commit."""

    def __init__(self, function: SinkFunction, context: WriterContext) -> None:
        self._function = function
        self._written: Any = function.function if isinstance(function, Adapter) else function
        self._context = SinkContext(context.clock.now_ms)
        name = getattr(self._written, "__name__", type(self._written).__name__)
        self._where = f"sink function {name} (uid {context.uid!r}, subtask {context.subtask})"
        self._codec = codec_for(None)
        program = program_of(context)
        with self.blamed("initialize_state"):
            self._save = program.manage(self._written)
        items = [item for state in context.restored for item in _ITEMS.decode(state)]
        if items:
            with self.blamed("restore_state"):
                self._restore([self._codec.decode(item) for item in items])
        with self.blamed("open"):
            function.open(program)

    def write(self, batch: Batch) -> None:
        """Call the function with each record."""
        values = values_with_kinds(batch, self._where)
        invoke, context = self._function.invoke, self._context
        times = batch.timestamps or repeat(None)
        value: Any = None
        try:
            for value, stamp in zip(values, times, strict=False):
                context.stamp = stamp
                invoke(value, context)
        except BaseException as error:
            raise self._failure(f"invoke on record {shorten(value)}", error) from error

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Let the function write its buffered records."""
        with self.blamed("flush"):
            self._function.flush()
        return None

    def snapshot(self, checkpoint: CheckpointId) -> bytes | None:
        """Save the state of the function, which is not part of the writer's state."""
        with self.blamed("snapshot_state"):
            self._save(checkpoint)
        return None

    def close(self) -> None:
        """Close the function."""
        with self.blamed("close"):
            self._function.close()

    def _restore(self, items: list[Any]) -> None:
        """Take what a writer held; version 1 kept the list of a function there."""
        if hasattr(self._written, "restore_state"):
            self._written.restore_state(items)

    @contextlib.contextmanager
    def blamed(self, doing: str) -> Iterator[None]:
        """Name the function in errors it raises."""
        try:
            yield
        except BaseException as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: BaseException) -> TidegateError:
        return failure_of(f"{self._where} failed in {doing}", error)


_ITEMS = msgspec.msgpack.Decoder(list[bytes])
