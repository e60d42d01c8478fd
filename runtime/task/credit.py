"""Flow control: how many records may be on the way in a channel.

A checkpoint's barrier and the end of a job stand in line behind the records that wait in a receiver's queue. So what
waits is bounded by the time it takes, not by number or size: a receiver measures how many records it works off in a
second, with the time its own receivers hold it up, and lets its senders have 0.2 seconds of work on the way together.
Where sender and receiver share a thread, `LOCAL` records are enough.

Example:
    >>> rate = WorkRate()
    >>> rate.worked_off(100, seconds=0.2)
    >>> rate.window(channels=2)
    50
"""

from __future__ import annotations

from math import exp
from typing import Final

__all__ = ["FULL", "LOCAL", "Credit", "WorkRate"]

_FIRST: Final = 16
FULL: Final = 1_024
"""Records that make a buffer worth sending whatever its timeout says."""
_MOST: Final = 131_072
"""Records in a channel, however quick the receiver is: they take memory."""
LOCAL: Final = 4_096
"""Records in a channel whose ends share a thread: nothing is gained by more, and what waits there long is no longer in the
processor's cache when it is worked off."""
_WAITING_S: Final = 0.2
_MEMORY_S: Final = 0.1


class Credit:
    """What a sender may have on the way in one channel, in records.

    Example:
        >>> credit = Credit()
        >>> credit.used += credit.limit
        >>> credit.left
        False
        >>> credit.granted(credit.used, limit=500)
        >>> credit.left, credit.limit
        (True, 500)
    """

    __slots__ = ("full", "limit", "sent", "used")

    def __init__(self, limit: int = _FIRST) -> None:
        self.limit = limit
        self.full = FULL
        """Records that are worth sending whatever the buffer timeout says; fewer for a slow receiver."""
        self.used = 0
        self.sent = 0
        """Records since the sender looked last at how much of the limit it takes up at once."""

    @property
    def left(self) -> bool:
        """Whether anything may be sent. A batch that is more than what is left is sent whole."""
        return self.used < self.limit

    def granted(self, records: int, limit: int) -> None:
        """So many records are worked off, and so many may be on the way from now on."""
        self.used -= records
        self.limit = limit
        self.full = max(1, min(FULL, limit // 2))


class WorkRate:
    """How many records a receiver works off per second, of late."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._records = 0.0
        self._total = 0

    def worked_off(self, records: int, seconds: float) -> None:
        """Learn from some records and the seconds they took."""
        old = exp(-seconds / _MEMORY_S)
        self._seconds = self._seconds * old + seconds
        self._records = self._records * old + records
        self._total += records

    def window(self, channels: int) -> int:
        """How many records each of its senders may have on the way.

        No more than twice what was worked off: a receiver seems quick until its own receivers hold it up.
        """
        if self._seconds <= 0:
            return _FIRST
        records = min(self._records / self._seconds * _WAITING_S, 2.0 * self._total)
        return max(1, min(_MOST, int(records / channels)))
