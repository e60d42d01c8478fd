"""Timers in state: a queue whose changes go through the same log as all other entries.

A timer's address holds its time before its key, so the entries of a key group are ordered by time: what a restored
store holds is read when its time comes near, and those of a later time cost nothing until then.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.backends.keyed.address import after, entry_addresses, split, state_prefix
from tidegate.backends.spi import Address, Timer, TimerQueue
from tidegate.errors import RecordError
from tidegate.keys import bytes_of_keys, key_from_bytes

__all__ = ["StoredTimers", "moment_bytes", "moment_from_bytes"]

_BIAS: Final = 2**63
"""Added to a time so that negative times sort before positive ones as bytes."""

_UNKNOWN: Final = -_BIAS - 1
"""Before all times: no timer was read yet."""

_EVER: Final = _BIAS
"""Behind all times, and more timers than there can be."""

_AHEAD: Final = 16
_FAR_AHEAD: Final = 1_024
_TOGETHER: Final = 1_024
"""Timers that are put in order at once, so that the first of a million need not wait for the last."""

_ANNOUNCED: Final = 128
"""As many are told to come at once: enough to be read together, few enough to be told again by the next piece."""

_Entry: TypeAlias = tuple[int, int, Timer]

Scan: TypeAlias = Callable[[Address, Address], Iterator[tuple[Address, bytes]]]


class _Unread(NamedTuple):
    """The rest of a key group that has not been read: the time of its first entry, and where that stands."""

    time: int
    first: Address
    last: Address
    ahead: int
    """How many more to read than are due: more each time, so that many are read with few scans."""


class StoredTimers(TimerQueue):
    """All timers of one time service of a subtask, by time; those of one time by address, a thousand at once.

    Addresses are made late: of what reaches a barrier, and where several timers have the same time.

    Args:
        state: Its number in addresses.
        groups_of: Gives the key groups of encoded keys.
        stored: The key groups that may have timers in the store.
        scan: Reads the store.
        at_once: Read all that is stored with the first, for a store that has it in memory anyway.
        write: Takes entries of timers that have fired, when there are many, so that a barrier need not wait for them.
    """

    def __init__(
        self,
        state: int,
        groups_of: Callable[[Sequence[bytes]], Sequence[int]],
        stored: Iterable[int],
        scan: Scan,
        *,
        at_once: bool,
        write: Callable[[dict[Address, bytes | None]], None] | None = None,
    ) -> None:
        self._state = state
        self._groups_of = groups_of
        self._scan = scan
        self._write = write
        self._live: set[Timer] = set()
        self._heap: list[_Entry] = []
        """By time; the second number keeps keys, which may be of any type, from being compared."""
        self._front: list[_Entry] = []
        """Taken off the heap, earlier than all that is on it; the next one to fire is the last."""
        self._pushed = 0
        prefixes = (state_prefix(group, state) for group in stored)
        ahead = _EVER if at_once else 0
        self._unread = [_Unread(_UNKNOWN, prefix, after(prefix), ahead) for prefix in prefixes]
        """A heap; what is earlier than its first time is known."""
        self._changes: dict[Timer, bytes | None] = {}
        self._blind: dict[Timer, bytes | None] = {}
        """Changes of timers of which it is not known whether the store has them."""
        self._fired: list[Timer] = []
        """Those whose entries may be among the changes; few."""
        self.closed = False
        """Whether new timers are ignored."""

    def register(self, timer: Timer) -> None:
        """Remember a timer, unless the queue is closed.

        Raises:
            RecordError: its time is not a 64-bit integer.
        """
        time: Any = timer.time  # what a user function gave
        if type(time) is not int or not -_BIAS <= time < _BIAS:
            raise RecordError(
                f"timer of key {timer.key!r}: got time {time}; expected 64 bits of milliseconds"
            )
        if self.closed or timer in self._live:
            return
        self._live.add(timer)
        self._push(timer)
        self._record(timer, b"")

    def delete(self, timer: Timer) -> None:
        """Forget a timer."""
        if timer in self._live:
            self._live.remove(timer)
            self._record(timer, None)
        elif self._may_be_stored(timer):
            self._blind[timer] = None

    def due(
        self, until: int, limit: int = _EVER, ahead: Callable[[Sequence[Timer]], object] = lambda timers: None
    ) -> Iterator[Timer]:
        """Remove and return the timers with time <= until, also those registered meanwhile; no more than `limit`.

        `ahead` is told which timers come next before they do, so that what they need is read at once.
        """
        self._write_fired()
        front, live, fired, told = self._front, self._live, self._fired, 0
        while limit > 0 and self._advance(until):
            if not told:
                coming = [timer for time, _, timer in front[-min(limit, _ANNOUNCED) :] if time <= until]
                told = len(coming)
                ahead(coming)
            _, _, timer = front.pop()
            told -= 1
            if timer in live:
                limit -= 1
                live.remove(timer)
                self._record(timer, None)
                fired.append(timer)
                yield timer
                if not front:
                    told = 0

    def next_time(self) -> int | None:
        """The earliest time anything is due."""
        front, heap, unread = self._front, self._heap, self._unread
        while front and front[-1][2] not in self._live:
            front.pop()
        if front:
            return front[-1][0]
        while True:
            while heap and heap[0][2] not in self._live:
                heapq.heappop(heap)
            if not unread or (heap and heap[0][0] <= unread[0].time):
                return heap[0][0] if heap else None
            self._read(unread[0].time)

    def pending(self) -> list[Timer]:
        """All timers, in no order."""
        while self._unread:
            self._read(_EVER)
        return list(self._live)

    def take_changes(self) -> dict[Address, bytes | None]:
        """The entries written since the last call."""
        changes = self._changes | self._blind
        addresses = self._addresses(list(changes))
        self._changes.clear()
        self._blind.clear()
        self._fired.clear()
        return dict(zip(addresses, changes.values(), strict=True))

    def _read(self, until: int) -> None:
        """Make known what is stored next of what is due by a time, of one key group and not more than is worth a scan."""
        rest = heapq.heappop(self._unread)
        for number, (at, _) in enumerate(self._scan(rest.first, rest.last)):
            timer = _timer_at(at)
            if number >= rest.ahead and (timer.time > until or number >= _FAR_AHEAD):
                ahead = min(max(_AHEAD, 2 * rest.ahead), _FAR_AHEAD)
                heapq.heappush(self._unread, _Unread(timer.time, at, rest.last, ahead))
                break
            if timer not in self._live and timer not in self._blind:
                self._live.add(timer)
                self._push(timer)

    def _advance(self, until: int) -> bool:
        """Have the timers that are due next in front; False if none is."""
        front, heap, unread = self._front, self._heap, self._unread
        coming: list[_Entry] = []
        while not front and len(coming) < _TOGETHER:
            if unread and unread[0].time <= until and not (heap and heap[0][0] <= unread[0].time):
                self._read(until)
            elif heap and heap[0][0] <= until:
                coming.append(heapq.heappop(heap))
            else:
                break
        for _, of_one_time in groupby(coming, key=itemgetter(0)):
            front += self._in_order(list(of_one_time))
        if coming:
            front.reverse()
        return bool(front) and front[-1][0] <= until

    def _write_fired(self) -> None:
        """Write the entries of the timers that have fired, once they are many."""
        if self._write is None or len(self._fired) < _TOGETHER:
            return
        gone = [
            timer
            for timer in self._fired
            if self._changes.get(timer, b"") is None or self._blind.get(timer, b"") is None
        ]
        self._fired.clear()
        for timer in gone:
            self._changes.pop(timer, None)
            self._blind.pop(timer, None)
        self._write(dict.fromkeys(self._addresses(gone)))

    def _may_be_stored(self, timer: Timer) -> bool:
        return bool(self._unread) and timer.time >= self._unread[0].time

    def _push(self, timer: Timer) -> None:
        self._pushed += 1
        entry, front = (timer.time, self._pushed, timer), self._front
        if not front or timer.time > front[0][0]:
            heapq.heappush(self._heap, entry)
            return
        first = bisect_left(front, -timer.time, key=_backwards)
        last = bisect_right(front, -timer.time, lo=first, key=_backwards)
        front[first:last] = self._in_order([entry, *front[first:last]])[::-1]

    def _in_order(self, alike: list[_Entry]) -> list[_Entry]:
        """Timers of one time."""
        if len(alike) == 1:
            return alike
        addresses = self._addresses([timer for _, _, timer in alike])
        return [entry for _, entry in sorted(zip(addresses, alike, strict=True))]

    def _record(self, timer: Timer, value: bytes | None) -> None:
        # A change that undoes one of the same epoch leaves what is stored as it was, where that is known.
        if (self._unread or self._blind) and (timer in self._blind or self._may_be_stored(timer)):
            self._blind[timer] = value
        elif timer in self._changes:
            del self._changes[timer]
        else:
            self._changes[timer] = value

    def _addresses(self, timers: Sequence[Timer]) -> list[Address]:
        keys = bytes_of_keys([timer.key for timer in timers])
        moments = {time: moment_bytes(time) for time in {timer.time for timer in timers}}
        timed = [moments[timer.time] + key for timer, key in zip(timers, keys, strict=True)]
        namespaces = [timer.namespace for timer in timers]
        return entry_addresses(self._groups_of(keys), self._state, timed, namespaces)


def moment_bytes(time: int) -> bytes:
    """What an address holds before the key: later times sort after earlier ones."""
    return (time + _BIAS).to_bytes(8, "big")


def moment_from_bytes(data: bytes) -> int:
    """The time that bytes of an address start with."""
    return int.from_bytes(data[:8], "big") - _BIAS


def _backwards(entry: _Entry) -> int:
    return -entry[0]


def _timer_at(at: Address) -> Timer:
    parts = split(at)
    return Timer(moment_from_bytes(parts.key), key_from_bytes(parts.key[8:]), parts.namespace)
