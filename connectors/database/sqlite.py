"""SQLite session. One process writes at a time: transactions are short, and an epoch is collected in a temporary table."""

from __future__ import annotations

import datetime
import decimal
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from tidegate.checks import shorten
from tidegate.connectors.database.session import Catalog, ColumnInfo, Session, TableInfo
from tidegate.connectors.database.statements import names_of, quoted
from tidegate.errors import ConfigError, RecordError, TidegateError, UnavailableError

__all__ = ["SqliteSession"]

_BUSY: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL")
_SCRATCH: Final = "temp.tidegate_scratch"
_HEAD: Final = (
    "CAST(0 AS INTEGER) AS tg_work, CAST(0 AS INTEGER) AS tg_chunk, CAST(0 AS INTEGER) AS tg_kind, "
    "CAST(NULL AS TEXT) AS tg_unchanged"
)


class SqliteSession(Session):
    """A connection of SQLite."""

    dialect = "sqlite"
    locking = ""  # SQLite has one writing transaction at a time

    def __init__(self, file: str, lock_timeout_ms: int) -> None:
        self.shown = f"sqlite:{file}"
        self.catalog = SqliteCatalog(self)
        with self._translated():
            # Used by one thread at a time, which may differ from the one that connected.
            self._connection = sqlite3.connect(
                file, timeout=lock_timeout_ms / 1_000, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA foreign_keys = ON")
        self._collecting = self._scratch = False

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self._translated():
            return self._connection.execute(sql, list(map(_stored, values))).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number of rows that it changed."""
        with self._translated():
            return self._connection.execute(sql, list(map(_stored, values))).rowcount

    def stream(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """By a cursor."""
        with self._translated():
            cursor = self._connection.execute(sql, list(map(_stored, values)))
            try:
                while rows := cursor.fetchmany(size):
                    yield rows
            finally:
                cursor.close()

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: str) -> None:
        """Row by row, by one statement."""
        statement = f"INSERT INTO {table} ({names_of(columns)}) VALUES ({', '.join('?' * len(columns))})"
        with self._translated(shown):
            self._connection.executemany(statement, ([_stored(value) for value in row] for row in rows))

    def begin(self) -> None:
        """Take the write lock at the beginning: a later upgrade of a read lock may be refused."""
        self.execute("BEGIN IMMEDIATE")
        if self._scratch:
            self.execute(f"DELETE FROM {_SCRATCH}")

    def end(self, *, commit: bool) -> None:
        """End it."""
        if commit or self._connection.in_transaction:
            self.execute("COMMIT" if commit else "ROLLBACK")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def epoch_table(self, stage: str) -> str:
        """A temporary table, since an open transaction would block all other writers."""
        if not self._collecting:
            self.execute(f"CREATE TEMP TABLE tidegate_epoch AS SELECT * FROM {stage} WHERE 0")
            self._collecting = True
        return "temp.tidegate_epoch"

    def keep_epoch(self, stage: str) -> None:
        """Move the rows to the staging table."""
        self.begin()
        self.execute(f"INSERT INTO {stage} SELECT * FROM temp.tidegate_epoch")
        self.execute("DELETE FROM temp.tidegate_epoch")

    def scratch(self, target: str) -> str:
        """A temporary table that each new transaction empties."""
        self.execute(f"CREATE TEMP TABLE tidegate_scratch AS SELECT {_HEAD}, t.* FROM {target} AS t WHERE 0")
        self._scratch = True
        return _SCRATCH

    @contextmanager
    def _translated(self, table: str = "") -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise self._of(error, table) from error

    def _of(self, error: Exception, table: str) -> TidegateError:
        name = getattr(error, "sqlite_errorname", "")
        message = f"database {self.shown}{', table ' + table if table else ''}: {error}"
        if isinstance(
            error, sqlite3.IntegrityError | sqlite3.DataError | OverflowError | sqlite3.InterfaceError
        ):
            return RecordError(f"{message}; correct the record, or the table")
        if name.startswith(_BUSY):
            return UnavailableError(message)
        return ConfigError(message)


class SqliteCatalog(Catalog):
    """The schema of a SQLite file."""

    def exists(self, table: str) -> bool:
        """Whether there is such a table."""
        return bool(self._session.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_plain(table),)))

    def describe(self, table: str) -> TableInfo | None:
        """Read from the catalog."""
        name = _plain(table)
        found = self._session.execute(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (name,)
        )
        if not found:
            return None
        primary = tuple(
            each[0] for each in sorted((each for each in found if each[4]), key=lambda each: each[4])
        )
        rowid = len(primary) == 1 and any(each[4] and each[1].upper() == "INTEGER" for each in found)
        columns = tuple(
            ColumnInfo(
                column,
                kind,
                not (notnull or (pk and not rowid)),
                default is not None or (pk and rowid),
                hidden > 1,
            )
            for column, kind, notnull, default, pk, hidden in found
        )
        listed = self._session.execute('SELECT name, "unique", partial FROM pragma_index_list(?)', (name,))
        indexes = [
            (
                index,
                frozenset(
                    column
                    for (column,) in self._session.execute("SELECT name FROM pragma_index_info(?)", (index,))
                ),
            )
            for index, unique, partial in listed
            if unique and not partial
        ]
        keys = [names for _, names in indexes if None not in names] + (
            [frozenset(primary)] if primary else []
        )
        foreign = self._session.execute('SELECT DISTINCT "table" FROM pragma_foreign_key_list(?)', (name,))
        return TableInfo(
            columns,
            tuple(keys),
            primary,
            tuple(f"to {each}" for (each,) in foreign),
            tuple(index for index, _ in indexes),
        )

    def missing_privileges(self, table: str, wanted: Sequence[str]) -> list[str]:
        """SQLite has no privileges except those of the file."""
        return []

    def created_like(self, target: str, stage: str) -> list[str]:
        """The columns of the table with their affinities."""
        index = quoted(_plain(stage) + "_work")
        return [
            f"CREATE TABLE {stage} AS SELECT {_HEAD}, t.* FROM {target} AS t WHERE 0",
            f"CREATE INDEX {index} ON {stage} (tg_work, tg_chunk)",
        ]

    def _alone(self) -> nullcontext[None]:
        """No lock is needed: SQLite has one writing transaction at a time."""
        return nullcontext()


def _stored(value: Any) -> Any:
    """A value for SQLite: text for types that it does not have, so that lookups and comparisons by the same text work."""
    kind = type(value)
    if value is None or kind in (int, str, float, bytes):
        return value
    if kind is bool:
        return int(value)
    if kind is decimal.Decimal:
        return str(value)
    if kind is datetime.datetime:
        return value.isoformat(" ")
    if kind in (datetime.date, datetime.time):
        return value.isoformat()
    if kind in (dict, list):
        return json.dumps(value)
    raise RecordError(
        f"a value of class {kind.__name__} cannot be stored in SQLite; got {shorten(value)}; expected a number, text, bytes, a "
        "date or a time; convert it before the sink"
    )


def _plain(table: str) -> str:
    """The name of a table without its quotes and the name of the database file in front."""
    return table.rpartition('"."')[2].strip('"').replace('""', '"')
