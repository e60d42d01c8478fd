"""Timestamps and watermarks made from records, in the middle of a chain."""

from __future__ import annotations

from typing import Any, Final

from tidegate.clock import Clock
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.operator import NOTHING, Call, Emitted, Operator
from tidegate.runtime.stream.watermarks import WatermarkStrategy

__all__ = ["Stamp", "open_stamp"]

_PERIOD_MS: Final = 200
"""How often a generator that follows the clock is asked."""


def open_stamp(strategy: WatermarkStrategy, env: ChainEnvironment) -> Operator:
    """The operator of a strategy; in a batch job it gives times only, as nothing is late there."""
    if env.batch:
        assign, _ = strategy.start(env.clock)
        return Operator((Call("stamp", assign),))
    return Stamp(strategy, env.clock)


class Stamp(Operator):
    """Gives each record its time and event time its progress, as a `WatermarkStrategy` says.

    Watermarks from before are replaced by its own; only the end of the input passes.
    """

    def __init__(self, strategy: WatermarkStrategy, clock: Clock) -> None:
        self._assign, self._generator = strategy.start(clock)
        self._clock = clock
        self._emitted = MIN_WATERMARK
        self._ended = False
        self._seen = False
        self._active_at = clock.now_ms()
        self._idle_after = strategy.idle_after_ms
        self._idle = False
        self._told_idle = False
        self._period_ms = _PERIOD_MS if self._generator.asked == "clock" else None
        self._asked_at = clock.now_ms()
        self.moved = False
        """Whether the record just seen ends the batch."""
        punctuated = self._generator.asked == "record"
        super().__init__(
            (Call("stamp", self._stamp_and_ask, cut=self),) if punctuated else (Call("stamp", self._stamp),)
        )

    def forwarded(self, watermark: int) -> int | None:
        """Nothing but the end."""
        self._ended = self._ended or watermark == MAX_WATERMARK
        return watermark if self._ended else None

    def own_watermark(self) -> int | None:
        """The generator's watermark if it moved."""
        self.moved = False
        watermark = self._generator.watermark()
        if self._ended or watermark is None or watermark <= self._emitted:
            return None
        self._emitted = watermark
        return watermark

    def own_idleness(self) -> bool | None:
        """Whether no record came for the time that the strategy gives."""
        if self._idle_after is None:
            return None
        if self._seen:
            self._seen, self._idle, self._active_at = False, False, self._clock.now_ms()
        if self._idle == self._told_idle:
            return None
        self._told_idle = self._idle
        return self._idle

    def processing_time(self, now_ms: int) -> Emitted:
        """Notice idleness, and let a generator that follows the clock be asked."""
        self._asked_at = now_ms
        if self._idle_after is not None and now_ms >= self._active_at + self._idle_after:
            self._idle = True
        return NOTHING

    def next_processing_time(self) -> int | None:
        """When it may be idle, or the generator is asked again."""
        if self._ended:
            return None
        idle_at = None if self._idle_after is None or self._idle else self._active_at + self._idle_after
        ask_at = None if self._period_ms is None else self._asked_at + self._period_ms
        return min((time for time in (idle_at, ask_at) if time is not None), default=None)

    def _stamp(self, value: Any, timestamp: int | None) -> int:
        assigned = self._assign(value, timestamp)
        self._generator.on_event(value, assigned)
        self._seen = True
        return assigned

    def _stamp_and_ask(self, value: Any, timestamp: int | None) -> int:
        assigned = self._stamp(value, timestamp)
        watermark = self._generator.watermark()
        self.moved = watermark is not None and watermark > self._emitted
        return assigned
