"""A wall clock that stands until a function of a job moves it; the job must run in this process."""

from __future__ import annotations

from tidegate.clock import SystemClock

__all__ = ["CLOCK", "SteppedClock"]


class SteppedClock(SystemClock):
    """What time it is moves by steps; how long something takes is measured as always."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """As it was set."""
        return self._now_ms

    def now_ns(self) -> int:
        """As it was set."""
        return self._now_ms * 1_000_000

    def step(self, milliseconds: int) -> None:
        """Let the wall clock move on."""
        self._now_ms += milliseconds


CLOCK = SteppedClock(1_700_000_000_000)
"""Functions travel by value, and globals with them; this module does not, so its clock is the one of the process."""
