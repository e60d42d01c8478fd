"""Idleness of a reader: what it returns while it has no splits.

Example:
    >>> idleness = Idleness()
    >>> idleness.poll(), idleness.poll(), idleness.ended(), idleness.ended()
    (Idle(idle=True), NotYet(after_ms=None), Idle(idle=False), None)
"""

from __future__ import annotations

from tidegate.connectors.spi import Finished, NotYet, Poll
from tidegate.elements import Idle

__all__ = ["Idleness"]


class Idleness:
    """Reports once that a reader is idle, so that event time does not wait for it, and once that it no longer is."""

    def __init__(self) -> None:
        self.complete = False
        """Whether no more splits are assigned."""
        self.reported = False
        """Whether it has reported idleness, and not yet its end."""

    def poll(self) -> Poll:
        """The result of a poll without splits."""
        if self.complete:
            return Finished()
        if not self.reported:
            self.reported = True
            return Idle(True)
        return NotYet()

    def ended(self) -> Idle | None:
        """The result of the first poll with splits; None for the following ones."""
        if not self.reported:
            return None
        self.reported = False
        return Idle(False)
