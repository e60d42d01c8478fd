"""Limit of the row cache: by number of rows and by their recent size.

Weighing each row as it comes and goes would cost every record; rows of one operator are mostly alike.

Example:
    >>> limit = RowLimit(100_000, memory_bytes=2_000_000)
    >>> limit.rows
    1000
    >>> limit.saw([bytes(200)] * 500)
    >>> limit.rows
    2000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.backends.spi import Entry

__all__ = ["RowLimit"]

_OBJECTS: Final = 600
"""Memory of a row in addition to its bytes: itself, its key and address, its place in the cache, its values as objects."""

_COPIES: Final = 2
"""How often the bytes of a row are there: as they were stored, and as values."""

_AT_FIRST: Final = 1_000
_AT_LEAST: Final = 100
_LATELY: Final = 20_000


class RowLimit:
    """At most `most` rows, and about `memory_bytes` of them if that is given."""

    def __init__(self, most: int, memory_bytes: int | None) -> None:
        self._most = most
        self._memory_bytes = memory_bytes
        self._seen = 0
        self._size = 0
        self.rows = most if memory_bytes is None else min(most, _AT_FIRST)
        """As many as may stay when a batch ends."""

    def saw(self, rows: Sequence[bytes | None], beside: Sequence[Entry] = ()) -> None:
        """Some rows as they are stored, and the entries outside them."""
        if self._memory_bytes is None:
            return
        stored = [row for row in (rows if beside else rows[-_LATELY:]) if row is not None]
        if not stored:
            return
        self._seen += len(stored)
        self._size += sum(map(len, stored)) + sum(len(data or b"") for _, data in beside)
        weight = _OBJECTS + _COPIES * self._size // self._seen
        self.rows = min(self._most, max(_AT_LEAST, self._memory_bytes // weight))
        if self._seen > _LATELY:
            self._seen //= 2
            self._size //= 2
