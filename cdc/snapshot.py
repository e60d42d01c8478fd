"""Merge of table reads with the log: which changes of the log a read already contains.

A table is read in chunks, ranges of its key. Each chunk is read in one transaction, and its *view* is the set of
transactions that this read has seen. A change is left out exactly if the chunk of its key has seen its transaction: so
every change counts once and no row returns to an older value. Positions in the log cannot decide this: a transaction may be in the log and
not yet be visible to a read that begins later.

Pure. Keys are compared as Python compares them, so they have to be ordered as in the database.

Example:
    >>> class Seen(set):
    ...     contains = set.__contains__
    >>> loaded = LoadedTable([LoadedRange(100, Seen({7})), LoadedRange(None, Seen({7, 8}))])
    >>> loaded.contains(100, transaction=8), loaded.contains(101, transaction=8)
    (False, True)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["LoadedRange", "LoadedTable", "View"]


class View(Protocol):
    """The transactions whose changes a read has seen."""

    def contains(self, transaction: int) -> bool:
        """Whether the read has seen this transaction. Pure."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedRange:
    """A chunk that was read: keys above the bound of the range before it, up to its own bound."""

    upto: Any
    """The upper bound; None is all remaining keys."""
    view: View


class LoadedTable:
    """A table of which all chunks were read before its log is followed.

    Args:
        ranges: The chunks in the order of their keys; the last one has no bound.
    """

    def __init__(self, ranges: Sequence[LoadedRange]) -> None:
        self._bounds = [each.upto for each in ranges[:-1]]
        self._views = [each.view for each in ranges]

    def contains(self, key: Any, transaction: int) -> bool:
        """Whether the loaded rows contain a change of a key: then it must be left out."""
        return self._views[bisect_left(self._bounds, key)].contains(transaction)

    def seen_by(self, transaction: int) -> Iterator[bool]:
        """For each chunk, whether its read has seen a transaction."""
        return (view.contains(transaction) for view in self._views)
