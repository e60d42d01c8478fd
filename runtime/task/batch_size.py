"""How many records to work on at a time, so that control never waits long: as many as take 5 to 20 ms.

Example:
    >>> size = BatchSize()
    >>> size.limit
    256
    >>> size.took(0.03, records=256)
    >>> size.limit
    256
    >>> size.took(0.03, records=256)
    >>> size.limit
    128
    >>> size.took(0.001, records=128)
    >>> size.limit
    256
"""

from __future__ import annotations

from typing import Final

__all__ = ["BatchSize"]

_SMALLEST: Final = 16
_FIRST: Final = 256
_LARGEST: Final = 16_384
_SHORT_S: Final = 0.005
_LONG_S: Final = 0.02


class BatchSize:
    """Follows the time that batches take."""

    def __init__(self) -> None:
        self.limit = _FIRST
        self.largest = _LARGEST
        self._slow = False

    def took(self, seconds: float, records: int, *, grow: bool = True) -> None:
        """Learn from a batch; without `grow` it may only become smaller.

        One slow batch says nothing: on a busy machine whoever works on it stands still for a while.
        """
        before, self._slow = self._slow, seconds > _LONG_S
        if self._slow and before:
            self.limit = max(_SMALLEST, self.limit // 2)
        elif grow and seconds < _SHORT_S and records >= self.limit:
            self.limit = min(self.largest, self.limit * 2)
