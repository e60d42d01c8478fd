"""How freely records move through a subtask: how long its receivers hold it up, and how full its channels are.

A subtask whose sending side is full is held up by a slower one behind it; one whose receiving side is full holds up
those before it. So the slow subtask is the first, from the sources on, that is not held up itself.

Example:
    >>> from tidegate.clock import ManualClock
    >>> clock = ManualClock()
    >>> meter = FlowMeter(clock)
    >>> meter.held_up(True)
    >>> clock.advance(300)
    >>> meter.held_up(False)
    >>> clock.advance(700)
    >>> meter.read(sending=0.5, receiving=0.0)
    Flow(back_pressure='low', held_up=0.3, sending=0.5, receiving=0.0, records=0, watermark=None, reading=None)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidegate.clock import Clock
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK

__all__ = ["BackPressure", "Flow", "FlowMeter", "back_pressure"]

BackPressure: TypeAlias = Literal["ok", "low", "high"]

_OK: Final = 0.1
_LOW: Final = 0.5


@dataclass(frozen=True, slots=True)
class Flow:
    """A subtask since somebody looked last; numbers are shares of one unless they say otherwise."""

    back_pressure: BackPressure
    held_up: float
    """Of the time, during which a receiver could not take more."""
    sending: float
    """Of the credit of its fullest outgoing channel, which is used up."""
    receiving: float
    """Of the credit it has given, which is used up."""
    records: int = 0
    """How many it has read or received since its attempt began; no share."""
    watermark: int | None = None
    """How far event time is behind its last step; None before there is any. No share."""
    reading: float | None = None
    """Of the time, during which a source read records and worked on them; None for what is no source."""

    def behind_ms(self, now_ms: int) -> int | None:
        """How far event time is behind the clock; None without event time, or at its end."""
        if self.watermark is None or not MIN_WATERMARK < self.watermark < MAX_WATERMARK:
            return None
        return max(0, now_ms - self.watermark)


def back_pressure(held_up: float) -> BackPressure:
    """What a share of the time means.

    Example:
        >>> [back_pressure(share) for share in (0.05, 0.3, 0.6)]
        ['ok', 'low', 'high']
    """
    return "ok" if held_up < _OK else "low" if held_up <= _LOW else "high"


class FlowMeter:
    """Adds up how long a subtask was held up, and how long a source had records to work on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_at = clock.monotonic()
        self._since: float | None = None
        self._held_s = 0.0
        self._counted_s = 0.0
        self._reading_s: float | None = None

    def reading(self, seconds: float) -> None:
        """A source has read and worked on records for so long; none at all says that it is a source."""
        self._reading_s = (self._reading_s or 0.0) + seconds

    def held_up(self, now: bool) -> None:
        """Whether a receiver holds the subtask up from now on."""
        if now and self._since is None:
            self._since = self._clock.monotonic()
        elif not now and self._since is not None:
            held_s = self._clock.monotonic() - self._since
            self._held_s += held_s
            self._counted_s += held_s
            self._since = None

    def held_s(self) -> float:
        """How many seconds it was held up since this was asked last."""
        held_s, self._counted_s = self._counted_s, 0.0
        return held_s

    def read(self, sending: float, receiving: float, records: int = 0, watermark: int | None = None) -> Flow:
        """How it went since the last time."""
        holding = self._since is not None
        self.held_up(False)
        now = self._clock.monotonic()
        elapsed, held_s = now - self._read_at, self._held_s
        self._read_at, self._held_s = now, 0.0
        self.held_up(holding)

        def share(seconds: float) -> float:
            return round(min(seconds / elapsed, 1.0), 3) if elapsed > 0 else 0.0

        held = share(held_s)
        reading = None
        if self._reading_s is not None:
            reading, self._reading_s = share(self._reading_s), 0.0
        waiting = (round(sending, 3), round(receiving, 3))
        return Flow(back_pressure(held), held, *waiting, records, watermark, reading)
