"""Trigger of epochs: when the next one begins, and whether there is one. Pure.

Example:
    >>> pace = Pace("interval", interval_ms=1_000)
    >>> pace.decided(began_ms=5_000, now_ms=5_200, read={Subtask("source", 0): 3}, limited=(), wakes=())
    >>> pace.next_ms, pace.over
    (6000, False)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from tidegate.ids import Subtask
from tidegate.runtime.spark.options import SparkTrigger

__all__ = ["Pace"]


class Pace:
    """Gets the figures of every decided epoch."""

    def __init__(self, trigger: SparkTrigger, interval_ms: int) -> None:
        self.next_ms = 0
        """The earliest start of the next epoch, on the clock of `decided`."""
        self._trigger = trigger
        self._interval_ms = interval_ms
        self._caught_up: set[Subtask] = set()
        self._everybody = False

    @property
    def over(self) -> bool:
        """Whether the next checkpoint is to be the last."""
        return self._trigger == "once" or (self._trigger == "available-now" and self._everybody)

    @property
    def thorough(self) -> bool:
        """Whether a reader waits longer before it reports no records, since this is the last epoch."""
        return self._trigger in ("once", "available-now")

    def decided(
        self,
        began_ms: int,
        now_ms: int,
        read: Mapping[Subtask, int],
        limited: Container[Subtask],
        wakes: Iterable[int],
    ) -> None:
        """An epoch that began at `began_ms` is decided; `read` has the records of each source subtask.

        Times are monotonic. Subtasks in `limited` stopped at a limit. `wakes` are milliseconds until something is due even if
        no input arrives.
        """
        if self._trigger == "interval":
            self.next_ms = began_ms + self._interval_ms
            return
        self._caught_up |= {source for source in read if source not in limited}
        self._everybody = self._caught_up >= read.keys()
        self.next_ms = 0 if any(read.values()) or self.over else now_ms + min([self._interval_ms, *wakes])
