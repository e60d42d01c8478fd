"""Reader of the hybrid source: reads the splits of one stage at a time, in the order of the stages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from tidegate.connectors.hybrid.split import HybridSplit, name_of
from tidegate.connectors.spi import (
    Finished,
    NotYet,
    Poll,
    ReaderContext,
    Source,
    SourceReader,
    SupportsPausing,
    SupportsSettled,
)
from tidegate.elements import Batch, Idle
from tidegate.ids import CheckpointId, SplitId

__all__ = ["HybridReader"]

_PAUSE_MS: Final = 10

_NO_CHECKPOINT: Final = CheckpointId(0)


class HybridReader(SourceReader[HybridSplit]):
    """One reader at a time; requests splits only when the current one has none."""

    def __init__(self, context: ReaderContext, source_of: Callable[[int, bytes | None], Source[Any]]) -> None:
        self._context = context
        self._source_of = source_of
        self._waiting: deque[HybridSplit] = deque()
        self._inner: SourceReader[Any] | None = None
        self._source: Source[Any] | None = None
        self._stage = 0
        self._end: bytes | None = None
        self._complete = False
        self._idle = False
        self._paused: Collection[SplitId] = ()

    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        """Hand those of the current stage to its reader; the others wait."""
        self._waiting.extend(sorted(splits, key=lambda split: split.stage))
        self._hand_over()

    def no_more_splits(self) -> None:
        """What was added is all, of the last stage too."""
        self._complete = True
        if self._inner is not None and not self._waiting:
            self._inner.no_more_splits()

    def poll(self, limit: int) -> Poll:
        """What the reader of the stage has; the next stage if it has nothing left."""
        if self._inner is None and self._waiting:
            if self._idle:
                self._idle = False
                return Idle(False)
            self._begin(self._waiting[0])
        if self._inner is None:
            return Finished() if self._complete else NotYet()
        if self._all_paused():
            return NotYet(_PAUSE_MS)
        found = self._inner.poll(limit)
        match found:
            case Batch():
                if found.origin is not None:
                    found.origin = replace(found.origin, split=name_of(self._stage, found.origin.split))
            case Idle():
                self._idle = found.idle
            case Finished() | NotYet():
                return self._without_records(self._inner, found)
        return found

    def unfinished_splits(self) -> list[SplitId]:
        """The splits of the current reader, and those that wait."""
        inner = _held(self._inner) if self._inner is not None else ()
        return [name_of(self._stage, split) for split in inner] + [split.id for split in self._waiting]

    def pause(self, splits: Collection[SplitId]) -> None:
        """Leave these out; a reader that cannot tell its splits apart waits when all of them shall."""
        self._paused = splits
        if isinstance(self._inner, SupportsPausing):
            self._inner.pause(
                [split for split in _held(self._inner) if name_of(self._stage, split) in splits]
            )

    def snapshot(self, checkpoint: CheckpointId) -> list[HybridSplit]:
        """The splits of the current reader, and those that wait."""
        inner = self._inner.snapshot(checkpoint) if self._inner is not None else []
        return [HybridSplit.of(self._stage, split, self._end) for split in inner] + list(self._waiting)

    def settled(self, checkpoint: CheckpointId) -> None:
        """Notify the current reader."""
        if isinstance(self._inner, SupportsSettled):
            self._inner.settled(checkpoint)

    def close(self) -> None:
        """Close the current reader."""
        if self._inner is not None:
            self._inner.close()

    def _all_paused(self) -> bool:
        held = self.unfinished_splits() if self._paused else ()
        return bool(held) and all(split in self._paused for split in held)

    def _without_records(self, inner: SourceReader[Any], found: Finished | NotYet) -> Poll:
        if isinstance(found, NotYet) and _held(inner):
            # It waits for itself and not for splits: asking for more would say that it has read all it has.
            return found if found.after_ms is not None else NotYet(_PAUSE_MS)
        if self._waiting:
            inner.close()
            self._inner = None
            return NotYet(0)
        return Finished() if self._complete and isinstance(found, Finished) else NotYet()

    def _begin(self, split: HybridSplit) -> None:
        source = self._source_of(split.stage, split.end)
        self._inner = source.open_reader(self._context)
        self._stage, self._end, self._source = split.stage, split.end, source
        self._hand_over()
        self.pause(self._paused)

    def _hand_over(self) -> None:
        if self._inner is None or self._source is None:
            return
        mine = [split.within(self._source) for split in self._waiting if split.stage == self._stage]
        self._waiting = deque(split for split in self._waiting if split.stage != self._stage)
        if mine:
            self._inner.add_splits(mine)
        if self._complete and not self._waiting:
            self._inner.no_more_splits()


def _held(reader: SourceReader[Any]) -> list[SplitId]:
    """The splits that are not read to their end."""
    if isinstance(reader, SupportsPausing):
        return list(reader.unfinished_splits())
    return [split.id for split in reader.snapshot(_NO_CHECKPOINT)]
