"""Timers in state: an exact in-memory queue whose changes go through the same log as every other entry.

A timer's address holds its time before its key, so the entries of a key group are ordered by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tidegate.backends.keyed.address import address, split
from tidegate.backends.spi import Address, Entry, Timer, TimerQueue
from tidegate.errors import RecordError
from tidegate.keys import key_bytes, key_from_bytes

__all__ = ["StoredTimers"]

_BIAS: Final = 2**63
"""Added to a time so that negative times sort before positive ones as bytes."""


class StoredTimers(TimerQueue):
    """All timers of one time service of a subtask, by time, then by address.

    Addresses are made late: of what reaches a barrier, and where several timers have the same time.
    """

    def __init__(self, state: int, group_of_key: Callable[[bytes], int], restored: Iterable[Address]) -> None:
        self._state = state
        self._group_of_key = group_of_key
        self._times: list[int] = []
        """A heap of every time that has timers, and of some that had."""
        self._at: dict[int, dict[Timer, None]] = {}
        self._changes: dict[Timer, bytes | None] = {}
        for timer in map(_timer_at, restored):
            (self._at.get(timer.time) or self._open(timer))[timer] = None
        self.closed = False
        """Whether new timers are ignored."""

    def register(self, timer: Timer) -> None:
        """Remember a timer, unless the queue is closed.

        Raises:
            RecordError: its time is no integer of 64 bits.
        """
        if self.closed:
            return
        alike = self._at.get(timer.time)
        if alike is None or type(timer.time) is not int:
            alike = self._open(timer)
        elif timer in alike:
            return
        alike[timer] = None
        self._record(timer, b"")

    def delete(self, timer: Timer) -> None:
        """Forget a timer."""
        alike = self._at.get(timer.time)
        if alike is not None and timer in alike:
            self._remove(timer, alike)

    def due(self, until: int) -> Iterator[Timer]:
        """Remove and return the timers with time <= until, also those registered meanwhile."""
        while self._times and self._times[0] <= until:
            time = self._times[0]
            alike = self._at.get(time)
            if alike is None:
                heapq.heappop(self._times)
                continue
            for timer in sorted(alike, key=self._address) if len(alike) > 1 else list(alike):
                if timer in alike:
                    self._remove(timer, alike)
                    yield timer
                if self._times and self._times[0] < time:
                    break

    def next_time(self) -> int | None:
        """The earliest time anything is due."""
        while self._times and self._times[0] not in self._at:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None

    def pending(self) -> list[Timer]:
        """All timers, in no order."""
        return [timer for alike in self._at.values() for timer in alike]

    def take_changes(self) -> list[Entry]:
        """The entries written since the last call."""
        changes = [(self._address(timer), value) for timer, value in self._changes.items()]
        self._changes.clear()
        return changes

    def _open(self, timer: Timer) -> dict[Timer, None]:
        time: Any = timer.time  # what a user function gave
        if not isinstance(time, int) or not -_BIAS <= time < _BIAS:
            raise RecordError(
                f"timer of key {timer.key!r}: got time {time}; expected 64 bits of milliseconds"
            )
        heapq.heappush(self._times, time)
        return self._at.setdefault(time, {})

    def _remove(self, timer: Timer, alike: dict[Timer, None]) -> None:
        del alike[timer]
        if not alike:
            del self._at[timer.time]
        self._record(timer, None)

    def _record(self, timer: Timer, value: bytes | None) -> None:
        # A change that undoes one of the same epoch leaves what is stored as it was.
        if timer in self._changes:
            del self._changes[timer]
        else:
            self._changes[timer] = value

    def _address(self, timer: Timer) -> Address:
        key = key_bytes(timer.key)
        moment = (timer.time + _BIAS).to_bytes(8, "big")
        return address(self._group_of_key(key), self._state, moment + key, timer.namespace)


def _timer_at(at: Address) -> Timer:
    parts = split(at)
    time = int.from_bytes(parts.key[:8], "big") - _BIAS
    return Timer(time, key_from_bytes(parts.key[8:]), parts.namespace)
