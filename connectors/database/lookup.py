"""Lookup function of a database table: the rows of a key, optionally cached.

Guarantee: the rows at the time of the call; with a cache, rows that may be as old as its expiry time. A key with NULL finds
nothing, as in SQL.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.database.database import Database
from tidegate.connectors.database.serde import row_decoder
from tidegate.connectors.database.session import Session
from tidegate.connectors.database.statements import names_of, qualified, quoted
from tidegate.connectors.table_spi import LookupFunction
from tidegate.errors import UnavailableError
from tidegate.logical_types import LogicalType

__all__ = ["DatabaseLookup", "LookupCache"]

_AT_ONCE: Final = 500
"""The number of keys per statement; SQLite allows few parameters."""

Rows = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class LookupCache:
    """Cache of looked-up keys: its size and expiry.

    Args:
        rows: The maximum number of cached keys; the least recently used are evicted.
        expire_ms: The age at which an entry is queried again; None never.
        missing: Whether keys without rows are cached as well.
    """

    rows: int
    expire_ms: int | None = None
    missing: bool = True


@dataclass
class DatabaseLookup(LookupFunction):
    """Finds rows by statements with many keys each.

    Args:
        database: The database of the table.
        table: Its name.
        columns: The columns of the rows, with their types.
        types: The types of these columns.
        key: The columns of the key.
        retries: How often a statement is repeated if the database does not answer, on a new connection.
        cache: The cache; None queries every time.
        clock: The clock of the cache.
    """

    database: Database
    table: str
    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    key: tuple[str, ...]
    retries: int = 3
    cache: LookupCache | None = None
    clock: Clock = SYSTEM_CLOCK
    _session: Session | None = field(default=None, repr=False)
    _casts: tuple[str, ...] = field(default=(), repr=False)
    _known: OrderedDict[tuple[Any, ...], tuple[float, Rows]] = field(default_factory=OrderedDict, repr=False)

    def open(self) -> None:
        """Connect, and read the types of the key columns.

        Raises:
            ConfigError: the table or a column does not exist.
            UnavailableError: the database does not answer.
        """
        session = self.database.connect()
        self._session = session
        info = session.catalog.table(qualified(self.table), self.table)
        kinds = {column.name: column.type for column in info.columns}
        typed = session.dialect != "sqlite"
        self._casts = tuple(f"CAST(? AS {kinds[name]})" if typed else "?" for name in self.key)

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[Rows]:
        """The rows of each key.

        Raises:
            UnavailableError: the database does not answer, even after the retries.
        """
        found = {key: rows for key in keys if (rows := self._remembered(key)) is not None}
        wanted = [key for key in dict.fromkeys(keys) if key not in found]
        for at in range(0, len(wanted), _AT_ONCE):
            part = wanted[at : at + _AT_ONCE]
            asked = self._asked(part)
            for key, rows in zip(part, asked, strict=True):
                found[key] = rows
                self._remember(key, rows)
        return [found[key] for key in keys]

    def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _asked(self, keys: Sequence[tuple[Any, ...]]) -> list[Rows]:
        for _ in range(self.retries):
            try:
                return self._ask(keys)
            except UnavailableError:
                self.close()
        return self._ask(keys)

    def _ask(self, keys: Sequence[tuple[Any, ...]]) -> list[Rows]:
        if self._session is None:
            self.open()
        assert self._session is not None
        wanted = [f"k{place}" for place in range(len(self.key))]
        row = f"({', '.join(('?', *self._casts))})"
        # The first row declares the types of the columns.
        first = row if self._session.dialect == "sqlite" else row.replace("?", "CAST(? AS bigint)", 1)
        rows = ", ".join([first, *[row] * (len(keys) - 1)])
        same = " AND ".join(f"t.{quoted(name)} = v.{at}" for name, at in zip(self.key, wanted, strict=True))
        query = (
            f"WITH v (place, {', '.join(wanted)}) AS (VALUES {rows}) SELECT v.place, {names_of(self.columns, 't')} "
            f"FROM v JOIN {qualified(self.table)} AS t ON {same} ORDER BY v.place"
        )
        values = [value for place, key in enumerate(keys) for value in (place, *key)]
        decode = row_decoder(self.database.dialect, self.columns, self.types)
        found: list[list[tuple[Any, ...]]] = [[] for _ in keys]
        for place, *each in self._session.execute(query, values):
            found[place].append(decode(tuple(each)))
        return [tuple(each) for each in found]

    def _remembered(self, key: tuple[Any, ...]) -> Rows | None:
        entry = self._known.get(key)
        if entry is None or self.cache is None:
            return None
        if (
            self.cache.expire_ms is not None
            and (self.clock.monotonic() - entry[0]) * 1_000 >= self.cache.expire_ms
        ):
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return entry[1]

    def _remember(self, key: tuple[Any, ...], rows: Rows) -> None:
        if self.cache is None or not (rows or self.cache.missing):
            return
        self._known[key] = (self.clock.monotonic(), rows)
        while len(self._known) > self.cache.rows:
            self._known.popitem(last=False)
