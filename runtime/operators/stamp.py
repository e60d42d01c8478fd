"""Timestamps and watermarks made from records, in the middle of a chain."""

from __future__ import annotations

from typing import Any

from tidegate.clock import Clock
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.runtime.operators.operator import Call, Operator
from tidegate.runtime.stream.watermarks import WatermarkStrategy

__all__ = ["Stamp"]


class Stamp(Operator):
    """Gives each record its time and event time its progress, as a `WatermarkStrategy` says.

    Watermarks from before are replaced by its own; only the end of the input passes.
    """

    def __init__(self, strategy: WatermarkStrategy, clock: Clock) -> None:
        self._generator = strategy.generator()
        self._assign = strategy.assigner()
        self._clock = clock
        self._emitted = MIN_WATERMARK
        super().__init__((Call("stamp", self._stamp),))

    def forwarded(self, watermark: int) -> int | None:
        """Nothing but the end."""
        return watermark if watermark == MAX_WATERMARK else None

    def own_watermark(self) -> int | None:
        """The generator's watermark if it moved."""
        watermark = self._generator.watermark()
        if watermark is None or watermark <= self._emitted:
            return None
        self._emitted = watermark
        return watermark

    def _stamp(self, value: Any, timestamp: int | None) -> int:
        assigned = self._assign(value, timestamp)
        self._generator.on_event(value, assigned)
        return assigned
