"""Credit-based flow control: how many records may be in flight in a channel.

The barrier of a checkpoint and the end of a job queue behind the records in a receiver's queue. So the queue is bounded
by its processing time, not by number or size of records: a receiver measures how many records it processes in a second,
including the time of backpressure, and grants all its senders together credit for 0.2 seconds of work. If sender and
receiver share a thread, `LOCAL` records are enough.

Example:
    >>> rate = WorkRate()
    >>> rate.processed(100, seconds=0.2)
    >>> rate.window(channels=2)
    50
"""

from __future__ import annotations

from math import exp
from typing import Final

__all__ = ["FULL", "LOCAL", "Credit", "WorkRate"]

_FIRST: Final = 16
FULL: Final = 1_024
"""A buffer with this many records is sent before its timeout."""
_MOST: Final = 131_072
"""Maximum records in a channel, to bound its memory."""
LOCAL: Final = 4_096
"""Maximum records in a channel within one thread: more do not increase throughput, and records that wait long are no
longer in the processor's cache when they are processed."""
_WAITING_S: Final = 0.2
_MEMORY_S: Final = 0.1


class Credit:
    """Credit of a sender in one channel, in records.

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
        """A buffer with this many records is sent before its timeout; fewer for a slow receiver."""
        self.used = 0
        self.sent = 0
        """Records sent since the sender last read how much of the limit a batch uses."""

    @property
    def left(self) -> bool:
        """Whether there is credit. A batch larger than the remaining credit is sent whole."""
        return self.used < self.limit

    def granted(self, records: int, limit: int) -> None:
        """The receiver has processed this many records and sets a new limit."""
        self.used -= records
        self.limit = limit
        self.full = max(1, min(FULL, limit // 2))


class WorkRate:
    """The recent processing rate of a receiver."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._records = 0.0
        self._total = 0

    def processed(self, records: int, seconds: float) -> None:
        """Record the processing time of some records."""
        old = exp(-seconds / _MEMORY_S)
        self._seconds = self._seconds * old + seconds
        self._records = self._records * old + records
        self._total += records

    def window(self, channels: int) -> int:
        """The credit limit of each of its senders.

        At most twice the records processed last: a receiver seems fast until it is backpressured itself.
        """
        if self._seconds <= 0:
            return _FIRST
        records = min(self._records / self._seconds * _WAITING_S, 2.0 * self._total)
        return max(1, min(_MOST, int(records / channels)))
