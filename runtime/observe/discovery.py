"""Health of split discovery: counts failures by source, keeps their reason, raises a warning.

Example:
    >>> from tidegate.clock import ManualClock
    >>> clock, events = ManualClock(), []
    >>> health = DiscoveryHealth(clock, lambda what, text: events.append(what))
    >>> for _ in range(3):
    ...     health.looked(OperatorUid("orders"), "no broker answers")
    ...     clock.advance(30_000)
    >>> health.looked(OperatorUid("orders"), None)
    >>> events
    ['discovery-failed', 'discovery-alarm', 'discovery-recovered']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegate.clock import Clock
from tidegate.ids import OperatorUid
from tidegate.runtime.observe.events import EventType
from tidegate.runtime.observe.run_snapshot import DiscoveryStats

__all__ = ["DiscoveryHealth"]

_ALARM_AFTER: Final = 3
"""Consecutive failures of split discovery that raise a warning, if they also last long enough."""

_ALARM_AFTER_S: Final = 60.0


@dataclass(slots=True)
class _Source:
    failed: int = 0
    in_a_row: int = 0
    since: float = 0.0
    reason: str | None = None
    alarm: bool = False


class DiscoveryHealth:
    """Records every split discovery; owned by the thread that coordinates the run.

    A failure is an event when it begins, when it has lasted for three discoveries and a minute, and when it is over.
    """

    def __init__(self, clock: Clock, note: Callable[[EventType, str], None]) -> None:
        self._clock = clock
        self._note = note
        self._sources: dict[OperatorUid, _Source] = {}

    def looked(self, uid: OperatorUid, reason: str | None) -> None:
        """Record a split discovery of a source; `reason` is why it failed, None if it succeeded."""
        source, now = self._sources.setdefault(uid, _Source()), self._clock.monotonic()
        if reason is None:
            if source.in_a_row:
                self._note("discovery-recovered", f"source {uid!r}: split discovery works again")
            source.in_a_row, source.reason, source.alarm = 0, None, False
            return
        if not source.in_a_row:
            source.since = now
            self._note("discovery-failed", f"source {uid!r}: split discovery failed: {reason}")
        source.failed += 1
        source.in_a_row += 1
        source.reason = reason
        lasted_s = now - source.since
        if not source.alarm and source.in_a_row >= _ALARM_AFTER and lasted_s >= _ALARM_AFTER_S:
            source.alarm = True
            self._note("discovery-alarm", _warning(uid, source, lasted_s))

    @property
    def figures(self) -> dict[str, DiscoveryStats]:
        """Sources whose discovery has failed at least once."""
        now = self._clock.monotonic()
        return {
            uid: DiscoveryStats(each.failed, now - each.since if each.in_a_row else None, each.reason)
            for uid, each in self._sources.items()
            if each.failed
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sources whose discovery has failed for a long time, as messages."""
        now = self._clock.monotonic()
        return tuple(
            _warning(uid, each, now - each.since) for uid, each in self._sources.items() if each.alarm
        )


def _warning(uid: OperatorUid, source: _Source, lasted_s: float) -> str:
    return (
        f"source {uid!r}: split discovery has failed for {lasted_s:,.0f} s ({source.in_a_row} times in a row): "
        f"{source.reason}"
    )
