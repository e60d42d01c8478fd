"""The clock of epochs: set by the driver, constant within a task.

Example:
    >>> from tidegate.clock import SYSTEM_CLOCK
    >>> EpochClock(1_000, SYSTEM_CLOCK).now_ms()
    1000
"""

from __future__ import annotations

from tidegate.clock import Clock
from tidegate.runtime.checkpoint.manifest import Manifest

__all__ = ["EpochClock", "EpochTimes"]


class EpochTimes:
    """Sets the time of each epoch in the driver: it never goes back, even if clocks of machines differ.

    If the wall clock is behind, for example because it was set back, this time advances at half speed until the wall clock
    has caught up. A clock set by the program is used as it is.

    Example:
        >>> from tidegate.clock import ManualClock
        >>> clock = ManualClock(10_000)
        >>> epoch_times = EpochTimes(clock)
        >>> clock.set(9_000)
        >>> clock.advance(100)
        >>> epoch_times.next()
        >>> epoch_times.now_ms
        10050
    """

    def __init__(self, machine: Clock, given: Clock | None = None, manifest: Manifest | None = None) -> None:
        self._given = given
        self._clock = given or machine
        last_ms = manifest.created_ms if manifest is not None and given is None else 0
        self.now_ms = max(last_ms, self._clock.now_ms())
        """The time of the current epoch."""
        self.since_ms = self.now_ms
        """The start of the attempt."""
        self._set_at = self._clock.monotonic()

    @property
    def recorded_ms(self) -> int:
        """The earliest time at which a later attempt may begin; not recorded for a clock set by the program."""
        return self.now_ms if self._given is None else 0

    def next(self) -> None:
        """Start an epoch."""
        now = self._clock.monotonic()
        passed_ms, self._set_at = int((now - self._set_at) * 1_000), now
        behind_ms = passed_ms // 2 if self._given is None else 0
        self.now_ms = max(self.now_ms + behind_ms, self._clock.now_ms())


class EpochClock:
    """Processing time stands still within an epoch, so a task that is repeated does the same."""

    def __init__(self, now_ms: int, machine: Clock) -> None:
        self._now_ms = now_ms
        self._machine = machine

    def now_ms(self) -> int:
        """The time that the driver has set for the epoch."""
        return self._now_ms

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return self._now_ms * 1_000_000

    def monotonic(self) -> float:
        """The monotonic clock of the machine."""
        return self._machine.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait by the clock of the machine."""
        self._machine.sleep(seconds)
