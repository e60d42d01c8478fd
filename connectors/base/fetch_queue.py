"""Queue of prefetched records and the progress of each split: the part of `FetchingReader` without threads.

Fetched records are put in as the external system delivers them and taken out in batches of limited size. The
state of a split moves only when its records go out, so a checkpoint never counts what is still in here.

Example:
    >>> from tidegate.connectors.base.ranges import RangeSplit
    >>> split = RangeSplit(SplitId("a"), 0, 5)
    >>> queue = FetchQueue[RangeSplit](lambda split, number: split.after(range(split.next, number + 1)), depth=2)
    >>> queue.add([split])
    >>> queue.put(Fetched(split, ["x", "y", "z"], range(3), rest=RangeSplit(split.id, 3, 5)))
    >>> queue.take(2).values
    ['x', 'y']
    >>> [split.next for split in queue.states()], [split.next for split in queue.wanted()]
    ([2], [3])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate.connectors.spi import Split
from tidegate.elements import Batch, Origin
from tidegate.errors import UserCodeError
from tidegate.ids import SplitId

__all__ = ["FetchQueue", "Fetched"]

S = TypeVar("S", bound=Split)


@dataclass(frozen=True, slots=True)
class Fetched(Generic[S]):
    """The next records of one split; none if only the end was found, or a gap.

    Args:
        split: Whose they are, as it was before them.
        values: The records.
        positions: Where each was read, rising within the split.
        rest: The split after these records; None if it is read to its end.
        timestamps: The time of each, if known.
    """

    split: S
    values: list[Any]
    positions: Sequence[int]
    rest: S | None
    timestamps: list[int] | None = None


class FetchQueue(Generic[S]):
    """Splits and their fetched records that were not taken. Not thread-safe: threads that share one hold a lock.

    Args:
        after: The split after its record at a position; pure.
        depth: How many fetches of one split may wait; it is wanted no more until one of them was taken. Counted for
            each split, so that a paused split does not block the others.
    """

    def __init__(self, after: Callable[[S, int], S], depth: int) -> None:
        self._after = after
        self._depth = depth
        self._splits: dict[SplitId, _Progress[S]] = {}
        self._waiting: deque[_Waiting[S]] = deque()
        self._paused: frozenset[SplitId] = frozenset()

    def add(self, splits: Sequence[S]) -> None:
        """Take splits at the positions they carry."""
        self._splits |= {split.id: _Progress(split, split) for split in splits}

    def wanted(self, only: SplitId | None = None) -> list[S]:
        """The splits to fetch from, or one if it is, each at the position after its fetched records."""
        names = self._splits.keys() if only is None else self._splits.keys() & {only}
        return [
            progress.ahead
            for name in names
            for progress in [self._splits[name]]
            if progress.ahead is not None and progress.waiting < self._depth and name not in self._paused
        ]

    def ended(self, split: SplitId) -> bool:
        """Whether it was fetched to its end."""
        return split not in self._splits or self._splits[split].ahead is None

    def put(self, fetched: Fetched[S]) -> None:
        """Add fetched records.

        Raises:
            UserCodeError: nothing more was to be read of that split.
        """
        name = fetched.split.id
        if self.ended(name):
            raise UserCodeError(
                f"fetched records of split {name!r}, which is not assigned or was read to its end; got "
                f"{len(fetched.values)} records; expected records of {[split.id for split in self.wanted()]}; "
                "return only what fetch was asked for"
            )
        progress = self._splits[name]
        progress.ahead = fetched.rest
        progress.waiting += 1
        self._waiting.append(_Waiting(fetched))

    def take(self, limit: int) -> Batch | None:
        """The next records, all of one split that is not paused; None if there are none."""
        while (head := self._first()) is not None:
            batch = self._read(head, limit)
            if batch is not None:
                return batch
        return None

    def pause(self, splits: Collection[SplitId]) -> None:
        """Neither hand out nor want anything of these, but of all others."""
        self._paused = frozenset(splits)

    def states(self) -> list[S]:
        """Every split that is not read to its end, after the last record that was taken."""
        return [progress.state for progress in self._splits.values()]

    def _first(self) -> _Waiting[S] | None:
        return next((each for each in self._waiting if each.fetched.split.id not in self._paused), None)

    def _read(self, head: _Waiting[S], limit: int) -> Batch | None:
        fetched, begin = head.fetched, head.taken
        name, size = fetched.split.id, len(fetched.values)
        head.taken = end = min(begin + limit, size)
        progress = self._splits[name]
        if end < size:
            progress.state = self._after(fetched.split, fetched.positions[end - 1])
        else:
            self._waiting.remove(head)
            progress.waiting -= 1
            if fetched.rest is None:
                del self._splits[name]
            else:
                progress.state = fetched.rest
        if begin == end:
            return None
        part = slice(begin, end)
        timestamps = fetched.timestamps[part] if fetched.timestamps is not None else None
        return Batch(fetched.values[part], timestamps, origin=Origin(name, fetched.positions[part]))


@dataclass(slots=True)
class _Progress(Generic[S]):
    state: S
    """Behind what was taken."""
    ahead: S | None
    """Behind what was fetched; None at its end."""
    waiting: int = 0


@dataclass(slots=True, eq=False)
class _Waiting(Generic[S]):
    fetched: Fetched[S]
    taken: int = 0
