"""Adaptive batch size: as many records as take 5 to 20 ms, so that control messages never wait long.

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
    """Adapts to the processing time of batches and to the credit of receivers."""

    def __init__(self) -> None:
        self.limit = _FIRST
        self.largest = _LARGEST
        self._slow: float | None = None
        """Seconds per record of the last batch, if that was too slow."""

    def took(self, seconds: float, records: int, *, filled: float = 0.0) -> None:
        """Record the time of a batch; `filled` is the fraction of a receiver's credit that it used.

        One slow batch is ignored, because on a busy machine the thread may have been suspended. The faster one of two
        batches decides.
        """
        before, self._slow = self._slow, seconds / records if seconds > _LONG_S else None
        if filled > 1:
            self.limit = max(1, min(self.limit, int(records / filled)))
        if self._slow is not None and before is not None:
            self.limit = max(1, min(self.limit, int(USUAL_S / min(self._slow, before))))
        elif seconds < _SHORT_S and filled <= 1 / 2 and records >= self.limit:
            self.limit = min(self.largest, self.limit * 2)
