"""Blackhole sink: discards every record, to measure the steps before it.

Guarantee: nothing ever comes out.

Example:
    >>> BlackHoleSink().delivery
    'none'
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["BlackHoleSink", "BlackHoleWriter"]


@dataclass(frozen=True)
class BlackHoleSink(Sink):
    """Discards records of any kind."""

    delivery = "none"

    def open_writer(self, context: WriterContext) -> BlackHoleWriter:
        """Takes records and forgets them."""
        return BlackHoleWriter()


class BlackHoleWriter(SinkWriter):
    """Does nothing, quickly."""

    def write(self, batch: Batch) -> None:
        """Forget a batch."""

    write_arrow = write

    def prepare(self, checkpoint: CheckpointId) -> None:
        """There is nothing."""
