"""Sources over a numbered sequence: a split is a range of numbers; a reader turns numbers into records.

Reading resumes exactly: the position of a record is its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from math import ceil
from typing import Any

from tidegate.clock import Clock
from tidegate.connectors.spi import Finished, NotYet, Poll, SourceReader, Split
from tidegate.elements import Batch, Origin
from tidegate.ids import CheckpointId, SplitId

__all__ = ["Pace", "RangeReader", "RangeSplit"]

_ROUNDING = 1e-6
"""What floating point may add to a number of milliseconds."""


class RangeSplit(Split, frozen=True, tag=1):
    """The numbers `next`, `next + step`, ... below `stop`, or for ever if `stop` is None."""

    next: int
    stop: int | None
    step: int = 1

    @property
    def done(self) -> bool:
        """Whether no number is left."""
        return self.stop is not None and self.next >= self.stop

    def head(self, records: int) -> range:
        """At most the next `records` numbers."""
        end = self.next + records * self.step
        return range(self.next, end if self.stop is None else min(end, self.stop), self.step)

    def after(self, numbers: range) -> RangeSplit:
        """What is left when `numbers`, a head of it, have been read."""
        return RangeSplit(self.id, self.next + len(numbers) * self.step, self.stop, self.step)

    def cut(self, records: int) -> tuple[RangeSplit, RangeSplit | None]:
        """At most the next `records` numbers, and the rest if there is any."""
        numbers = self.head(records)
        rest = self.after(numbers)
        return RangeSplit(self.id, self.next, rest.next, self.step), None if rest.done else rest


class Pace:
    """Lets each split emit `per_second` records, evenly, without ever sleeping.

    Time in which a split was not polled is made up for, but no more than a second of it.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._due: dict[SplitId, float] = {}

    def allow(self, split: SplitId, limit: int) -> int:
        """How many records the split may emit now, at most `limit`."""
        behind = self._clock.monotonic() - self._due.setdefault(split, self._clock.monotonic())
        return min(limit, int(min(behind, 1.0) * self._per_second) + 1) if behind >= 0 else 0

    def emitted(self, split: SplitId, records: int) -> None:
        """Count emitted records."""
        start = max(self._due[split], self._clock.monotonic() - 1.0)
        self._due[split] = start + records / self._per_second

    def wait_ms(self, splits: Sequence[SplitId]) -> int:
        """In how many milliseconds one of the splits may continue."""
        wait = min(self._due[split] for split in splits) - self._clock.monotonic()
        return max(1, ceil(wait * 1_000 - _ROUNDING))


class RangeReader(SourceReader[RangeSplit]):
    """Reads its splits in turn, one batch each.

    Args:
        read: The records of some numbers, in order.
        pace: Limits the rate; as fast as possible if None.
    """

    def __init__(self, read: Callable[[range], list[Any]], pace: Pace | None = None) -> None:
        self._read = read
        self._pace = pace
        self._splits: deque[RangeSplit] = deque()
        self._complete = False
        self._paused: Collection[SplitId] = ()

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        """Add splits, to be read after the assigned ones."""
        self._splits.extend(split for split in splits if not split.done)

    def no_more_splits(self) -> None:
        """Finish when the assigned splits are read."""
        self._complete = True

    def poll(self, limit: int) -> Poll:
        """The next records of the split whose turn it is."""
        for _ in range(len(self._splits)):
            split = self._splits.popleft()
            allowed = limit if self._pace is None else self._pace.allow(split.id, limit)
            if allowed and split.id not in self._paused:
                return self._take(split, split.head(allowed))
            self._splits.append(split)
        waiting = [split.id for split in self._splits if split.id not in self._paused]
        if self._pace is not None and waiting:
            return NotYet(self._pace.wait_ms(waiting))
        return Finished() if self._complete and not self._splits else NotYet()

    def unfinished_splits(self) -> list[SplitId]:
        """The splits that are not read to their end."""
        return [split.id for split in self._splits]

    def pause(self, splits: Collection[SplitId]) -> None:
        """Leave these out."""
        self._paused = splits

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        """The assigned splits; they are immutable, so the snapshot stays as it is."""
        return list(self._splits)

    def _take(self, split: RangeSplit, numbers: range) -> Batch:
        rest = split.after(numbers)
        try:
            values = self._read(numbers)
        except BaseException:
            self._splits.appendleft(split)
            raise
        if self._pace is not None:
            self._pace.emitted(split.id, len(numbers))
        if not rest.done:
            self._splits.append(rest)
        return Batch(values, origin=Origin(split.id, numbers))
