"""Source task: a subtask that reads a source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec

from tidegate.connectors.spi import (
    Finished,
    NotYet,
    ReaderContext,
    Source,
    SourceReader,
    SupportsEvents,
    SupportsPausing,
    SupportsSettled,
    Unreadable,
)
from tidegate.elements import MAX_WATERMARK, Barrier, Batch, EndOfInput, Idle, Watermark
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, OperatorUid, SplitId
from tidegate.runtime.checkpoint.protocol import Settled, Trigger
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.task.exchange import RecordWriter
from tidegate.runtime.task.messages import (
    AssignSplits,
    Drained,
    EndInput,
    NoMoreSplits,
    ReadUntil,
    SplitsWanted,
    TimeReached,
    ToEnumerator,
    ToReader,
    ToSubtask,
)
from tidegate.runtime.task.runner import Report, StreamTask
from tidegate.runtime.task.split_alignment import SplitAlignment

__all__ = ["SourceTask"]

_ALIGNED = 256


class SourceTask(StreamTask):
    """Polls a reader and injects barriers; at the end of a bounded input it ends event time and stays for checkpoints.

    The batch size adapts to the processing time, so that control messages never wait long.
    """

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, RecordWriter],
        report: Report,
        background: Executor,
    ) -> None:
        super().__init__(vertex, env, gates, report, background)
        self._source: Source[Any] = vertex.head.payload
        self._reader: SourceReader[Any] | None = None
        self._stamp: Stamp | None = None
        self._alignment: SplitAlignment | None = None
        self.left: int | None = None
        """How many records it may still read; None: no limit."""
        self._outside = env.machine
        self._asked = False
        self._received = 0
        self._answered = False
        """Whether the first assignment has arrived: until then splits may be in flight, and the source is not idle."""
        self._idle = self._told_idle = False
        self._told_to_end = False
        self._ending = False
        self._drained = False
        self._ask_at: float | None = None
        """When to poll the reader again, on the monotonic clock."""
        self._woken = False

    def open(self) -> None:
        """Open the chain, then the reader."""
        super().open()
        self._flow.reading(0.0)
        env = self._env
        uid = self._vertex.head.uid
        context = ReaderContext(
            uid,
            env.subtask,
            env.parallelism,
            self._outside,
            self._wake,
            self._chain.operators.contexts[uid],
            lambda event: self._report(ToEnumerator(uid, self.subtask.index, event)),
            env.pipeline,
            brief=env.pool_index is not None,
        )
        self._reader = self._source.open_reader(context)
        self._stamp = self._chain.operators.stamp(uid)
        aligned = self._vertex.head.watermarks.aligned if self._stamp is not None else None
        if self._stamp is not None and aligned is not None:
            self._size.largest = _ALIGNED
            self._alignment = SplitAlignment(
                self._stamp,
                self._reader,
                self._outside,
                aligned.update_ms,
                lambda time: self._report(TimeReached(self.subtask, time)),
            )

    @property
    def reusable(self) -> bool:
        """As for other tasks; also no split is left, and no external system gets the read positions."""
        reader = self._opened
        ended = isinstance(reader, SupportsPausing) and not reader.unfinished_splits()
        return super().reusable and ended and not isinstance(reader, SupportsSettled)

    def wait_s(self) -> float | None:
        """Seconds until the next poll of the reader or the next timer."""
        reading = self.promised_s if self._open and self._chain.operators.ready() else None
        telling = self._alignment.wait_s() if self._alignment is not None and not self._ending else None
        waits = [wait for wait in (super().wait_s(), reading, telling) if wait is not None]
        return min(waits, default=None)

    @property
    def promised_s(self) -> float | None:
        """Seconds until the reader has records again, if it has named a time."""
        return None if self._ask_at is None else self._ask_at - self._outside.monotonic()

    @property
    def time(self) -> int | None:
        """The event time for watermark alignment; None if this source holds no other source back."""
        return self._stamp.time if self._stamp is not None and not self._ending else None

    def resume_time(self, since_ms: int) -> None:
        """Continue with the restored watermark, before the first step; splits have their own watermarks."""
        reader = self._opened
        self._chain.time.resume(
            reader.unfinished_splits() if isinstance(reader, SupportsPausing) else (), since_ms
        )

    def begin_settled(self, checkpoint: CheckpointId) -> None:
        """The restored positions belong to a settled checkpoint; called if the former reader can no longer report them."""
        if isinstance(self._opened, SupportsSettled):
            self._opened.snapshot(checkpoint)
        self._handle(Settled(checkpoint))

    def unread(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        """The current positions of all splits that are not finished."""
        return tuple(msgspec.msgpack.encode(split) for split in self._opened.snapshot(checkpoint))

    def close(self) -> None:
        """Close the reader and the chain."""
        try:
            super().close()
        finally:
            if self._reader is not None:
                self._reader.close()

    def _work(self) -> bool:
        if self._ending:
            return self._end_input()
        if self._told_to_end:
            return self._end_time()
        if self._alignment is not None and not self._alignment.may_read():
            return False
        if not self._woken and self._ask_at is not None and self._outside.monotonic() < self._ask_at:
            return False
        if self._tell_idleness():
            return True
        limit = self._size.limit if self.left is None else min(self._size.limit, self.left)
        if limit == 0:
            return False
        self._woken, self._ask_at = False, None
        start = self._env.clock.monotonic()
        result = self._opened.poll(limit)
        match result:
            case Batch():
                self._process(result)
                self._flow.reading(self._env.clock.monotonic() - start)
                return True
            case Unreadable():
                self._chain.data.process(result.letters, at=self._dead_letters)
                if result.batch is not None:
                    self._process(result.batch)
                self._flow.reading(self._env.clock.monotonic() - start)
                return True
            case Watermark() | Idle() if self._env.batch:
                return True
            case Watermark():
                self._chain.time.advance_watermark(result.timestamp)
                return True
            case Idle():
                self._idle = result.idle
                self._tell_idleness()
                return True
            case NotYet():
                if result.after_ms is not None:
                    self._ask_at = self._outside.monotonic() + result.after_ms / 1_000
                elif not self._asked:
                    self._asked = True
                    self._report(SplitsWanted(self._vertex.head.uid, self.subtask.index, self._received))
            case Finished():
                return self._end_time()
        return False

    def _wake(self) -> None:
        """Poll again at once; thread-safe. A call during a poll counts for the next poll."""
        self._woken = True
        self._env.wake()

    def _tell_idleness(self) -> bool:
        """Send a change of idleness."""
        idle = self._idle and self._answered
        if idle == self._told_idle:
            return False
        self._told_idle = idle
        self._chain.time.advance_idleness(idle)
        return True

    def _end_time(self) -> bool:
        self._ending = True
        if self._alignment is not None:
            self._alignment.end()
        self._chain.time.advance_watermark(MAX_WATERMARK)
        return True

    def _process(self, batch: Batch) -> None:
        start = self._env.clock.monotonic()
        if self._stamp is not None and batch.origin is not None and isinstance(self._opened, SupportsPausing):
            self._process_split(self._stamp, batch, batch.origin.split, self._opened.unfinished_splits())
        else:
            self._chain.data.process(batch)
        took = self._env.clock.monotonic() - start
        self.records += len(batch)
        if self.left is not None:
            self.left -= len(batch)
        self._learn(took, len(batch))

    def _process_split(
        self, stamp: Stamp, batch: Batch, split: SplitId, unfinished: Collection[SplitId]
    ) -> None:
        stamp.read(split, unfinished)
        self._chain.data.process(batch)
        if split not in unfinished:
            stamp.forget(split)
            # After the timers that its last records made due, the watermark is computed again.
            self._chain.time.advance_processing_time(self._env.clock.now_ms())

    def _end_input(self) -> bool:
        if not self._drained and self._chain.operators.empty():
            self._drained = True
            self._broadcast(EndOfInput())
            self._report(Drained(self.subtask))
        return False

    def _take_splits(self, encoded: Sequence[bytes]) -> None:
        if encoded:
            # Idleness reported before the first assignment does not count: the source had no splits then.
            self._idle = self._idle and self._answered
            self._opened.add_splits(
                [msgspec.msgpack.decode(split, type=self._source.split_type) for split in encoded]
            )
        self._answered = True

    def _handle_input(self, message: ToSubtask) -> None:
        match message:
            case AssignSplits():
                self._asked = False
                self._received += 1
                self._take_splits(message.splits)
            case ReadUntil():
                if self._alignment is not None:
                    self._alignment.allow(message.limit)
            case NoMoreSplits():
                self._answered = True
                self._opened.no_more_splits()
            case ToReader():
                self._source_event(message.event)
            case EndInput():
                self._told_to_end = True
            case Trigger():
                self._snapshot(
                    Barrier(message.checkpoint, message.confirmed), [self._splits(message.checkpoint)]
                )

    def _settled(self, checkpoint: CheckpointId) -> None:
        super()._settled(checkpoint)
        if isinstance(self._opened, SupportsSettled):
            self._opened.settled(checkpoint)

    def _source_event(self, event: bytes) -> None:
        if not isinstance(self._opened, SupportsEvents):
            raise ConfigError(
                f"source {self._vertex.head.uid!r}: its enumerator sent a source event; {type(self._opened).__name__} has no "
                "method event; implement it"
            )
        self._opened.event(event)

    def _splits(self, checkpoint: CheckpointId) -> OperatorReport:
        return OperatorReport(self._vertex.head.uid, self.subtask.index, splits=self.unread(checkpoint))

    @property
    def _dead_letters(self) -> OperatorUid:
        """The side output for records that cannot be read."""
        vertex = self._vertex
        return next(
            uid for uid in vertex.follows[vertex.head.uid] if vertex.nodes[uid].kind.role is Role.SIDE_OUTPUT
        )

    @property
    def _opened(self) -> SourceReader[Any]:
        assert self._reader is not None
        return self._reader
