"""Sorted index of addresses for scans: an insertion or removal moves a few hundred entries, not all.

Example:
    >>> order = Order([b"a", b"c"])
    >>> order.add(b"b"), order.remove(b"a")
    (None, None)
    >>> order.between(b"", b"\\xff"), order.between(b"", b"\\xff", reverse=True, limit=1)
    ([b'b', b'c'], [b'c'])
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final

from tidegate.backends.spi import Address

__all__ = ["Order"]

_BUCKET: Final = 512


class Order:
    """Sorted addresses, each once, in buckets; `addresses` are sorted already."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._buckets = [
            list(addresses[first : first + _BUCKET]) for first in range(0, len(addresses), _BUCKET)
        ]
        self._firsts = [bucket[0] for bucket in self._buckets]
        """An address that is not above the first of its bucket and is above all of the one before."""
        self._size = len(addresses)

    def __len__(self) -> int:
        return self._size

    def add(self, at: Address) -> None:
        """Add an address; one that is there stays there once."""
        if not self._buckets:
            self._buckets, self._firsts = [[]], [at]
        number = max(bisect_right(self._firsts, at) - 1, 0)
        bucket = self._buckets[number]
        place = bisect_left(bucket, at)
        if place < len(bucket) and bucket[place] == at:
            return
        bucket.insert(place, at)
        self._size += 1
        if place == 0:
            self._firsts[number] = at
        if len(bucket) > 2 * _BUCKET:
            self._buckets[number : number + 1] = bucket[:_BUCKET], bucket[_BUCKET:]
            insort(self._firsts, bucket[_BUCKET])

    def remove(self, at: Address) -> None:
        """Remove an address if it is there."""
        number = bisect_right(self._firsts, at) - 1
        if number < 0:
            return
        bucket = self._buckets[number]
        place = bisect_left(bucket, at)
        if place == len(bucket) or bucket[place] != at:
            return
        del bucket[place]
        self._size -= 1
        if not bucket:
            del self._buckets[number], self._firsts[number]

    def between(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> list[Address]:
        """Those with first <= address < last, ascending or in reverse, no more than `limit`."""
        most = self._size if limit is None else limit
        found: list[Address] = []
        number = max(bisect_right(self._firsts, last if reverse else first) - 1, 0)
        step = -1 if reverse else 1
        while 0 <= number < len(self._buckets) and len(found) < most:
            bucket = self._buckets[number]
            begin, end = bisect_left(bucket, first), bisect_left(bucket, last)
            part = bucket[begin:end]
            found.extend(reversed(part) if reverse else part)
            if (begin > 0) if reverse else (end < len(bucket)):
                break
            number += step
        return found[:most]
