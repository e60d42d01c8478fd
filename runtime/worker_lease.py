"""Worker lease: the owner's lease as a worker sees it; a worker does nothing under a lease that may have expired.

A worker runs in steps and checks `holds` before each. If the lease does not hold, the worker pauses, because the storage
may be unavailable only for a while. If the worker gets no message from the owner for the duration of a lease, the owner
is considered dead. If the lease ends during a step, for example because the process was stopped, the kernel kills the
process.

Example:
    >>> from tidegate.clock import ManualClock
    >>> clock = ManualClock()
    >>> lease = WorkerLease(clock, lease_ms=10_000)
    >>> lease.renewed(until=10.0)
    >>> lease.holds()
    True
    >>> clock.advance(9_000)
    >>> lease.holds()
    False
    >>> lease.renewed(until=19.0)
    >>> lease.holds()
    True
"""

from __future__ import annotations

import threading
from typing import Final

from tidegate.clock import Clock
from tidegate.errors import FencedError, UnavailableError
from tidegate.runtime.process_signals import KillTimer

__all__ = ["WorkerLease"]

_MARGIN: Final = 0.2
"""The fraction of the lease that must remain when a step starts."""


class WorkerLease:
    """The time until which a worker may run. `renewed` and `lost` are thread-safe; the rest is for the worker's thread.

    Args:
        clock: The clock whose `monotonic` the times given to `renewed` refer to.
        lease_ms: The duration of a lease.
        timer: Kills the process when the lease ends; None if the process also has other work.
    """

    def __init__(self, clock: Clock, lease_ms: int, timer: KillTimer | None = None) -> None:
        self._clock = clock
        self._lease_s = lease_ms / 1000
        self._timer = timer
        self._until = 0.0
        self._told = clock.monotonic()
        self._lost: FencedError | None = None
        self._paused = False
        self._lock = threading.Lock()

    def renewed(self, until: float) -> None:
        """The owner is alive and holds its lease until then; the same time as before if the storage is unavailable."""
        with self._lock:
            self._told = self._clock.monotonic()
            if until > self._until:
                self._until, self._paused = until, False
                self._set_timer(until - self._told)

    def lost(self, error: FencedError) -> None:
        """The run has a newer owner: the worker must stop."""
        with self._lock:
            self._lost = error
            if not self._paused:
                self._set_timer(0.0)

    def holds(self) -> bool:
        """Whether the next step may start; if not, check again later.

        Raises:
            FencedError: the run has a newer owner.
            UnavailableError: no message from the owner for the duration of a lease.
        """
        now = self._clock.monotonic()
        if now < self._until - _MARGIN * self._lease_s:
            return True
        with self._lock:
            if self._lost is not None:
                raise self._lost
            now = self._clock.monotonic()
            if now < self._until - _MARGIN * self._lease_s:
                return True
            if not self._paused:
                self._paused = True
                self._set_timer(None)
            if now - self._told >= self._lease_s:
                raise UnavailableError(
                    f"this worker has had no lease renewal from the owner of its run for {now - self._told:.0f} s and stops; another "
                    "run may own the pipeline"
                )
            return False

    def close(self) -> None:
        """Disarm the timer after the work has ended."""
        with self._lock:
            if self._timer is not None:
                self._timer.close()
                self._timer = None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.set(seconds)
