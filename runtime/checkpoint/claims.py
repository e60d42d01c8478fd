"""Renews the external claims of the sinks of a running job.

A system may forget a claim that is not renewed: Kafka deletes an offset of a group without members when the brokers'
retention is over. A job without any records would lose its claim, and another pipeline could use the same names.

Example:
    claims = Claims(lambda: startup.committers(graph), clock)
    while job_runs:
        claims.tick()
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from tidegate.clock import Clock
from tidegate.errors import InternalError, TidegateError, UnavailableError
from tidegate.runtime.checkpoint.committers import Committers

__all__ = ["Claims"]

RENEWAL_S: Final = 3_600.0
"""Kafka brokers keep offsets for a week by default, and rarely for less than a day."""
_RETRY_S: Final = 60.0


class Claims:
    """Renews claims now and then, on a thread of its own: a system that does not answer must not delay checkpoints.

    Args:
        committers: Opens the committers of all sinks, for one renewal.
        clock: Says when a renewal is due.
    """

    def __init__(self, committers: Callable[[], Committers], clock: Clock) -> None:
        self._committers = committers
        self._clock = clock
        self._due = clock.monotonic() + RENEWAL_S
        self._renewal: Future[None] | None = None

    def tick(self) -> None:
        """Begin a renewal if one is due, and look at the result of the last one; never blocks.

        Called by the coordinator's thread, often. The start of an attempt has claimed already.

        Raises:
            ConfigError: a claim belongs to another pipeline now, or the program may not renew it.
        """
        if self._renewal is None:
            if self._clock.monotonic() >= self._due:
                self._renewal = Future()
                threading.Thread(
                    target=self._renew, args=(self._renewal,), name="tidegate-claims", daemon=True
                ).start()
        elif self._renewal.done():
            renewal, self._renewal = self._renewal, None
            self._due = self._clock.monotonic() + RENEWAL_S
            try:
                renewal.result()
            except UnavailableError:
                self._due = self._clock.monotonic() + _RETRY_S

    def _renew(self, renewal: Future[None]) -> None:
        try:
            with contextlib.closing(self._committers()) as committers:
                committers.claim()
        except TidegateError as error:
            renewal.set_exception(error)
        except Exception as error:
            renewal.set_exception(InternalError(f"{type(error).__name__}: {error}"))
        else:
            renewal.set_result(None)
