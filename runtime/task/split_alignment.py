"""Watermark alignment in a source subtask: reports its event time and pauses splits that are too far ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.clock import Clock
from tidegate.connectors.spi import SourceReader, SupportsPausing
from tidegate.elements import MIN_WATERMARK
from tidegate.ids import SplitId
from tidegate.runtime.operators.stamp import Stamp

__all__ = ["SplitAlignment"]


class SplitAlignment:
    """Called before each poll. Before the first limit is known, no split is read beyond its first batch."""

    def __init__(
        self,
        stamp: Stamp,
        reader: SourceReader[Any],
        clock: Clock,
        update_ms: int,
        report: Callable[[int | None], None],
    ) -> None:
        self._stamp = stamp
        self._reader = reader
        self._clock = clock
        self._update_s = update_ms / 1_000
        self._report = report
        self._limit = MIN_WATERMARK
        self._told: int | None = MIN_WATERMARK
        self._tell_at = 0.0
        self._paused: frozenset[SplitId] = frozenset()

    def allow(self, limit: int) -> None:
        """Set a new limit."""
        self._limit = limit

    def may_read(self) -> bool:
        """Whether any split may be read; pauses splits beyond the limit."""
        self.tell()
        time = self._stamp.time
        if not isinstance(self._reader, SupportsPausing):
            return time is None or time <= self._limit
        paused = self._stamp.ahead_of(self._limit)
        if paused != self._paused:
            self._paused = paused
            self._reader.pause(paused)
            self._stamp.hold(paused)
        return not paused or not paused.issuperset(self._reader.unfinished_splits())

    def tell(self) -> None:
        """Report the event time if it has changed and the report interval has passed."""
        time, now = self._stamp.time, self._clock.monotonic()
        if time != self._told and now >= self._tell_at:
            self._told, self._tell_at = time, now + self._update_s
            self._report(time)

    def end(self) -> None:
        """Report the end of the source."""
        self._report(None)

    def wait_s(self) -> float | None:
        """Seconds until the next report; None if there is nothing to report."""
        return self._tell_at - self._clock.monotonic() if self._stamp.time != self._told else None
