"""Clocks and random ids: the only module that reads a clock or a source of randomness.

Everything else takes a `Clock`, so tests and the simulation decide what time it is.

Example:
    >>> clock = ManualClock(now_ms=1_000)
    >>> clock.advance(250)
    >>> clock.now_ms()
    1250
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "ManualClock", "SystemClock", "chance", "new_id", "new_token"]


class Clock(Protocol):
    """The clock interface: `now_ms` is wall time, `monotonic` measures durations."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""
        ...

    @property
    def now_ns(self) -> Callable[[], int]:
        """The same in nanoseconds, as a function that is quick to call often."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; comparable within one process only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; only for waiting on something outside the process."""
        ...


class SystemClock:
    """The machine's clocks."""

    now_ns = staticmethod(time.time_ns)

    def now_ms(self) -> int:
        """Wall time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock that advances only on request; safe to share between threads.

    Example:
        >>> clock = ManualClock(now_ms=3_600_000)
        >>> clock.advance(500)
        >>> clock.set(0)
        >>> clock.now_ms(), clock.monotonic()
        (0, 0.5)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._passed_ms = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Wall time in milliseconds."""
        return self._now_ms

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return self._now_ms * 1_000_000

    def monotonic(self) -> float:
        """Seconds since it was created, independent of changes of the wall clock."""
        return self._passed_ms / 1_000

    def sleep(self, seconds: float) -> None:
        """Advance instead of waiting."""
        self.advance(int(seconds * 1_000))

    def advance(self, milliseconds: int) -> None:
        """Let time pass.

        Raises:
            ValueError: time does not run backwards.
        """
        if milliseconds < 0:
            raise ValueError(
                f"manual clock cannot advance by {milliseconds} ms; expected 0 or more; use set(now_ms)"
            )
        with self._lock:
            self._now_ms += milliseconds
            self._passed_ms += milliseconds

    def set(self, now_ms: int) -> None:
        """Set the wall clock, forward or back, as an administrator or NTP does; no time passes."""
        with self._lock:
            self._now_ms = now_ms


SYSTEM_CLOCK = SystemClock()


def new_id(length: int = 16) -> str:
    """A random name of `length` hexadecimal characters.

    Example:
        >>> len(new_id(8))
        8
    """
    return secrets.token_hex((length + 1) // 2)[:length]


def new_token() -> str:
    """A random secret for authentication between a job's own processes."""
    return secrets.token_hex(32)


def chance() -> float:
    """A random number from 0 to 1, for what several processes should not do at the same moment."""
    return secrets.randbelow(1_000_001) / 1_000_000
