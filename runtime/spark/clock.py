"""The time of an epoch.

Example:
    >>> from tidegate.clock import SYSTEM_CLOCK
    >>> EpochClock(1_000, SYSTEM_CLOCK).now_ms()
    1000
"""

from __future__ import annotations

from tidegate.clock import Clock

__all__ = ["EpochClock"]


class EpochClock:
    """Processing time stands still within an epoch, so a task that is repeated does the same."""

    def __init__(self, now_ms: int, machine: Clock) -> None:
        self._now_ms = now_ms
        self._machine = machine

    def now_ms(self) -> int:
        """The time the driver has set for the epoch."""
        return self._now_ms

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return self._now_ms * 1_000_000

    def monotonic(self) -> float:
        """Distances are real."""
        return self._machine.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waiting is real."""
        self._machine.sleep(seconds)
