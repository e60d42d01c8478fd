"""Timers in state: an exact in-memory queue whose changes go through the same log as every other entry.

A timer's address holds its time before its key, so the entries of a key group are ordered by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidegate.backends.keyed.address import address, split
from tidegate.backends.spi import Address, Entry, Timer, TimerQueue
from tidegate.errors import RecordError
from tidegate.keys import key_bytes, key_from_bytes

__all__ = ["StoredTimers"]

_BIAS: Final = 2**63
"""Added to a time so that negative times sort before positive ones as bytes."""


class StoredTimers(TimerQueue):
    """All timers of one time service of a subtask, by time, then by address."""

    def __init__(self, state: int, group_of_key: Callable[[bytes], int], restored: Iterable[Address]) -> None:
        self._state = state
        self._group_of_key = group_of_key
        self._live = {at: _timer_at(at) for at in restored}
        self._heap = [(timer.time, at) for at, timer in self._live.items()]
        heapq.heapify(self._heap)
        self._changes: dict[Address, bytes | None] = {}
        self.closed = False
        """Whether new timers are ignored."""

    def register(self, timer: Timer) -> None:
        """Remember a timer, unless the queue is closed.

        Raises:
            RecordError: its time does not fit into 64 bits.
        """
        at = self._address(timer)
        if self.closed or at in self._live:
            return
        self._live[at] = timer
        heapq.heappush(self._heap, (timer.time, at))
        self._record(at, b"")

    def delete(self, timer: Timer) -> None:
        """Forget a timer; raises as `register` does."""
        at = self._address(timer)
        if self._live.pop(at, None) is not None:
            self._record(at, None)

    def due(self, until: int) -> Iterator[Timer]:
        """Remove and return the timers with time <= until, also those registered meanwhile."""
        while self._heap and self._heap[0][0] <= until:
            _, at = heapq.heappop(self._heap)
            timer = self._live.pop(at, None)
            if timer is not None:
                self._record(at, None)
                yield timer

    def next_time(self) -> int | None:
        """The earliest time anything is due."""
        while self._heap and self._heap[0][1] not in self._live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pending(self) -> list[Timer]:
        """All timers, in no order."""
        return list(self._live.values())

    def take_changes(self) -> list[Entry]:
        """The entries written since the last call."""
        changes = list(self._changes.items())
        self._changes.clear()
        return changes

    def _record(self, at: Address, value: bytes | None) -> None:
        # A change that undoes one of the same epoch leaves what is stored as it was.
        if at in self._changes:
            del self._changes[at]
        else:
            self._changes[at] = value

    def _address(self, timer: Timer) -> Address:
        key = key_bytes(timer.key)
        if not -_BIAS <= timer.time < _BIAS:
            raise RecordError(
                f"timer of key {timer.key!r}: got time {timer.time}; expected 64 bits of milliseconds"
            )
        moment = (timer.time + _BIAS).to_bytes(8, "big")
        return address(self._group_of_key(key), self._state, moment + key, timer.namespace)


def _timer_at(at: Address) -> Timer:
    parts = split(at)
    time = int.from_bytes(parts.key[:8], "big") - _BIAS
    return Timer(time, key_from_bytes(parts.key[8:]), parts.namespace)
