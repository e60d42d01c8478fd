"""The owner's lease as seen by a worker: no action is taken under a lease that may have expired.

A worker does its work in steps. Before each it asks whether the lease `holds`; one that does not makes it pause, since
the storage may only be away for a while. An owner that says nothing at all for as long as a lease lasts is taken for
gone. A step under way when the lease ends, such as one of a process that was stopped in the middle of it, is ended with
the process by the kernel.

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
"""The share of a lease that must be left when a step begins."""


class WorkerLease:
    """Until when a worker may work. `renewed` and `lost` are called by any thread, all else by that of the worker.

    Args:
        clock: Its `monotonic` is that of the times given to `renewed`.
        lease_ms: How long a lease lasts.
        timer: Ends the process with the lease; None if it has more to do than this work.
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
        """The owner lives, and holds its lease until then; the same time as before if the storage is away."""
        with self._lock:
            self._told = self._clock.monotonic()
            if until > self._until:
                self._until, self._paused = until, False
                self._set_timer(until - self._told)

    def lost(self, error: FencedError) -> None:
        """The run has a newer owner: nothing more may be done."""
        with self._lock:
            self._lost = error
            if not self._paused:
                self._set_timer(0.0)

    def holds(self) -> bool:
        """Whether another step may begin; if not, ask again a little later.

        Raises:
            FencedError: the run has a newer owner.
            UnavailableError: its owner has not renewed the lease for the time of a lease.
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
        """The work is over: the process need not end any more."""
        with self._lock:
            if self._timer is not None:
                self._timer.close()
                self._timer = None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.set(seconds)
