"""Test rig of the source kit: `SourceRig` runs a source as a job does; `SourceTarget` has the expected records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.clock import Clock, ManualClock
from tidegate.connectors.spi import (
    Finished,
    NotYet,
    Poll,
    ReaderContext,
    Source,
    SourceReader,
    Split,
    SupportsEvents,
    SupportsPending,
    SupportsReaderEvents,
)
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint.split_ledger import SplitLedger
from tidegate.testing.opened import opened

__all__ = ["SourceCheckpoint", "SourceRig", "SourceTarget"]


@dataclass(frozen=True)
class SourceTarget:
    """The source under test, and the expected records, determined without the source."""

    source: Source[Any]
    expected: Iterable[Any]
    patience: int = 3
    """After how many polls without records an unbounded source counts as idle."""
    clock: Clock | None = None
    """The machine's clock for a source that waits for another system; None for a clock that jumps to the next time at
    which a reader wants to be polled."""
    ending: Callable[[BaseException], Source[Any]] | None = None
    """The same source with fetches that raise this error; for `FetchingSourceSuite`."""


@dataclass(frozen=True)
class SourceCheckpoint:
    """The state that survives a crash."""

    enumerator: bytes
    splits: tuple[bytes, ...]


class SourceRig:
    """Runs a source as a coordinator and its subtasks do, in one thread and with its own clock.

    It checks that each split is in one place at a time and that polls respect their limit.
    """

    def __init__(
        self, target: SourceTarget, readers: int = 1, restored: SourceCheckpoint | None = None
    ) -> None:
        self.parallelism = readers
        self.owner = "kit"
        self.batches: list[Batch] = []
        self._target = target
        self._source = target.source
        self._clock = target.clock or ManualClock(1_000)
        self._ledger = SplitLedger("source")
        self._complete: set[int] = set()
        self._readers = [self._source.open_reader(self._context(index)) for index in range(readers)]
        self._enumerator = self._source.open_enumerator(self, restored.enumerator if restored else None)
        self._closed = False
        opened(self)
        self._enumerator.start()
        if restored:
            self._enumerator.give_back([self._decoded(data) for data in restored.splits])

    def assign(self, reader: int, splits: Sequence[Any]) -> None:
        """Assign splits to a reader."""
        self._ledger.assign(reader, [split.id for split in splits])
        self._readers[reader].add_splits([self._decoded(msgspec.msgpack.encode(split)) for split in splits])

    def no_more_splits(self, reader: int) -> None:
        """Tell a reader that there are no more splits."""
        self._complete.add(reader)
        self._readers[reader].no_more_splits()

    def send_event(self, reader: int, event: bytes) -> None:
        """Send a source event to a reader."""
        receiver = self._readers[reader]
        assert isinstance(receiver, SupportsEvents), (
            "an event was sent to a reader that does not support events"
        )
        receiver.event(event)

    def request(self, reader: int) -> None:
        """Let a reader request splits."""
        self._enumerator.request(reader)

    def poll(self, reader: int, limit: int) -> Poll:
        """Poll one reader; a reader without splits requests more."""
        found = self._readers[reader].poll(limit)
        if isinstance(found, Batch):
            assert 0 < len(found) <= limit, f"poll({limit}) returned {len(found)} records"
            self.batches.append(found)
        elif isinstance(found, NotYet):
            if reader not in self._complete and found.after_ms is None:
                self.request(reader)
            if found.after_ms is not None:
                self._clock.sleep(max(1, found.after_ms) / 1_000)
        return found

    def read(self, records: int | None = None, limit: int = 3) -> list[Any]:
        """Poll all readers in turn and return the values: this many, or until no more arrive."""
        values: list[Any] = []
        finished: set[int] = set()
        quiet = 0
        while len(finished) < self.parallelism and quiet < self._target.patience:
            quiet += 1
            for index in sorted(set(range(self.parallelism)) - finished):
                wanted = limit if records is None else min(limit, records - len(values))
                if wanted == 0:
                    return values
                found = self.poll(index, wanted)
                if isinstance(found, Batch):
                    values.extend(found.values)
                    quiet = 0
                elif isinstance(found, Finished):
                    finished.add(index)
        if self._source.bounded and records is None:
            assert len(finished) == self.parallelism, "a bounded source did not report that it has finished"
        return values

    def checkpoint(self) -> SourceCheckpoint:
        """Take a checkpoint; checks that it holds each split once."""
        number = CheckpointId(1)
        own = self._enumerator
        self._ledger.cut(own.pending() if isinstance(own, SupportsPending) else None)
        enumerator = own.snapshot(number)
        held = [reader.snapshot(number) for reader in self._readers]
        self._ledger.report({index: [split.id for split in splits] for index, splits in enumerate(held)})
        return SourceCheckpoint(
            enumerator, tuple(msgspec.msgpack.encode(split) for splits in held for split in splits)
        )

    def reader(self, index: int) -> SourceReader[Any]:
        """One of the readers."""
        return self._readers[index]

    def splits(self) -> list[Any]:
        """All splits of the readers."""
        return [split for reader in self._readers for split in reader.snapshot(CheckpointId(1))]

    def close(self) -> None:
        """Close readers and enumerator. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for reader in self._readers:
            reader.close()
        self._enumerator.close()

    def _context(self, index: int) -> ReaderContext:
        return ReaderContext(
            OperatorUid("source"),
            Subtask("source", index),
            self.parallelism,
            self._clock,
            send_event=lambda event: self._reader_event(index, event),
        )

    def _reader_event(self, reader: int, event: bytes) -> None:
        receiver = self._enumerator
        assert isinstance(receiver, SupportsReaderEvents), (
            "an event was sent to an enumerator that does not support events"
        )
        receiver.reader_event(reader, event)

    def _decoded(self, data: bytes) -> Split:
        return msgspec.msgpack.decode(data, type=self._source.split_type)
