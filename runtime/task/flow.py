"""Flow metrics of a subtask: how long it is backpressured, and how full its channels are.

Full output channels mean that a slower subtask is downstream; full input channels mean that this subtask backpressures
its senders. So the bottleneck is the first subtask, from the sources on, that is not backpressured itself.

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
    """Metrics of a subtask since the last read; numbers are fractions of one unless stated otherwise."""

    back_pressure: BackPressure
    held_up: float
    """Fraction of the time in which a receiver had no credit left."""
    sending: float
    """Used fraction of the credit of its fullest output channel."""
    receiving: float
    """Used fraction of the credit that it has granted."""
    records: int = 0
    """Number of records read or received since the start of the attempt."""
    watermark: int | None = None
    """Watermark after its last step, in ms; None before the first."""
    reading: float | None = None
    """Sources only: fraction of the time spent on reading and processing records; otherwise None."""

    def behind_ms(self, now_ms: int) -> int | None:
        """How far the watermark is behind the clock; None without a watermark, or at the end of event time."""
        if self.watermark is None or not MIN_WATERMARK < self.watermark < MAX_WATERMARK:
            return None
        return max(0, now_ms - self.watermark)


def back_pressure(held_up: float) -> BackPressure:
    """The backpressure level for a fraction of the time.

    Example:
        >>> [back_pressure(share) for share in (0.05, 0.3, 0.6)]
        ['ok', 'low', 'high']
    """
    return "ok" if held_up < _OK else "low" if held_up <= _LOW else "high"


class FlowMeter:
    """Measures how long a subtask is backpressured, and how long a source is busy."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_at = clock.monotonic()
        self._since: float | None = None
        self._held_s = 0.0
        self._counted_s = 0.0
        self._reading_s: float | None = None

    def reading(self, seconds: float) -> None:
        """Add the busy time of a source; 0 marks the subtask as a source."""
        self._reading_s = (self._reading_s or 0.0) + seconds

    def held_up(self, now: bool) -> None:
        """Whether the subtask is backpressured from now on."""
        if now and self._since is None:
            self._since = self._clock.monotonic()
        elif not now and self._since is not None:
            held_s = self._clock.monotonic() - self._since
            self._held_s += held_s
            self._counted_s += held_s
            self._since = None

    def held_s(self) -> float:
        """Seconds of backpressure since the last call."""
        held_s, self._counted_s = self._counted_s, 0.0
        return held_s

    def read(self, sending: float, receiving: float, records: int = 0, watermark: int | None = None) -> Flow:
        """The metrics since the last call."""
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
