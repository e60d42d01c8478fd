"""The time of epochs: the driver sets it, tasks see it stand still.

Example:
    >>> from tidegate.clock import SYSTEM_CLOCK
    >>> EpochClock(1_000, SYSTEM_CLOCK).now_ms()
    1000
"""

from __future__ import annotations

from tidegate.clock import Clock
from tidegate.runtime.checkpoint.manifest import Manifest

__all__ = ["EpochClock", "Moments"]


class Moments:
    """Sets the time of each epoch in the driver: it never goes back, whatever the machines a pipeline has run on say.

    Where the wall clock is behind it, as after it was set back, it goes on at half its pace until the clock has caught up.
    A clock that the program gives is believed alone.

    Example:
        >>> from tidegate.clock import ManualClock
        >>> clock = ManualClock(10_000)
        >>> moments = Moments(clock)
        >>> clock.set(9_000)
        >>> clock.advance(100)
        >>> moments.next()
        >>> moments.now_ms
        10050
    """

    def __init__(self, machine: Clock, given: Clock | None = None, manifest: Manifest | None = None) -> None:
        self._given = given
        self._clock = given or machine
        last_ms = manifest.created_ms if manifest is not None and given is None else 0
        self.now_ms = max(last_ms, self._clock.now_ms())
        """The time of the epoch at hand."""
        self.since_ms = self.now_ms
        """When the attempt began."""
        self._set_at = self._clock.monotonic()

    @property
    def recorded_ms(self) -> int:
        """Before which no later attempt may begin; a clock that the program gives is not recorded."""
        return self.now_ms if self._given is None else 0

    def next(self) -> None:
        """An epoch begins."""
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
