"""Timers in state: an exact in-memory queue whose changes go through the same log as every other entry.

A timer's address holds its time before its key, so the entries of a key group are ordered by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tidegate.backends.keyed.address import address, split
from tidegate.backends.spi import Address, Timer, TimerQueue
from tidegate.errors import RecordError
from tidegate.keys import key_bytes, key_from_bytes

__all__ = ["StoredTimers", "moment_bytes", "moment_from_bytes"]

_BIAS: Final = 2**63
"""Added to a time so that negative times sort before positive ones as bytes."""


class StoredTimers(TimerQueue):
    """All timers of one time service of a subtask, by time, then by address.

    Addresses are made late: of what reaches a barrier, and where several timers have the same time.
    """

    def __init__(self, state: int, group_of_key: Callable[[bytes], int], restored: Iterable[Address]) -> None:
        self._state = state
        self._group_of_key = group_of_key
        self._live: set[Timer] = set()
        self._heap: list[tuple[int, int, Timer]] = []
        """By time; the second number keeps keys, which may be of any type, from being compared."""
        self._pushed = 0
        for timer in map(_timer_at, restored):
            self._live.add(timer)
            self._push(timer)
        self._changes: dict[Timer, bytes | None] = {}
        self.closed = False
        """Whether new timers are ignored."""

    def register(self, timer: Timer) -> None:
        """Remember a timer, unless the queue is closed.

        Raises:
            RecordError: its time is no integer of 64 bits.
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

    def due(self, until: int) -> Iterator[Timer]:
        """Remove and return the timers with time <= until, also those registered meanwhile."""
        heap, live = self._heap, self._live
        while heap and heap[0][0] <= until:
            time, _, first = heapq.heappop(heap)
            alike = self._with_others(first) if heap and heap[0][0] == time else [first]
            while alike:
                timer = alike.pop()
                if timer in live:
                    live.remove(timer)
                    self._record(timer, None)
                    yield timer
                if heap and heap[0][0] <= time:
                    for rest in alike:
                        self._push(rest)
                    break

    def next_time(self) -> int | None:
        """The earliest time anything is due."""
        while self._heap and self._heap[0][2] not in self._live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pending(self) -> list[Timer]:
        """All timers, in no order."""
        return list(self._live)

    def take_changes(self) -> dict[Address, bytes | None]:
        """The entries written since the last call."""
        changes = {self._address(timer): value for timer, value in self._changes.items()}
        self._changes.clear()
        return changes

    def _push(self, timer: Timer) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (timer.time, self._pushed, timer))

    def _with_others(self, first: Timer) -> list[Timer]:
        """All timers of the same time, the one to fire first last."""
        heap, alike = self._heap, [first]
        while heap and heap[0][0] == first.time:
            alike.append(heapq.heappop(heap)[2])
        return sorted(alike, key=self._address, reverse=True)

    def _record(self, timer: Timer, value: bytes | None) -> None:
        # A change that undoes one of the same epoch leaves what is stored as it was.
        if timer in self._changes:
            del self._changes[timer]
        else:
            self._changes[timer] = value

    def _address(self, timer: Timer) -> Address:
        key = key_bytes(timer.key)
        return address(self._group_of_key(key), self._state, moment_bytes(timer.time) + key, timer.namespace)


def moment_bytes(time: int) -> bytes:
    """What an address holds before the key: later times sort behind."""
    return (time + _BIAS).to_bytes(8, "big")


def moment_from_bytes(data: bytes) -> int:
    """The time that bytes of an address start with."""
    return int.from_bytes(data[:8], "big") - _BIAS


def _timer_at(at: Address) -> Timer:
    parts = split(at)
    return Timer(moment_from_bytes(parts.key), key_from_bytes(parts.key[8:]), parts.namespace)
