"""Reader of a source function: runs it in a thread and returns the records that it emits."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.connectors.functions.life_cycle import program_of
from tidegate.connectors.functions.split import Emission, FunctionSplit, pack, unpack
from tidegate.connectors.spi import Finished, NotYet, Poll, ReaderContext, SourceReader
from tidegate.elements import Batch, Idle, Watermark
from tidegate.errors import TidegateError
from tidegate.failures import failure_of
from tidegate.ids import CheckpointId
from tidegate.isolation import isolate
from tidegate.serde import codec_for

__all__ = ["FunctionReader"]

_MOST = 1_000
"""The number of unpolled emissions after which the function blocks."""

_GRACE_S = 10.0


class FunctionReader(SourceReader[FunctionSplit]):
    """Runs at most one instance: emitted records are polled; unpolled ones are part of its snapshot."""

    def __init__(self, function: Any, context: ReaderContext) -> None:
        self._function = copy.deepcopy(function)
        self._context = context
        self._instance: _Instance | None = None
        self._complete = False

    def add_splits(self, splits: Sequence[FunctionSplit]) -> None:
        """Start the instance."""
        for split in splits:
            self._instance = _Instance(split, self._function, self._context)

    def no_more_splits(self) -> None:
        """No further splits: only the instance's records follow."""
        self._complete = True

    def poll(self, limit: int) -> Poll:
        """The records emitted since the last poll, up to the next watermark."""
        found = self._instance.take(limit) if self._instance is not None else None
        if found is not None:
            return found
        ended = self._instance is None or self._instance.returned
        return Finished() if self._complete and ended else NotYet()

    def snapshot(self, checkpoint: CheckpointId) -> list[FunctionSplit]:
        """The instance with its list; kept when it has returned, so that it is not run again."""
        return [self._instance.snapshot(checkpoint)] if self._instance is not None else []

    def close(self) -> None:
        """End the thread."""
        if self._instance is not None:
            self._instance.close()


class _Cancelled(BaseException):
    """Ends a `run` that still emits after it was cancelled."""


class _Instance:
    """A running function; it is the `ctx` argument of `run`. All fields after `_lock` are shared."""

    def __init__(self, split: FunctionSplit, function: Any, context: ReaderContext) -> None:
        self._split = split
        self._function = function
        self._context = context
        self._codec = codec_for(None)
        self._emitted: deque[Emission] = deque(unpack(each) for each in split.emitted)
        self._lock = threading.Condition(threading.RLock())
        self._depth = 0
        self._idle = False
        self._cancelled = False
        self._ended = split.returned
        self._error: BaseException | None = None
        self._opened = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="tidegate-source")
        if not self._ended:
            self._open()
            self._thread.start()

    @property
    def returned(self) -> bool:
        """Whether `run` has returned and all its records were polled."""
        with self._lock:
            return self._ended and not self._emitted

    def collect(self, value: Any) -> None:
        """Emit a record."""
        self._emit((isolate(value), None))

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        """Emit a record with its event time."""
        self._emit((isolate(value), timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark."""
        self._emit(Watermark(timestamp))

    def mark_as_temporarily_idle(self) -> None:
        """Mark the source idle, so that it does not hold back event time."""
        self._emit(Idle(True))

    @contextlib.contextmanager
    def get_checkpoint_lock(self) -> Iterator[None]:
        """The checkpoint lock; waits for room first, because no record can be polled while it is held."""
        with self._lock:
            if self._depth == 0:
                self._lock.wait_for(lambda: self._cancelled or len(self._emitted) < _MOST)
            if self._cancelled:
                raise _Cancelled
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def take(self, limit: int) -> Poll | None:
        """The next records of one kind, or the next watermark or idleness; None if there is nothing."""
        with self._lock:
            if self._error is not None:
                raise self._failure("run", self._error) from self._error
            if not self._emitted:
                return None
            self._lock.notify_all()
            head = self._emitted[0]
            if isinstance(head, Watermark | Idle):
                self._emitted.popleft()
                return head
            return self._records(limit, timed=head[1] is not None)

    def snapshot(self, checkpoint: CheckpointId) -> FunctionSplit:
        """The unpolled records; saves the function's state at the same time."""
        with self._lock:
            if self._opened:
                with self._blamed("snapshot_state"):
                    self._save(checkpoint)
            items = () if self._opened else self._split.items
            emitted = tuple(pack(each) for each in self._emitted)
            return FunctionSplit(id=self._split.id, items=items, emitted=emitted, returned=self._ended)

    def close(self) -> None:
        """Cancel, wait, close the function."""
        with self._lock:
            self._cancelled = True
            self._lock.notify_all()
        if self._thread.is_alive():
            with self._blamed("cancel"):
                self._function.cancel()
            self._thread.join(_GRACE_S)
        if self._opened:
            with self._blamed("close"):
                self._function.close()

    def _open(self) -> None:
        program = program_of(self._context)
        with self._blamed("initialize_state"):
            self._save = program.manage(self._function, self._lock)
        if self._split.items and hasattr(self._function, "restore_state"):
            with self._blamed("restore_state"):
                self._function.restore_state([self._codec.decode(item) for item in self._split.items])
        with self._blamed("open"):
            self._function.open(program)
        self._opened = True

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._function.run(self)
        except _Cancelled:
            pass
        except BaseException as failure:
            error = failure
        with self._lock:
            self._error = None if self._cancelled else error
            # A run that was cut short by its end or its failure is to be run again.
            self._ended = error is None and not self._cancelled
        self._context.wake()

    def _emit(self, emission: Emission) -> None:
        with self.get_checkpoint_lock():
            first = not self._emitted
            if self._idle and not isinstance(emission, Idle):
                self._emitted.append(Idle(False))
            self._idle = isinstance(emission, Idle)
            self._emitted.append(emission)
        if first:
            self._context.wake()

    def _records(self, limit: int, *, timed: bool) -> Batch:
        values: list[Any] = []
        times: list[int] = []
        while self._emitted and len(values) < limit:
            head = self._emitted[0]
            if isinstance(head, Watermark | Idle) or (head[1] is not None) != timed:
                break
            self._emitted.popleft()
            values.append(head[0])
            if head[1] is not None:
                times.append(head[1])
        return Batch(values, times if timed else None)

    @contextlib.contextmanager
    def _blamed(self, doing: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: BaseException) -> TidegateError:
        where = (
            f"source function {type(self._function).__name__} (uid {self._context.uid!r}, subtask "
            f"{self._context.subtask})"
        )
        return failure_of(f"{where} failed in {doing}", error)
