"""Source functions: `run` emits until it returns or is cancelled.

Guarantee: a function that keeps its position in operator state (`CheckpointedFunction` or `ListCheckpointed`, with both
the emission and the change of position under `ctx.get_checkpoint_lock()`) is exactly once. Any other begins its `run`
anew after a failure: what it does not read again is lost, what it reads again is repeated. What was emitted before a
checkpoint is never lost, and a `run` that has returned is not called again.

Example:
    >>> class Letters(SourceFunction):
    ...     def run(self, ctx):
    ...         for letter in "abc":
    ...             ctx.collect(letter)
    >>> FunctionSource(Letters()).bounded
    False
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.connectors.functions.enumerator import FunctionEnumerator
from tidegate.connectors.functions.life_cycle import LifeCycle
from tidegate.connectors.functions.reader import FunctionReader
from tidegate.connectors.functions.split import FunctionSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError

__all__ = ["FunctionSource", "ParallelSourceFunction", "SourceContext", "SourceFunction"]


class SourceContext(Protocol):
    """How `run` emits."""

    def collect(self, value: Any) -> None:
        """Emit a record; waits while too many are on the way."""
        ...

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        """Emit a record with its event time."""
        ...

    def emit_watermark(self, timestamp: int) -> None:
        """Promise that no record with a timestamp at or below `timestamp` follows."""
        ...

    def mark_as_temporarily_idle(self) -> None:
        """Mark the source idle until the next record or watermark."""
        ...

    def get_checkpoint_lock(self) -> contextlib.AbstractContextManager[None]:
        """No checkpoint is taken while this is held: `with ctx.get_checkpoint_lock(): ...`."""
        ...


class SourceFunction(LifeCycle, ABC):
    """Emits records from a separate thread; one instance at any parallelism."""

    @abstractmethod
    def run(self, ctx: SourceContext) -> None:
        """Emit records; the input ends when this returns."""

    def cancel(self) -> None:
        """Make `run` return soon; called from another thread. Emitting ends it in any case."""


class ParallelSourceFunction(SourceFunction):
    """A source function with one instance per subtask."""


@dataclass(frozen=True)
class FunctionSource(Source[FunctionSplit]):
    """A source function as a source.

    Args:
        function: What emits; every instance works on a copy of it.
    """

    function: SourceFunction

    split_type = FunctionSplit
    bounded = False
    continuous = True

    def __post_init__(self) -> None:
        if not isinstance(self.function, SourceFunction):
            raise ConfigError(
                f"add_source needs a SourceFunction; got {type(self.function).__name__}; use from_source for a "
                "Source"
            )

    @property
    def parallel(self) -> bool:
        """Whether each subtask has an instance."""
        return isinstance(self.function, ParallelSourceFunction)

    def open_enumerator(
        self, context: EnumeratorContext[FunctionSplit], restored: bytes | None
    ) -> FunctionEnumerator:
        """One instance, or one per subtask."""
        return FunctionEnumerator(context, self.parallel, restored)

    def open_reader(self, context: ReaderContext) -> FunctionReader:
        """Runs an instance in a thread once it is assigned one."""
        return FunctionReader(self.function, context)
