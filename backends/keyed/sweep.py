"""Background removal of expired state: an incremental scan of all rows.

A walk starts only when something can have expired: it notes the earliest moment it has seen, and until that has
passed nothing is looked at. States that do not expire are never looked at.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from tidegate.backends.keyed.address import ROWS, after, split, state_prefix
from tidegate.backends.keyed.row import Cursor, Row, RowCodec
from tidegate.backends.keyed.ttl import Lifetime, StateTtlConfig
from tidegate.backends.spi import Address, Entry, Materialisation
from tidegate.keys import KeyGroupRange, key_from_bytes

__all__ = ["NAMESPACED", "AllRows", "Expiring", "Sweeps"]

NAMESPACED: Final = object()
"""Starts the place of a namespaced row in the cache, so that it is never the place of a key."""

_CHUNK: Final = 1_000


class Expiring(Protocol):
    """The handle of a state with a time to live."""

    def purge(self, row: Row, limit: int) -> int | None:
        """Remove values with a timestamp up to `limit` from a row; returns the earliest remaining timestamp."""
        ...


class AllRows(NamedTuple):
    """The rows of a store: in the cache, and stored."""

    cached: Mapping[Any, Row]
    materialisation: Materialisation
    key_groups: KeyGroupRange
    codec: RowCodec
    cursor: Cursor

    def walk(self) -> Iterator[Address]:
        """The addresses of all rows at the start, some twice; rows may change during the iteration."""
        filled = [row for row in self.cached.values() if row.changed or row.encoded is not None]
        yield from [row.address for row in filled]
        for group in range(self.key_groups.first, self.key_groups.last):
            first = state_prefix(group, ROWS)
            last = after(first)
            while chunk := [at for at, _ in islice(self.materialisation.scan(first, last), _CHUNK)]:
                yield from chunk
                first = chunk[-1] + b"\0"

    def in_cache(self, at: Address) -> Row | None:
        """The row at an address, if it is cached."""
        parts = split(at)
        key = key_from_bytes(parts.key)
        return self.cached.get((NAMESPACED, key, parts.namespace) if parts.namespace else key)

    def stored(self, at: Address) -> Row | None:
        """The stored row at an address, without the cache."""
        (data,) = self.materialisation.get_many([at])
        if data is None:
            return None
        parts = split(at)
        return Row(key_from_bytes(parts.key), at, data, self.codec.unpack(data), parts.namespace or None)

    def settle(self, row: Row) -> dict[Address, bytes | None]:
        """The changes of a purge in a row outside the cache."""
        self.cursor.changed.pop(row, None)
        self.cursor.crowded.pop(row, None)
        entries: list[Entry] = []
        (data,) = self.codec.settle((row,), entries)
        return dict(entries) if data == row.encoded else {**dict(entries), row.address: data}


class Sweeps:
    """All states of a store with a time to live. `log` receives removals from rows that are not cached."""

    def __init__(
        self, rows: AllRows, log: Callable[[dict[Address, bytes | None]], None], now_ns: Callable[[], int]
    ) -> None:
        self._rows = rows
        self._log = log
        self._now_ns = now_ns
        self._all: list[_Sweep] = []

    def add(self, config: StateTtlConfig, state: Expiring, life: Lifetime, *, restored: bool) -> None:
        """Sweep a state according to its configuration; restored values may have expired already."""
        due = 0 if restored else self._now_ns() + life.length
        self._all.append(_Sweep(config, state, life, self._rows, self._log, due))

    def records(self, count: int) -> None:
        """As many records are processed."""
        for sweep in self._all:
            if sweep.per_record:
                sweep.advance(self._now_ns(), count * sweep.per_record)

    def barrier(self) -> None:
        """A checkpoint is about to be taken."""
        for sweep in self._all:
            if sweep.per_barrier:
                sweep.advance(self._now_ns(), sweep.per_barrier)

    def rewriting(self) -> None:
        """All state is about to be rewritten."""
        for sweep in self._all:
            if sweep.at_rewrite:
                sweep.complete(self._now_ns())

    def leftovers(self) -> dict[Address, bytes | None]:
        """What a snapshot that leaves out expired entries holds instead of what is stored; all is written back."""
        now = self._now_ns()
        cleaned = [sweep for sweep in self._all if sweep.in_full_snapshot]
        entries: dict[Address, bytes | None] = {}
        for at in dict.fromkeys(self._rows.walk()) if cleaned else ():
            row = self._rows.stored(at)
            if row is not None:
                for sweep in cleaned:
                    sweep.purge(row, now)
                entries.update(self._rows.settle(row) if row.changed else ())
        return entries


class _Sweep:
    """One state: how far the walk is, and when the next one is worth while."""

    def __init__(
        self,
        config: StateTtlConfig,
        state: Expiring,
        life: Lifetime,
        rows: AllRows,
        log: Callable[[dict[Address, bytes | None]], None],
        due: float,
    ) -> None:
        strategies = config.get_cleanup_strategies()
        incremental = strategies.get_incremental_cleanup_strategy()
        compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
        self.in_full_snapshot = strategies.in_full_snapshot()
        self.per_access = incremental.size if incremental else 0
        self.per_record = incremental.size if incremental and incremental.every_record else 0
        self.per_barrier = compaction.entries if compaction else 0
        self.at_rewrite = strategies.compaction is not None
        self._state = state
        self._life = life
        self._rows = rows
        self._log = log
        self._walk: Iterator[Address] | None = None
        self._earliest: float = math.inf
        life.sweep = self._accessed
        self._wait(due)

    def advance(self, now: int, count: int) -> None:
        """Look at up to `count` more rows, if any can hold something expired."""
        if now < self._due:
            return
        if self._walk is None:
            self._walk = self._rows.walk()
            self._earliest = now + self._life.length  # what is written from now on expires later
        # A sweep reads and writes through the handles, which must not start another one.
        self._life.due = math.inf
        seen = 0
        for seen, at in enumerate(islice(self._walk, count), start=1):  # noqa: B007
            self._visit(at, now)
        if seen < count:
            self._walk = None
            self._wait(self._earliest)
        else:
            self._wait(self._due)

    def complete(self, now: int) -> None:
        """Look at every row, if any can hold something expired."""
        self._walk = None
        self.advance(now, sys.maxsize)

    def purge(self, row: Row, now: int) -> int | None:
        """Remove expired values from a row; returns when the next value expires."""
        oldest = self._state.purge(row, now - self._life.length)
        return None if oldest is None else oldest + self._life.length

    def _visit(self, at: Address, now: int) -> None:
        cached = self._rows.in_cache(at)
        row = cached or self._rows.stored(at)
        if row is None:
            return
        self._earliest = min(self._earliest, self.purge(row, now) or math.inf)
        if row.changed and cached is None:
            self._log(self._rows.settle(row))

    def _accessed(self, now: int) -> None:
        self.advance(now, self.per_access)

    def _wait(self, due: float) -> None:
        self._due = due
        self._life.due = due if self.per_access else math.inf
