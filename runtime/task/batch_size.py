"""How many records to work on at a time, so that control never waits long: as many as take 5 to 20 ms.

Example:
    >>> size = BatchSize()
    >>> size.took(0.001, records=16)
    >>> size.limit
    32
    >>> size.took(0.08, records=32)
    >>> size.limit
    32
    >>> size.took(0.08, records=32)
    >>> size.limit
    4
"""

from __future__ import annotations

from typing import Final

__all__ = ["USUAL_S", "BatchSize"]

_FIRST: Final = 16
_LARGEST: Final = 16_384
_SHORT_S: Final = 0.005
USUAL_S: Final = 0.01
_LONG_S: Final = 0.02


class BatchSize:
    """Follows the time that batches take, and the room that receivers have for them."""

    def __init__(self) -> None:
        self.limit = _FIRST
        self.largest = _LARGEST
        self._slow: float | None = None
        """Seconds that a record of the last batch took, if that was too long."""

    def took(self, seconds: float, records: int, *, filled: float = 0.0) -> None:
        """Learn from a batch, which took up the share `filled` of what a receiver takes at once.

        One slow batch says nothing: on a busy machine whoever works on it stands still for a while. The quicker one of
        two says how many can be worked off in time.
        """
        before, self._slow = self._slow, seconds / records if seconds > _LONG_S else None
        if filled > 1:
            self.limit = max(1, min(self.limit, int(records / filled)))
        if self._slow is not None and before is not None:
            self.limit = max(1, min(self.limit, int(USUAL_S / min(self._slow, before))))
        elif seconds < _SHORT_S and filled <= 1 / 2 and records >= self.limit:
            self.limit = min(self.largest, self.limit * 2)
