"""Merge of table reads with the log: which changes of the log a read already contains.

A table is read in chunks, ranges of its key. Each chunk is read in one transaction, and its *view* is the set of
transactions that this read has seen. A change is left out exactly if the chunk of its key has seen its transaction: so every change counts
once and no row returns to an older value. Positions in the log cannot decide this: a transaction may be in the log and
not yet be visible to a read that begins later.

Pure. Keys are compared as Python compares them, so they have to be ordered as in the database.

Example:
    >>> loaded = LoadedTable([LoadedRange(100, UpTo(7)), LoadedRange(None, UpTo(9))])
    >>> loaded.contains(100, transaction=8), loaded.contains(101, transaction=8)
    (False, True)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Decision", "LoadedRange", "LoadedTable", "TableLoad", "UpTo", "View"]

Row = TypeVar("Row")


class View(Protocol):
    """The transactions whose changes a read has seen."""

    def contains(self, transaction: int) -> bool:
        """Whether the read has seen this transaction. Pure."""
        ...


@dataclass(frozen=True, slots=True)
class UpTo:
    """View for databases whose reads correspond to a position of the log: all transactions that end there or before."""

    position: int

    def contains(self, transaction: int) -> bool:
        """Whether the transaction ends at the position or before it."""
        return transaction <= self.position


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


class Decision(Enum):
    """What to do with a change of the log."""

    EMIT = "emit"
    SKIP = "skip"
    """A chunk contains it, or will."""


@dataclass(slots=True)
class _Open(Generic[Row]):
    upto: Any
    view: View
    rows: dict[Any, Row]


class TableLoad(Generic[Row]):
    """A table that is read, chunk by chunk in the order of its keys, while its log is followed.

    For each chunk: read its rows and its view in one transaction of the database, then write a mark into the log; pass
    both to `open`; call `change` for every change of the log; when the mark comes, emit the result of `close`. Each view must
    contain every transaction that the log has passed; otherwise read the chunk again.

    Args:
        above: Where to start: keys up to this are read already; None is the beginning.
    """

    def __init__(self, above: Any = None) -> None:
        self._finished = above
        self._done = False
        self._chunk: _Open[Row] | None = None

    @property
    def above(self) -> Any:
        """Where the next chunk starts."""
        return self._finished

    @property
    def done(self) -> bool:
        """Whether all chunks are closed."""
        return self._done

    def open(self, upto: Any, view: View, rows: Mapping[Any, Row]) -> None:
        """Begin to merge a chunk: its rows by key, in order. `upto` is None for the last one."""
        self._chunk = _Open(upto, view, dict(rows))

    def change(self, key: Any, transaction: int) -> tuple[Decision, Row | None]:
        """What to do with a change of a key, and the row of the chunk to emit before it."""
        if self._done or (self._finished is not None and key <= self._finished):
            return Decision.EMIT, None
        chunk = self._chunk
        if chunk is None or (chunk.upto is not None and key > chunk.upto) or chunk.view.contains(transaction):
            return Decision.SKIP, None
        return Decision.EMIT, chunk.rows.pop(key, None)

    def close(self) -> Iterator[Row]:
        """Finish the chunk; returns its rows without changes."""
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            return iter(())
        self._finished, self._done = chunk.upto, chunk.upto is None
        return iter(chunk.rows.values())
